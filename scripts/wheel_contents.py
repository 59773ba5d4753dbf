#!/usr/bin/env python3
"""Lays the licences of what a wheel bundles into it, a list of that (SBOM), and writes it anew.

    wheel_contents.py REPAIRED.whl FOLDER [LICENCES]
    wheel_contents.py --sbom VERSION           prints the list alone

The list is CycloneDX 1.6, of what scripts/wheels.txt says.  Written the same way each time: in the
order of the names, with the time SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

LISTED = Path(__file__).with_name("wheels.txt")
# What is in the file of each package: the licence of the library that is bundled.
LICENCES = {
    "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "sqlite3": "blessing",
    "liblzma5": "0BSD",
    "libbz2-1.0": "bzip2-1.0.6",
    "libzstd1": "BSD-3-Clause OR GPL-2.0-only",
}
# Where these libraries are the system's: its packages.
RPMS = {"liblzma5": "xz-libs", "libbz2-1.0": "bzip2-libs", "libzstd1": "libzstd"}
MIRROR = "https://deb.debian.org/"
NOTICE = """\
Beside pyhybrid (MIT, see LICENSE) this wheel has libraries of others, unchanged but for their
names and where they look for each other.  libelf and libdw, of elfutils, are under the LGPL,
version 3 or later, or the GPL, version 2 or later; they are shared objects, which you may replace.
Licences are beside this file.  What each was made of:

"""


def rpm(name: str) -> dict[str, object]:
    """Return the library of a system of such packages that is bundled instead of Debian's."""
    query = ["rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{SOURCERPM}", RPMS[name]]
    package, version, source = subprocess.check_output(query, text=True).split()
    return {
        "type": "library",
        "bom-ref": f"{package}@{version}",
        "name": package,
        "version": version,
        "licenses": [{"expression": LICENCES[name]}],
        "purl": f"pkg:rpm/almalinux/{package}@{version}",
        "externalReferences": [{"type": "source-distribution", "url": source}],
    }


def components() -> list[dict[str, object]]:
    """Return the bundled libraries, as CycloneDX has them."""
    found = []
    for line in LISTED.read_text().splitlines():
        if not line.startswith(("bundled", "source")):
            continue
        use, path, digest = line.split()
        name, version = Path(path).name.split("_")[:2]
        if use == "bundled" and not shutil.which("dpkg"):
            found.append(rpm(name))
            continue
        version = re.sub(r"\.orig\.tar.*", "", version)
        found.append(
            {
                "type": "library",
                "bom-ref": f"{name}@{version}",
                "name": name,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "licenses": [{"expression": LICENCES[name]}],
                "purl": f"pkg:deb/debian/{name}@{version}",
                "externalReferences": [{"type": "source-distribution", "url": MIRROR + path}],
            }
        )
    return sorted(found, key=lambda each: str(each["name"]))


def sbom(name: str, version: str) -> bytes:
    """Return the list of what is in the wheel, and of the wheel itself."""
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
    parts = components()
    ours = f"pkg:pypi/{name}@{version}"
    text = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", when),
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": name,
                "version": version,
                "licenses": [{"expression": "MIT"}],
                "purl": ours,
            },
        },
        "components": parts,
        "dependencies": [{"ref": ours, "dependsOn": [each["bom-ref"] for each in parts]}],
    }
    return (json.dumps(text, indent=1) + "\n").encode()


def notice() -> bytes:
    """Return the text that stands before the licences."""
    lines = [
        f"{each['name']} {each['version']}: {each['licenses'][0]['expression']}\n"  # type: ignore[index]
        f"    {each['externalReferences'][0]['url']}\n"  # type: ignore[index]
        for each in components()
    ]
    return (NOTICE + "".join(lines)).encode()


def write(wheel: Path, folder: Path, licences: Path | None = None) -> Path:
    """Write the wheel, with what is added, into the folder; returns its path there."""
    with zipfile.ZipFile(wheel) as old:
        files = {each.filename: old.read(each) for each in old.infolist() if not each.is_dir()}
        modes = {each.filename: each.external_attr for each in old.infolist()}
    name, version = wheel.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    for path in [path for path in files if path.startswith(f"{info}/sboms/")]:
        del files[path]  # auditwheel's, of the machine's packages
    files[f"{info}/sboms/bundled.cdx.json"] = sbom(name, version)
    files[f"{info}/licenses/bundled/NOTICE"] = notice()
    for path in sorted(licences.iterdir()) if licences else []:
        files[f"{info}/licenses/bundled/{path.name}"] = path.read_bytes()
    record = f"{info}/RECORD"
    lines = []
    for path in sorted(files.keys() - {record}):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(files[path])}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / wheel.name
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for path in sorted(files, key=lambda path: (path.startswith(f"{info}/"), path)):
            entry = zipfile.ZipInfo(path, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = modes.get(path, 0) >> 16 & 0o111
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            new.writestr(entry, files[path])
    return made


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    if sys.argv[1] == "--sbom":
        sys.stdout.buffer.write(sbom("pyhybrid", sys.argv[2]))
    else:
        print(write(*(Path(word) for word in sys.argv[1:3]), *map(Path, sys.argv[3:])))

"""Wheels as scripts/wheels.sh makes them: what is in them, and that they run as users have them.

Those that it has made of this commit are taken, or else it makes one for this interpreter.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[3]
DIST = CLONE / "build" / "wheels" / "dist"
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
GLIBC = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
BUNDLED = {"libelf", "libdw", "liblzma", "libzstd", "libbz2"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.version,
    pytest.mark.needs("plain_build", "root"),
    pytest.mark.skipif(not shutil.which("git"), reason="needs git"),
]


def run(*words: object, folder: Path = CLONE, check: bool = True, **variables: str) -> str:
    """What it printed."""
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout + done.stderr


def made(clone: Path) -> Path:
    """The wheel for this interpreter, of the current commit."""
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    cache = Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache")  # HOME is another one here
    run("scripts/wheels.sh", folder=clone, PYTHON=base, XDG_CACHE_HOME=str(cache))
    (wheel,) = (clone / "build" / "wheels" / "dist").glob(f"*-{TAG}-{TAG}-*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel() -> Path:
    commit = CLONE / "build" / "wheels" / "commit"
    found = list(DIST.glob(f"*-{TAG}-{TAG}-*.whl"))
    if found and commit.read_text().strip() == run("git", "rev-parse", "HEAD").strip():
        return found[0]
    return made(CLONE)


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """Pytest is in it, for the plugin."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    return tmp_path / "venv"


def shared_objects(folder: Path) -> Iterator[tuple[Path, set[str]]]:
    """Each, and what it needs."""
    for path in sorted(folder.rglob("*.so*")):
        lines = run("readelf", "--dynamic", "--wide", path)
        yield path, set(re.findall(r"\(NEEDED\).*\[(.*)\]", lines))


@pytest.mark.long("it may have to be built")
def test_what_is_in_it(wheel: Path, unpacked: Path) -> None:
    assert wheel.name.endswith("-manylinux_2_28_x86_64.whl")
    (info,) = unpacked.glob("*.dist-info")
    for path, digest, size in csv.reader((info / "RECORD").read_text().splitlines()):
        if path.endswith("/RECORD"):
            continue
        data = (unpacked / path).read_bytes()
        hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, size) == (f"sha256={hashed}", str(len(data))), path
    recorded = {path for path, *_ in csv.reader((info / "RECORD").read_text().splitlines())}
    files = {str(each.relative_to(unpacked)) for each in unpacked.rglob("*") if each.is_file()}
    assert files == recorded
    assert {"pyhybrid.pth", "pyhybrid.start"} < files
    libraries = {each.name.split("-")[0] for each in (unpacked / "pyhybrid.libs").iterdir()}
    assert libraries == BUNDLED
    listed = json.loads((info / "sboms" / "bundled.cdx.json").read_text())["components"]
    assert len(listed) == len(BUNDLED)  # elfutils has two of them, SQLite is in ours
    notice = (info / "licenses" / "bundled" / "NOTICE").read_text()
    for each in listed:
        assert each["externalReferences"][0]["url"] in notice
    texts = [each.name for each in (info / "licenses" / "bundled").iterdir()]
    assert {"elfutils-COPYING-LGPLV3", "elfutils-COPYING-GPLV2", "liblzma5"} < set(texts)
    assert "Requires-Dist" not in "".join(
        line for line in (info / "METADATA").read_text().splitlines() if "extra ==" not in line
    )


@pytest.mark.long("it may have to be built")
def test_what_it_is_linked_with(unpacked: Path) -> None:
    for path, needed in shared_objects(unpacked):
        others = {each.split("-")[0] for each in needed - GLIBC}
        if path.name.startswith("_symbolize."):
            assert others == {"libelf", "libdw", "liblzma", "libz.so.1"}
        elif path.name.startswith("_attach."):
            assert others == {"libdw"}
        elif path.parent.name == "pyhybrid.libs":
            continue
        else:
            assert not others, path
        # What an older C library has not must not be wanted.  (auditwheel looks at versioned ones.)
        for line in run("readelf", "--dyn-syms", "--wide", path).splitlines():
            words = line.split()
            if words[4:7:2] == ["GLOBAL", "UND"]:
                assert "@" in words[7] or words[7].startswith(("Py", "_Py")), (path.name, line)


@pytest.mark.long("it may have to be built")
def test_it_runs_and_goes(wheel: Path, venv: Path, tmp_path: Path) -> None:
    """With no compiler, and no variable of ours."""
    python = venv / "bin" / "python"
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "_tests.pth").write_text(str(Path(pytest.__file__).parents[1]))
    run(python, "-m", "pip", "install", "--no-index", wheel)
    commands = {"PATH": f"{venv}/bin", "PYTHONDONTWRITEBYTECODE": ""}  # it may write them
    assert run(venv / "bin" / "pyhybrid", "--version", **commands).strip()
    text = run(python, CLONE / "scripts" / "try_wheel.py", "--uninstall", **commands)
    assert "all is well" in text
    assert not list(venv.rglob("*pyhybrid*"))


@pytest.mark.long("it may have to be built")
def test_another_cpython_says_so(wheel: Path, unpacked: Path, venv: Path, tmp_path: Path) -> None:
    other = tmp_path / wheel.name.replace(TAG, "cp311")
    shutil.copy(wheel, other)
    python = venv / "bin" / "python"
    text = run(python, "-m", "pip", "install", "--no-index", other, check=False)
    assert "is not a supported wheel on this platform" in text
    other = tmp_path / "other"
    shutil.copytree(unpacked, other)
    for path in other.rglob("*.cpython-*.so"):
        path.rename(path.with_name(path.name.replace(f"cpython-{TAG[2:]}", "cpython-311")))
    (tmp_path / "program.py").touch()
    for words in (["program.py"], ["report", "out.pyhybrid"], ["ask"]):
        command = (python, "-m", "pyhybrid", *words)
        text = run(*command, folder=tmp_path, check=False, PYTHONPATH=str(other))
        (line,) = text.splitlines()
        assert re.search(
            r"not built for this interpreter .*: built for CPython 3.11, and this", line
        )


@pytest.mark.long("it is built again")
def test_the_same_bytes_again(wheel: Path, tmp_path: Path) -> None:
    """Of the same commit, in another folder."""
    run("git", "clone", "-q", "--no-hardlinks", CLONE, tmp_path / "clone")
    again = made(tmp_path / "clone")
    (source,) = DIST.glob("*.tar.gz")
    for one, other in ((wheel, again), (source, again.parent / source.name)):
        assert one.read_bytes() == other.read_bytes(), one.name

"""Profile files that an earlier version wrote, and what it made of them (tests/data/profiles).

NAME.txt.xz is what `outputs` gave when the file was written.  It is made anew, by
`python tests/unit/test_old_profiles.py NAME...`, only where an output is meant to change.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import lzma
import marshal
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from pyhybrid.cli import main

DATA = Path(__file__).parent.parent / "data" / "profiles"
NAMES = sorted(path.name.partition(".")[0] for path in DATA.glob("*.pyhybrid.xz"))


def text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def calls(data: bytes) -> str:
    lines = []
    for key, (*figures, callers) in sorted(marshal.loads(data).items()):
        lines += [f"{key} {figures}", *(f"  < {item}" for item in sorted(callers.items()))]
    return "\n".join(lines)


def costs(data: bytes) -> str:
    return "".join(
        line for line in text(data).splitlines(keepends=True) if not line.startswith("creator: ")
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


PLAIN = "--no-inlines"  # no debug information of this machine
REPORTS = [
    ("--json", PLAIN),
    ("tree", PLAIN),
    ("tree", "--all-frames", "--full-names", PLAIN),
    ("quality",),
    ("lines", PLAIN),
    ("--python-only", PLAIN),
    ("--native-only", "--json", PLAIN),
    ("--thread", "worker-*", "--gil", "held", "--json", PLAIN),
    ("--from", "10ms", "--to", "200ms", PLAIN),
    ("--min-time", "5ms", "--compensate", PLAIN),
]
EXPORTS: list[tuple[tuple[str, ...], Callable[[bytes], str]]] = [
    (("folded", PLAIN), text),
    (("folded", "--all-frames", "--min-time", "2ms", PLAIN), text),
    (("pstats",), calls),
    (("pstats", "--min-time", "2ms", "--compensate", "--python-only"), calls),
    (("callgrind",), costs),
    (("perf", "--exact-times"), digest),
]


def run(*arguments: str) -> int | str | None:
    """The command line's exit code."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return ended.value.code


# Whether this machine has the programs' source is no part of what is tested.
@mock.patch("pyhybrid.report.source_text._refuse_pipes", mock.Mock(side_effect=FileNotFoundError))
def outputs(name: str) -> str:
    """All of them, of the profile NAME in the working directory."""
    parts = []
    for options in REPORTS:
        with (
            contextlib.redirect_stdout(io.StringIO()) as shown,
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            code = run("report", *options, name)
        parts.append(f"# report {' '.join(options)}: {code}\n{shown.getvalue()}{said.getvalue()}")
    for (kind, *options), readable in EXPORTS:
        with contextlib.redirect_stderr(io.StringIO()):
            code = run("export", name, "-o", "exported", "-f", kind, *options)
        data = Path("exported").read_bytes() if not code else b""
        Path("exported").unlink(missing_ok=True)
        shown_as = readable(data) if data else "nothing"
        parts.append(f"# export -f {' '.join((kind, *options))}: {code}\n{shown_as}\n")
    return "".join(parts)


def unpack(name: str) -> str:
    """The file NAME.pyhybrid in the working directory."""
    path = Path(f"{name}.pyhybrid")
    path.write_bytes(lzma.decompress((DATA / f"{path}.xz").read_bytes()))
    return str(path)


@pytest.mark.parametrize("name", NAMES)
def test_is_read_as_it_was(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    expected = lzma.decompress((DATA / f"{name}.txt.xz").read_bytes()).decode()
    assert outputs(unpack(name)).splitlines() == expected.splitlines()


def write(names: list[str]) -> None:
    """What `outputs` gives, as what is expected from now on."""
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in names:
            made = outputs(unpack(name)).encode()
            (DATA / f"{name}.txt.xz").write_bytes(lzma.compress(made, preset=9))


if __name__ == "__main__":
    write(sys.argv[1:])

"""Outputs that nothing may replace are written to, and stay what they are."""

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.in_place import into


def test_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with into(str(pipe)) as path:
        Path(path).write_bytes(b"all of it")
    reader.join()
    assert read == [b"all of it"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device(tmp_path: Path) -> None:
    with into("/dev/null") as path:
        assert os.path.dirname(path) != "/dev"
        Path(path).write_bytes(b"all of it")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    full = pytest.raises(PyhybridError, match="cannot write /dev/full: No space left")
    with full, into("/dev/full") as path:
        Path(path).write_bytes(b"all of it")


@pytest.mark.parametrize(
    "place", ["/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd"], ids=["dev", "self", "pid"]
)
def test_a_descriptor_of_a_file(tmp_path: Path, place: str) -> None:
    """Nothing that is in the file goes (`>> file`, or `(echo; pyhybrid export ...) > file`)."""
    file = tmp_path / "file"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"before, ")
    with into(f"{place}/{descriptor}") as path:
        assert not path.startswith(place)
        Path(path).write_bytes(b"all of it")
    os.write(descriptor, b", after")
    os.close(descriptor)
    assert file.read_bytes() == b"before, all of it, after"


@pytest.mark.parametrize("name", ["new", "old", "folder", "link"])
def test_what_can_be_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "old")
    asked = str(tmp_path / name)
    with into(asked) as path:
        assert path == asked

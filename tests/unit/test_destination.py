"""Where exports go: what nothing may replace is written to, and stays what it is."""

import os
import stat
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import pytest
from example_profile import example, fake_symbols

from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters import Exporter
from pyhybrid.exporters.destination import Output, export_to
from pyhybrid.tables.profile import Profile


class Said(Exporter):
    """Writes some text, the second part of it first."""

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        file.seek(4)
        file.write(b"of it")
        file.seek(0)
        file.write(b"all ")
        return ["has all"]

    def refuses(self, profile: Profile, path: str) -> str:
        return "it is locked" if path.endswith("locked") else ""


class SaidAgain(Said):
    keeps_old = True


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    part = example().save(tmp_path_factory.mktemp("spool") / "x.part")
    return open_profile(part, fake_symbols())


def put(profile: Profile, path: object) -> Output:
    return export_to(Said(), profile, str(path), in_place=True)


def test_a_pipe(profile: Profile, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert put(profile, pipe) == (str(pipe), [f"{pipe} has all"])
    reader.join()
    assert read == [b"all of it"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_pipe_where_nobody_asked_for_it(profile: Profile, tmp_path: Path) -> None:
    """Nobody may read it: it is replaced, as any file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    export_to(Said(), profile, str(pipe))
    assert pipe.read_bytes() == b"all of it"


def test_a_device(profile: Profile) -> None:
    put(profile, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(PyhybridError, match="cannot write /dev/full: No space left"):
        put(profile, "/dev/full")


@pytest.mark.parametrize(
    "place", ["/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd"], ids=["dev", "self", "pid"]
)
def test_a_descriptor_of_a_file(profile: Profile, tmp_path: Path, place: str) -> None:
    """Nothing that is in the file goes (`>> file`, or `(echo; pyhybrid export ...) > file`)."""
    file = tmp_path / "file"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"before, ")
    put(profile, f"{place}/{descriptor}")
    os.write(descriptor, b", after")
    os.close(descriptor)
    assert file.read_bytes() == b"before, all of it, after"


@pytest.mark.parametrize("name", ["new", "old", "link"])
def test_what_can_be_replaced(profile: Profile, tmp_path: Path, name: str) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    put(profile, tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"all of it"
    assert not (tmp_path / name).is_symlink()
    assert sorted(os.listdir(tmp_path)) == sorted({"old", "link", name})
    assert name == "old" or (tmp_path / "old").read_bytes() == b"old"


def test_folders_that_are_not_there(profile: Profile, tmp_path: Path) -> None:
    """They are made where the user named them."""
    path = tmp_path / "a" / "b" / "x"
    put(profile, path)
    assert path.read_bytes() == b"all of it"
    with pytest.raises(PyhybridError, match=r"cannot write .*: Not a directory"):
        put(profile, path / "y" / "z")
    with pytest.raises(PyhybridError, match=r"cannot write .*: No such file"):
        export_to(Said(), profile, str(tmp_path / "c" / "x"))
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_an_old_one_is_kept(profile: Profile, tmp_path: Path) -> None:
    for _ in range(2):
        export_to(SaidAgain(), profile, str(tmp_path / "x"))
    assert sorted(os.listdir(tmp_path)) == ["x", "x.old"]


def test_what_must_not_be_there(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "locked"
    path.write_bytes(b"theirs")
    assert put(profile, path) == (None, [f"{path} not written: it is locked"])
    assert os.listdir(tmp_path) == ["locked"]
    assert path.read_bytes() == b"theirs"


def test_a_folder(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(PyhybridError, match=r"cannot write .*: Is a directory"):
        put(profile, tmp_path)
    assert os.listdir(tmp_path) == []

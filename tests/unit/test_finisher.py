"""What is taken for an interpreter, by its name and what stands around it; nothing is run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pyhybrid.capture import finisher

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No interpreter is named but what the test names."""
    for name in ("executable", "_base_executable"):
        monkeypatch.setattr(sys, name, "")
    for name in ("base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path / "prefix"))
    return tmp_path


def make(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    path.chmod(mode)
    return str(path)


def library(prefix: Path) -> None:
    make(prefix / sys.platlibdir / VERSION / "os.py")


def test_the_running_one() -> None:
    found = finisher.find_interpreter()
    assert found
    assert os.path.samefile(found, "/proc/self/exe")


@pytest.mark.parametrize("name", [VERSION, "python"])
def test_one_that_is_called_so(nowhere: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Without a version it must be the one that runs."""
    path = make(nowhere / "bin" / name)
    library(nowhere)
    monkeypatch.setattr(sys, "executable", path)
    assert finisher.find_interpreter() == (path if name == VERSION else None)


def test_in_the_prefix(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that embeds it; the program itself is none, nor is a link to it."""
    application = make(nowhere / "app" / "server")
    (nowhere / "app" / "python3").symlink_to(application)
    found = make(nowhere / "prefix" / "bin" / (VERSION + sys.abiflags))
    library(nowhere / "prefix")
    for named in (application, str(nowhere / "app" / "python3"), "", "/no/such/file", "\0"):
        monkeypatch.setattr(sys, "executable", named)
        assert finisher.find_interpreter() == found


def test_without_its_library(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(nowhere / "bin" / VERSION)
    monkeypatch.setattr(sys, "executable", path)
    assert finisher.find_interpreter() is None
    make(nowhere / "bin" / "pybuilddir.txt")  # where it was built
    assert finisher.find_interpreter() == path
    if os.geteuid():
        os.chmod(path, 0o644)
        assert finisher.find_interpreter() is None


def test_a_frozen_application(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called."""
    monkeypatch.setattr(sys, "executable", make(nowhere / "bin" / VERSION))
    library(nowhere)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert finisher.find_interpreter() is None

"""System calls, as `os` has them and as it does where CPython was built with an old C library."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys

import pytest

from pyhybrid.base.system_calls import memfd_create, pidfd_open


@pytest.fixture(params=["here", "missing"], autouse=True)
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "missing":
        for name in ("pidfd_open", "memfd_create"):
            monkeypatch.delattr(os, name, raising=False)


def test_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = pidfd_open(child.pid)
        assert not os.get_inheritable(process)
        assert not select.select([process], [], [], 0)[0]
        assert child.stdin
        child.stdin.write(b"\n")
        child.stdin.close()
        assert select.select([process], [], [], 30)[0]
    os.close(process)
    with pytest.raises(ProcessLookupError) as refused:
        pidfd_open(child.pid)  # it has been waited for
    assert refused.value.errno == errno.ESRCH


def test_a_file_in_memory() -> None:
    file = memfd_create("name")
    assert not os.get_inheritable(file)
    assert os.readlink(f"/proc/self/fd/{file}") == "/memfd:name (deleted)"
    assert os.write(file, b"text") == 4
    os.close(file)

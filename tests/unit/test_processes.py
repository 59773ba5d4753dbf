"""What the files of /proc tell of a process, and what would permit more."""

import os
import sys
from pathlib import Path

import pytest

from pyhybrid.attach import processes
from pyhybrid.attach.processes import Process, refusal
from pyhybrid.errors import UsageError


def test_this_process_is_found() -> None:
    ours = Process(os.getpid())
    assert ours.version == sys.version_info[:3]
    assert not ours.listens_by and not ours.is_profiled
    assert len(ours.functions) == len(set(ours.functions.values())) == 14


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (1, "run this as root, `sysctl kernel.yama.ptrace_scope=0`, or start the program with"),
        (2, "run this with CAP_SYS_PTRACE, or start the program with PYHYBRID_LISTEN=1"),
        (3, "until the next boot): or start"),
    ],
)
def test_what_would_permit_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scope: int, said: str
) -> None:
    (tmp_path / "scope").write_text(f"{scope}\n")
    monkeypatch.setattr(processes, "_YAMA", str(tmp_path / "scope"))
    monkeypatch.setattr(processes, "status_of", lambda pid, key: "0")
    error = refusal(1, PermissionError(1, "Operation not permitted"))
    assert isinstance(error, UsageError) and error.exit_code == 2
    assert said in str(error) and "\n" not in str(error)

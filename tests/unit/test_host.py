"""What the profile says of the machine, and what it leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyhybrid.capture import machine

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) CPU: two
stepping\t: 7

processor\t: 1
vendor_id\t: AnotherOne
"""


def getconf(name: str) -> str:
    return subprocess.run(["getconf", name], capture_output=True, text=True, check=True).stdout


def test_this_machine() -> None:
    told = machine.describe()
    assert told["hostname"] == os.uname().nodename
    pages, page_size = map(int, (getconf("_PHYS_PAGES"), getconf("PAGE_SIZE")))
    assert told["memory_kb"] == pages * page_size >> 10


def test_the_first_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPUINFO", str(file))
    assert "cpu" not in machine.describe()
    file.write_text(CPUINFO)
    told = machine.describe()
    assert told["cpu"] == "Intel(R) Xeon(R) CPU: two"
    assert told["cpuid"] == "GenuineIntel,6,85,7"
    file.write_text("processor\t: 0\n")
    assert "cpuid" not in machine.describe()


FORBIDS = """
import sys

def forbid(event, arguments):
    if event == "open":
        raise RuntimeError("no files")

from pyhybrid.capture import machine
sys.addaudithook(forbid)
print(sorted(machine.describe()))
"""


def test_a_program_that_forbids_to_open_files() -> None:
    command = [sys.executable, "-P", "-c", FORBIDS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "hostname" in done.stdout
    assert "cpu" not in done.stdout.replace("n_cpus", "")
    assert "boot_id" not in done.stdout

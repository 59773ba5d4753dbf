"""What the profile says of the machine, and what it leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyhybrid.capture import machine
from pyhybrid.capture.machine import ProcessorWaits

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


@pytest.mark.parametrize(
    ("hierarchies", "mounted", "key", "unit"),
    [
        ("0::/pod/box\n", "sys/fs/cgroup", "throttled_usec", 1000),
        (
            "9:name=systemd:/\n3:cpu,cpuacct:/pod/box\n0::/\n",
            "sys/fs/cgroup/cpu",
            "throttled_time",
            1,
        ),
        # What a container may see: its group by the outer name, but only what is in it.
        ("0::/../../box\n", "sys/fs/cgroup", "throttled_usec", 1000),
    ],
)
def test_how_long_a_quota_held_the_program_back(
    tmp_path: Path, hierarchies: str, mounted: str, key: str, unit: int
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(hierarchies)
    folder = tmp_path / mounted
    folder.mkdir(parents=True)
    groups = [folder, folder / "pod"] if "pod" in hierarchies else [folder]

    def used(times: int, ns: int) -> None:
        for group in groups:
            group.mkdir(exist_ok=True)
            text = f"nr_periods 99\nnr_throttled {times}\n{key} {ns // unit}\n"
            (group / "cpu.stat").write_text(text)

    used(3, 5_000_000)
    waits = ProcessorWaits(str(tmp_path))
    waits.begin()
    assert waits.figures() == {}
    used(8, 45_000_000)
    assert waits.figures() == {"throttled": 5, "throttled_ns": 40_000_000}
    for group in groups:
        (group / "cpu.stat").write_text("garbage")
    assert waits.figures() == {}


def test_how_long_the_main_thread_had_no_processor(tmp_path: Path) -> None:
    folder = tmp_path / f"proc/self/task/{os.getpid()}"
    folder.mkdir(parents=True)
    waits = ProcessorWaits(str(tmp_path))
    waits.begin()
    assert waits.figures() == {}
    (folder / "schedstat").write_text("1000 200 3\n")
    assert waits.figures() == {}
    waits = ProcessorWaits(str(tmp_path))
    assert waits.figures() == {}
    waits.begin()
    (folder / "schedstat").write_text("5000 900 7\n")
    assert waits.figures() == {"main_delay_ns": 700}
    waits.end()
    (folder / "schedstat").write_text("6000 1900 9\n")
    assert waits.figures() == {"main_delay_ns": 700}
    waits.begin()
    (folder / "schedstat").write_text("7000 1950 9\n")
    assert waits.figures() == {"main_delay_ns": 750}
    (folder / "schedstat").unlink()
    waits.end()
    assert waits.figures() == {}


FORBIDS = """
import sys

def forbid(event, arguments):
    if event == "open":
        raise RuntimeError("no files")

from pyhybrid.capture import machine
from pyhybrid.capture.machine import ProcessorWaits
sys.addaudithook(forbid)
waits = ProcessorWaits()
waits.begin()
assert waits.figures() == {}
print(sorted(machine.describe()))
"""


def test_a_program_that_forbids_to_open_files() -> None:
    command = [sys.executable, "-P", "-c", FORBIDS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "hostname" in done.stdout
    assert "cpu" not in done.stdout.replace("n_cpus", "")
    assert "boot_id" not in done.stdout

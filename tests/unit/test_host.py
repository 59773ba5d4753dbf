"""What the profile says of the machine, and what it leaves out."""

import os
from pathlib import Path

import pytest

from pyhybrid import host

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


def test_this_machine() -> None:
    told = host.describe()
    assert told["hostname"] == os.uname().nodename
    assert f"MemTotal: {told['memory_kb']:>14} kB" in Path("/proc/meminfo").read_text()


def test_the_first_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(host, "CPUINFO", str(file))
    assert "cpu" not in host.describe()
    file.write_text(CPUINFO)
    told = host.describe()
    assert told["cpu"] == "Intel(R) Xeon(R) CPU: two"
    assert told["cpuid"] == "GenuineIntel,6,85,7"
    file.write_text("processor\t: 0\n")
    assert "cpuid" not in host.describe()

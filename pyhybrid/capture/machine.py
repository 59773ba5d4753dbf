"""The machine that a program runs on, for the profile's meta data: perf.data's head names it."""

import os
from typing import Any

from pyhybrid.capture.boot_id import boot_id

CPUINFO = "/proc/cpuinfo"
_FIRST_PROCESSOR = 4096  # bytes that hold its lines; the file has some 1,500 for each processor


def describe() -> dict[str, Any]:
    """Name, kernel, processors, memory and which boot it is; without what cannot be known.

    Never raises: the program may forbid to open files (audit hooks).
    """
    told: dict[str, Any] = {}
    for look in (_system, _processor, _boot):
        try:
            told |= look()
        except Exception:
            continue
    return told


def _system() -> dict[str, Any]:
    system = os.uname()
    return {
        "hostname": system.nodename,
        "os_release": system.release,
        "arch": system.machine,
        "n_cpus": os.cpu_count() or 1,
        "memory_kb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10,
    }


def _boot() -> dict[str, str]:
    return {"boot_id": boot_id()}


def _processor() -> dict[str, str]:
    """The first processor's name, and what perf knows its kind by: vendor,family,model,stepping."""
    with open(CPUINFO, "rb", buffering=0) as file:
        text = file.read(_FIRST_PROCESSOR) or b""
    lines = text.decode("ascii", "replace").partition("\n\n")[0].splitlines()
    known = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    kind = (known[key] for key in ("vendor_id", "cpu family", "model", "stepping"))
    return {"cpu": known["model name"], "cpuid": ",".join(kind)}

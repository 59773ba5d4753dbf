"""The machine that a program runs on, for the profile's meta data: perf.data's head names it."""

import os
from typing import Any

CPUINFO = "/proc/cpuinfo"
_FIRST_PROCESSOR = 4096  # bytes that hold its lines; the file has some 1,500 for each processor


def describe() -> dict[str, Any]:
    """Name, kernel, processors and memory; without what cannot be known."""
    system = os.uname()
    return {
        "hostname": system.nodename,
        "os_release": system.release,
        "arch": system.machine,
        "n_cpus": os.cpu_count() or 1,
        "memory_kb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10,
        **_processor(),
    }


def _processor() -> dict[str, str]:
    """The first processor's name, and what perf knows its kind by: vendor,family,model,stepping."""
    try:
        with open(CPUINFO, "rb", buffering=0) as file:
            text = file.read(_FIRST_PROCESSOR) or b""
    except OSError:
        return {}
    lines = text.decode("ascii", "replace").partition("\n\n")[0].splitlines()
    known = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    try:
        kind = (known[key] for key in ("vendor_id", "cpu family", "model", "stepping"))
        return {"cpu": known["model name"], "cpuid": ",".join(kind)}
    except KeyError:
        return {}

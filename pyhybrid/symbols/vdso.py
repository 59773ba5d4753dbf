"""The kernel's code in every process (`man 7 vdso`): an ELF file that is in no file system."""

import os
import re

NAME = "[vdso]"  # in /proc/PID/maps, and of its module in a spool


def open_vdso() -> int:
    """A descriptor of a file without a name with this process's vdso.

    Raises OSError where there is none.  It is the profiled process's if the build-id is the same.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        ranges = re.findall(rf"^(\w+)-(\w+) .*{re.escape(NAME)}$", maps.read(), re.MULTILINE)
    if not ranges:
        raise FileNotFoundError(2, "no vdso is mapped", NAME)
    start, end = (int(each, 16) for each in ranges[0])
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        image = memory.read(end - start)
    import tempfile  # here, because little of a run's end takes longer to import

    with tempfile.TemporaryFile(buffering=0) as file:  # not all builds of CPython have memfd_create
        file.write(image)
        return os.dup(file.fileno())


def full_name(symbol: str) -> str:
    """The longer of its two names: libc's own function has the shorter one, too."""
    return symbol if symbol.startswith("__vdso_") else f"__vdso_{symbol}"

"""The machine that a program runs on, for the profile's meta data: perf.data's head names it."""

from __future__ import annotations

import os
import sys
from io import FileIO as _File  # as it is now: the program may replace it
from posix import times  # this, too

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from typing import Any

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Return what distinguishes this run of the kernel from others; "" where it is not known."""
    try:
        with open(BOOT_ID, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


CPUINFO = "/proc/cpuinfo"
_FIRST_PROCESSOR = 4096  # bytes that hold its lines; the file has some 1,500 for each processor


def describe() -> dict[str, Any]:
    """Return name, kernel, processors, memory and which boot it is; without what cannot be known.

    Never raises: the program may forbid to open files (audit hooks).
    """
    known: dict[str, Any] = {}
    for look in (_system, _processor, _boot):
        try:
            known |= look()
        except Exception:
            continue
    return known


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
    """Return the first processor's name, and what perf knows its kind by:
    vendor,family,model,stepping."""
    with open(CPUINFO, "rb", buffering=0) as file:
        text = file.read(_FIRST_PROCESSOR) or b""
    lines = text.decode("ascii", "replace").partition("\n\n")[0].splitlines()
    known = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    kind = (known[key] for key in ("vendor_id", "cpu family", "model", "stepping"))
    return {"cpu": known["model name"], "cpuid": ",".join(kind)}


# For how long the program was ready to run, but had no processor: by the kernel's figures.
#
# The main thread's time on a run queue (Linux: Documentation/scheduler/sched-stats.rst), and the
# time for which a container's CPU quota held its processes back (cgroup `cpu.stat`, of both
# versions). Looked at when a run begins and when it ends; not known is no error.

# Where the kernel's groups are mounted, by the hierarchy in /proc/self/cgroup; "": version 2.
_MOUNTED = {
    "": ("sys/fs/cgroup", "sys/fs/cgroup/unified"),
    "cpu": ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"),
}
_MOST_BYTES = 1 << 16


class ProcessorWaits:
    """Measure what came since it was made, of the main thread while the program was profiled:
    `figures`.

    `root`: of the file system.  Never raises: the program may forbid to open files.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._delay = os.path.join(root, f"proc/self/task/{os.getpid()}/schedstat")
        self._files = [path for path in self._stat_files() if _quota(path)]
        self._quota = self._quota_now()
        self._delay_ns: int | None = None  # in stretches that have ended; None: not known
        self._since_ns: int | None = None  # when the one that runs began
        self._began = self._runs = False

    def begin(self) -> None:
        """Count from now on: the program is profiled."""
        if not self._began:
            self._began, self._delay_ns = True, 0
        self._runs, self._since_ns = True, self._delay_now()

    def end(self) -> None:
        """Count no more, until `begin`."""
        self._delay_ns, self._runs = self._so_far(), False

    def _so_far(self) -> int | None:
        if not self._runs or self._delay_ns is None:
            return self._delay_ns
        now_ns = self._delay_now()
        if now_ns is None or self._since_ns is None:
            return None
        return self._delay_ns + now_ns - self._since_ns

    def figures(self) -> dict[str, Any]:
        """Return what the profile's meta data gets: `main_delay_ns`, `throttled` (how often),
        `throttled_ns`."""
        figures: dict[str, Any] = {}
        if (delay_ns := self._so_far()) is not None:
            figures["main_delay_ns"] = delay_ns
        before, after = self._quota, self._quota_now()
        # Of groups within one another each has its own quota, and one is what held it back most.
        since = [(a[1] - b[1], a[0] - b[0]) for a, b in zip(after, before, strict=True) if a and b]
        if since and max(since)[0] > 0:
            figures["throttled_ns"], figures["throttled"] = max(since)
        return figures

    def _delay_now(self) -> int | None:
        try:
            return int(_read(self._delay).split()[1])
        except Exception:
            return None

    def _quota_now(self) -> list[tuple[int, int] | None]:
        return [_quota(path) for path in self._files]

    def _stat_files(self) -> list[str]:
        """Return the `cpu.stat` of the process's groups and of those around them."""
        try:
            lines = _read(os.path.join(self._root, "proc/self/cgroup")).splitlines()
        except Exception:
            return []
        found = []
        for line in lines:
            _, hierarchy, group = line.split(":", 2)
            kind = "cpu" if "cpu" in hierarchy.split(",") else hierarchy
            for mounted in _MOUNTED.get(kind, ()):
                # A container may see the outer name of its group, but not the group there.
                folder = group.strip("/")
                while True:
                    path = os.path.join(self._root, mounted, folder, "cpu.stat")
                    if path not in found:
                        found.append(path)
                    if not folder:
                        break
                    folder = os.path.dirname(folder)
        return found


def _quota(path: str) -> tuple[int, int] | None:
    """Return how often a group was held back, and for how many nanoseconds on all processors
    together; None: there is no such file, or it has no such figures."""
    try:
        facts = dict(line.split() for line in _read(path).splitlines())
        times = (("throttled_time", 1), ("throttled_usec", 1000))
        (ns,) = [int(facts[key]) * unit for key, unit in times if key in facts]
        return int(facts["nr_throttled"]), ns
    except Exception:
        return None


def _read(path: str) -> str:
    with _File(path) as file:
        return (file.read(_MOST_BYTES) or b"").decode("ascii", "replace")


MOST_CHILDREN = 20  # whose names are kept


class Children:
    """Measure what child processes took since it was made, which are not profiled: `figures`."""

    def __init__(self) -> None:
        self._began = _children_s()

    def figures(self) -> dict[str, Any]:
        """Return what the profile's meta data gets, where there was a child.

        `children_cpu_ns`: of those that have ended and were waited for, in the kernel's ticks;
        `children`: names of multiprocessing's that somebody still refers to.
        """
        figures: dict[str, Any] = {}
        if spent := _children_s() - self._began:
            figures["children_cpu_ns"] = round(spent * 1e9)
        if names := _names_of_children():
            figures["children"] = names
        return figures


def _children_s() -> float:
    user_s, system_s = times()[2:4]
    return user_s + system_s


def _names_of_children() -> list[str]:
    """Return the names that multiprocessing gave them, or the program."""
    module = sys.modules.get("multiprocessing.process")
    try:
        names = {str(each.name) for each in tuple(getattr(module, "_dangling", ()))}
    except Exception:  # whatever the program has put there
        return []
    return sorted(names)[:MOST_CHILDREN]

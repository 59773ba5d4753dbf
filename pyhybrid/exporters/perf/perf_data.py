"""perf.data: every sample for `perf report`, `perf script` and whatever reads their output.

Format: layout.py.  Native frames are their addresses, named by perf from the files (by
build-id); Python functions, pseudo-frames and native functions of which perf would find no name
are synthetic addresses (addresses.py), named by the perf map (names_map.py).  A
sample's period is its weight in nanoseconds.  Where calls were traced, a second event has exact
self times if it is asked for, or if nothing was sampled (samples.py).  perf shows at most 127
frames of a call chain without `--max-stack`.

Within a limit of bytes a file is coarser, never less in all.  First all samples of a thread and
call path are one, with the sum of their periods: then it is not known when and on which CPU they
came, so each has the time of its thread's last sample, and CPU 0 (not -1, which readers of
`perf script` take for no number).  Then the paths with most weight are cut to the frames that perf
shows, and of the rest the function alone is written (exporters/__init__.py).
"""

import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from pyhybrid.exporters import SEPARATORS, SHOWN, Exporter, Summed, within
from pyhybrid.exporters.perf import layout as form
from pyhybrid.exporters.perf.addresses import (
    PF_X,
    Images,
    SyntheticAddresses,
    node_addresses,
    stack_addresses,
)
from pyhybrid.exporters.perf.samples import (
    Chains,
    Record,
    clock_samples,
    in_rounds,
    summed_samples,
)
from pyhybrid.tables import Module, Thread
from pyhybrid.tables.profile import Profile

EXACT_EVENT = "pyhybrid/exact-self-ns/"
CLOCK_RESOLUTION_NS = 1
EXACT_PART = 8  # of the limit: that of exact times, whose paths are many and mostly short


class Perf(Exporter):
    """Write perf.data; an older one becomes perf.data.old, as `perf record` does it."""

    name = "perf"
    help = "perf.data for perf report and perf script"
    keeps_old = True
    is_text = False

    def __init__(self, images: Images | None = None, exact_times: bool = False) -> None:
        """Take `images` for the usual places of names; `exact_times`: with that event."""
        self._images = images
        self.exact_times = exact_times

    def default_path(self, profile: Profile, prefix: str) -> str:
        """Return perf.data beside the profile, where perf looks; PREFIX.perf.data with -o PREFIX or
        in a `perf record` around the run, perf.data.PID where the usual prefix was in use."""
        if profile.meta.get("custom_prefix") or profile.meta.get("perf_trampoline"):
            return prefix + ".perf.data"
        name = "perf.data" + str(profile.meta.get("prefix_suffix", ""))
        return os.path.join(os.path.dirname(prefix), name)

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write the file, with samples of `limit_bytes` at most."""
        images = self._images or Images(profile)
        samples = _Samples(profile, images.synthetic, self.exact_times)
        less = samples.keep_within(limit_bytes) if limit_bytes is not None else ""
        _write(profile, file, images, samples)
        return [f"has {less}"] if less else []


class _Samples:
    """Hold the events of a profile and their samples."""

    def __init__(self, profile: Profile, synthetic: SyntheticAddresses, exact_times: bool) -> None:
        self._profile = profile
        self.events: list[form.Event] = []
        traced_only = profile.meta.get("mode") == "trace"
        if not traced_only:
            name = "wall-clock" if profile.meta.get("clock") == "wall" else "cpu-clock"
            self.events.append(form.Event(name, form.CPU_CLOCK, profile.period_ns))
        left_out = synthetic.left_out
        self._stacks = Chains(
            profile.stacks.parent, stack_addresses(profile, synthetic), 0, left_out
        )
        counted = profile.exact if exact_times or traced_only else []
        self._counted = [row for row in counted if row.self_ns > 0]
        has_exact = bool(self._counted)
        parents: Sequence[int] = profile.nodes.parent if has_exact else [0]
        nodes = node_addresses(profile, synthetic) if has_exact else [0]
        self._nodes = Chains(parents, nodes, len(self.events), left_out)
        if traced_only or has_exact:
            self.events.append(form.Event(EXACT_EVENT, form.TASK_CLOCK, 1))
        self._exact: list[Summed] | None = None  # None: all rows
        self._summed: list[Summed] | None = None  # None: every sample by itself

    def keep_within(self, limit_bytes: int) -> str:
        """Reduce what is larger; returns what the file has then, and how to get all; or ""."""
        notes = []
        exact_size = self._nodes.total_bytes([row.node for row in self._counted])
        if (left := limit_bytes - exact_size) < (least := limit_bytes - limit_bytes // EXACT_PART):
            left = least
            self._exact, share = self._within(self._exact_rows(), limit_bytes - left, self._nodes)
            notes.append(f"exact times by call path for {share:.1%} of the time, else by function")
        size = sum(row.samples * self._stacks.size(row.stack) for row in self._profile.sampled)
        if size > left:
            self._summed = self._summed_rows()
            notes.append("summed periods, one sample per thread and call path")
            if self._stacks.total_bytes([row.row for row in self._summed]) > left:
                self._summed, share = self._within(self._summed, left, self._stacks)
                notes[-1] += f" of {SHOWN} frames at most for {share:.1%}, else by function"
        how = " --exact-times" if exact_size and size else ""
        whole = f" (all: {exact_size + size >> 20} MB by `pyhybrid export -f perf{how}`)"
        return "; ".join(notes) + whole if notes else ""

    @staticmethod
    def _within(
        rows: Iterable[Summed], limit_bytes: int, chains: Chains
    ) -> tuple[list[Summed], float]:
        return within(rows, limit_bytes, chains.addresses, chains.size)

    def _exact_rows(self) -> Iterable[Summed]:
        if self._exact is not None:
            return self._exact
        return (Summed(row.thread, row.node, row.self_ns) for row in self._counted)

    def _summed_rows(self) -> list[Summed]:
        weights: Counter[tuple[int, int]] = Counter()
        for row in self._profile.sampled:
            weights[row.thread, row.stack] += row.weight_ns
        return [Summed(*key, weight) for key, weight in weights.items()]

    def times(self) -> tuple[int, int]:
        """Return the times of the clock's first sample and its last one."""
        threads = self._profile.threads.values()
        times = [t for thread in threads for t in (thread.first_ns, thread.last_ns) if t]
        return min(times, default=0), max(times, default=0)

    def in_order(self, first: list[Record]) -> Iterator[bytes]:
        """Yield all records by time, with those of `first`.

        Exact samples come when all is over, later than the last of the clock: so
        `perf script --time 0%-100%` leaves them out.  Those of a thread whose number another one
        got come while it is still its own.
        """
        profile = self._profile
        latest = {thread.tid: thread.id for thread in _by_begin(profile)}.values()
        gone = (row for row in self._exact_rows() if row.thread not in latest)
        early = self._exact_samples(gone, None)
        yield from in_rounds(self._clock_samples(), [*first, *early])
        over_ns = max(profile.process.end_ns or 0, self.times()[1] + 1)
        last = (row for row in self._exact_rows() if row.thread in latest)
        for _, record in self._exact_samples(last, over_ns):
            yield record

    def _exact_samples(self, rows: Iterable[Summed], time_ns: int | None) -> Iterator[Record]:
        return summed_samples(self._profile, self._nodes, rows, time_ns)

    def _clock_samples(self) -> Iterator[tuple[int, list[Record]]]:
        if self._summed is None:
            return clock_samples(self._profile, self._stacks)
        return iter([(0, list(summed_samples(self._profile, self._stacks, self._summed, None)))])


def _write(profile: Profile, file: BinaryIO, images: Images, samples: _Samples) -> None:
    features = sorted(_features(profile, images, samples).items())
    head_size = form.head_size(len(samples.events))
    file.seek(head_size)
    file.writelines(samples.in_order(list(_side_records(profile, images))))
    end = file.tell()
    file.write(form.tail(end, [body for _, body in features]))
    file.seek(0)
    file.write(form.head(samples.events, end - head_size, [number for number, _ in features]))


def _side_records(profile: Profile, images: Images) -> Iterator[Record]:
    """Yield the kernel, the threads, and all that is mapped."""
    pids = sorted({process.pid for process in profile.processes.values()})
    yield 0, form.kernel_map(*images.kernel_text)
    yield from _threads(profile)
    moved = _overlapping(list(profile.modules.values()))
    for module in profile.modules.values():
        # At time 0 perf takes a map as there from the start: right for all but reused addresses.
        time_ns = module.load_ns if module.id in moved else 0
        build_id = images.build_id(module)
        for start, size, file_offset, flags in module.segments:
            if flags & PF_X:
                identity = (module.path, build_id, time_ns)
                for pid in pids:
                    yield time_ns, form.mmap2(pid, start, size, file_offset, *identity)
    for mapping in images.anonymous:
        for pid in pids:
            yield 0, form.mmap2(pid, *mapping)


def _threads(profile: Profile) -> Iterator[Record]:
    """Yield begins and names of threads; those with a number used again begin when seen."""
    seen: set[int] = set()
    for thread in _by_begin(profile):
        pid = profile.pid_of(thread.id)
        begin_ns = _begin_ns(thread) if thread.tid in seen else 0
        seen.add(thread.tid)
        if thread.tid != pid:
            yield begin_ns, form.fork(pid, thread.tid, begin_ns)
        name = thread.name.translate(SEPARATORS)
        yield begin_ns, form.comm(pid, thread.tid, name, begin_ns)


def _by_begin(profile: Profile) -> list[Thread]:
    """Sort the threads by begin; never sampled ones have the last ids, whenever they were."""
    return sorted(profile.threads.values(), key=_begin_ns)


def _begin_ns(thread: Thread) -> int:
    return min(filter(None, (thread.start_ns, thread.first_ns)), default=0)  # 0: not known


def _overlapping(modules: list[Module]) -> set[int]:
    """Return modules that share addresses with another one, after one of the two was unloaded."""
    ranges = sorted((start, start + size, m.id) for m in modules for start, size, *_ in m.segments)
    shared: set[int] = set()
    end, owner = 0, 0
    for start, stop, module in ranges:
        if start < end and module != owner:
            shared |= {module, owner}
        if stop > end:
            end, owner = stop, module
    return shared


def _features(profile: Profile, images: Images, samples: _Samples) -> dict[int, bytes]:
    """Return the feature sections, by number: those of which the profile has the contents."""
    meta, text = profile.meta, form.feature_string
    files = [(module.path, images.build_id(module)) for module in profile.modules.values()]
    files += [(mapping.path, mapping.build_id) for mapping in images.anonymous]
    files.append((form.KERNEL_PATH, images.kernel_build_id))
    features = {
        form.FEATURE_BUILD_ID: form.feature_build_ids(
            [file for file in dict.fromkeys(files) if file[1]]
        ),
        form.FEATURE_VERSION: text(f"pyhybrid {meta.get('version') or '?'}"),
        form.FEATURE_CMDLINE: form.feature_strings(profile.process.argv or ["?"]),
        form.FEATURE_EVENT_DESC: form.feature_event_desc(samples.events),
        form.FEATURE_SAMPLE_TIME: form.feature_times(*samples.times()),
        form.FEATURE_CLOCKID: struct.pack("<Q", CLOCK_RESOLUTION_NS),
    }
    for number, key in (
        (form.FEATURE_HOSTNAME, "hostname"),
        (form.FEATURE_OSRELEASE, "os_release"),
        (form.FEATURE_ARCH, "arch"),
        (form.FEATURE_CPUDESC, "cpu"),
        (form.FEATURE_CPUID, "cpuid"),
    ):
        if meta.get(key):
            features[number] = text(meta[key])
    if n_cpus := meta.get("n_cpus"):
        features[form.FEATURE_NRCPUS] = struct.pack("<II", n_cpus, n_cpus)
    if memory_kb := meta.get("memory_kb"):
        features[form.FEATURE_TOTAL_MEM] = struct.pack("<Q", memory_kb)
    unix_ns, start_ns = meta.get("start_unix_ns"), meta.get("start_ns")
    if unix_ns and start_ns:
        features[form.FEATURE_CLOCK_DATA] = form.feature_clock_data(unix_ns, start_ns)
    return features

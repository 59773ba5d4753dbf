"""perf.data: every sample for `perf report`, `perf script` and whatever reads their output.

Format: perf_format.py.  Native frames are their addresses, named by perf from the files (by
build-id); Python functions and pseudo-frames are synthetic addresses (addresses.py), named by the
perf map (perf_map.py).  A sample's period is its weight in nanoseconds.  perf shows at most 127
frames of a call chain unless told otherwise (`--max-stack`).
"""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from typing import BinaryIO

from pyhybrid.atomic import replacing
from pyhybrid.exporters import perf_format as form
from pyhybrid.exporters.addresses import SyntheticAddresses
from pyhybrid.exporters.output import Output
from pyhybrid.profile_file import Profile
from pyhybrid.rows import Chunk, Module, stack_of

PF_X = 1


class Perf:
    """Writes perf.data; an older one becomes perf.data.old, as `perf record` does it."""

    name = "perf"
    help = "perf.data for perf report and perf script"

    def default_path(self, profile: Profile, prefix: str) -> str:
        """perf.data beside the profile, where perf looks; PREFIX.perf.data with -o PREFIX,
        perf.data.PID where the usual prefix was in use."""
        if profile.meta.get("custom_prefix"):
            return prefix + ".perf.data"
        name = "perf.data" + str(profile.meta.get("prefix_suffix", ""))
        return os.path.join(os.path.dirname(prefix), name)

    def write(self, profile: Profile, path: str, limit_bytes: int | None = None) -> Output:
        """Write the file at `path`; beyond `limit_bytes` one sample per thread and call path.

        Raises PyhybridError.
        """
        notes = []
        chains = _Chains(profile)
        samples = _each_sample(profile, chains)
        if limit_bytes is not None and chains.total_bytes() > limit_bytes:
            samples = _summed_samples(profile, chains)
            notes.append(
                f"{path} has one sample per thread and call path, with summed periods: all would "
                f"take {chains.total_bytes() >> 20} MB (`pyhybrid export -f perf` writes them)"
            )
        with replacing(path) as temporary:
            with open(temporary, "wb") as file:
                self._write(profile, file, samples)
            if os.path.lexists(path):
                os.replace(path, path + ".old")
        return Output(path, notes)

    def _write(self, profile: Profile, file: BinaryIO, samples: Iterator[bytes]) -> None:
        features = _features(profile)
        file.seek(form.HEAD_SIZE)
        file.write(b"".join(_side_records(profile)))
        file.writelines(samples)
        end = file.tell()
        file.write(form.tail(end, list(features.values())))
        file.seek(0)
        file.write(form.head(profile.period_ns, end - form.HEAD_SIZE, list(features)))


class _Chains:
    """Each sampled stack's part of a record: constants of its head, and the call chain's bytes."""

    def __init__(self, profile: Profile) -> None:
        synthetic = SyntheticAddresses(profile).of_frame
        stacks, frames = profile.stacks, profile.nodes.frame
        parents = stacks.parent
        addresses = [
            synthetic.get(frames[node], 0) if address is None else address
            for node, address in zip(stacks.node, stacks.address, strict=True)
        ]
        self._profile = profile
        self.of_stack: dict[int, tuple[tuple[int, int, int, int, int], bytes]] = {}
        for stack in {sampled.stack for sampled in profile.sampled}:
            path = []
            at = stack
            while at:
                path.append(addresses[at])
                at = parents[at]
            chain = form.chain_bytes(path)
            self.of_stack[stack] = (form.sample_constants(len(chain), path[0]), chain)

    def total_bytes(self) -> int:
        """The size of all samples, each a record."""
        return sum(each.samples * self.of_stack[each.stack][0][2] for each in self._profile.sampled)


def _each_sample(profile: Profile, chains: _Chains) -> Iterator[bytes]:
    pid, pack, of_stack = profile.process.pid, form.pack_sample, chains.of_stack
    period_ns = profile.period_ns
    for chunk in profile.timeline():
        tid = profile.threads[chunk.thread].tid
        parts: list[bytes] = []
        for place, time_ns, cpu, periods in zip(
            chunk.place, _times(chunk), _cpus(chunk), _weights(chunk), strict=True
        ):
            constants, chain = of_stack[stack_of(place)]
            parts.append(pack(*constants, pid, tid, time_ns, cpu, 0, periods * period_ns))
            parts.append(chain)
        yield b"".join(parts)


def _times(chunk: Chunk) -> Iterator[int]:
    times = accumulate(chunk.dt_ns, initial=chunk.first_ns)
    next(times)
    return times


def _weights(chunk: Chunk) -> list[int]:
    weights = [1] * len(chunk.place)
    for index, periods in chunk.weights.items():
        weights[index] = periods
    return weights


def _cpus(chunk: Chunk) -> list[int]:
    cpus: list[int] = []
    changes = sorted(chunk.cpus.items())
    ends = [*(index for index, _ in changes[1:]), len(chunk.place)]
    for (_, cpu), end in zip(changes, ends, strict=True):
        cpus += [cpu] * (end - len(cpus))
    return cpus


def _summed_samples(profile: Profile, chains: _Chains) -> Iterator[bytes]:
    pid = profile.process.pid
    weights: Counter[tuple[int, int]] = Counter()
    for sampled in profile.sampled:
        weights[sampled.thread, sampled.stack] += sampled.weight_ns
    for (number, stack), weight_ns in weights.items():
        thread = profile.threads[number]
        constants, chain = chains.of_stack[stack]
        time_ns = thread.first_ns or 0
        yield form.pack_sample(*constants, pid, thread.tid, time_ns, 0, 0, weight_ns) + chain


def _side_records(profile: Profile) -> Iterator[bytes]:
    """The kernel, the threads, and all that is mapped."""
    pid, synthetic = profile.process.pid, SyntheticAddresses(profile)
    yield form.kernel_map(*profile.meta.get("kernel_text") or ())
    for thread in profile.threads.values():
        yield form.comm(pid, thread.tid, thread.name.replace(";", ":"))
    moved = _overlapping(list(profile.modules.values()))
    for module in profile.modules.values():
        # At time 0 perf takes a map as there from the start: right for all but reused addresses.
        time_ns = module.load_ns if module.id in moved else 0
        build_id = bytes.fromhex(module.build_id or "")
        for start, size, file_offset, flags in module.segments:
            if flags & PF_X:
                yield form.mmap2(pid, start, size, file_offset, module.path, build_id, time_ns)
    for start, size in [*synthetic.jit, (synthetic.base, synthetic.size)]:
        yield form.mmap2(pid, start, size, 0, "//anon")


def _overlapping(modules: list[Module]) -> set[int]:
    """The modules that share addresses with another one, after one of the two was unloaded."""
    ranges = sorted((start, start + size, m.id) for m in modules for start, size, *_ in m.segments)
    shared: set[int] = set()
    end, owner = 0, 0
    for start, stop, module in ranges:
        if start < end and module != owner:
            shared |= {module, owner}
        if stop > end:
            end, owner = stop, module
    return shared


def _features(profile: Profile) -> dict[int, bytes]:
    """The feature sections, by number."""
    meta, process = profile.meta, profile.process
    n_cpus = int(meta.get("n_cpus") or 1)
    modules = {
        (m.path, bytes.fromhex(m.build_id)): None for m in profile.modules.values() if m.build_id
    }
    times = [
        t for thread in profile.threads.values() for t in (thread.first_ns, thread.last_ns) if t
    ]
    event = "wall-clock" if meta.get("clock") == "wall" else "cpu-clock"
    return {
        form.FEATURE_BUILD_ID: form.feature_build_ids(list(modules)),
        form.FEATURE_HOSTNAME: form.feature_string(str(meta.get("hostname") or "?")),
        form.FEATURE_OSRELEASE: form.feature_string(str(meta.get("os_release") or "?")),
        form.FEATURE_VERSION: form.feature_string(f"pyhybrid {meta.get('version') or '?'}"),
        form.FEATURE_ARCH: form.feature_string(str(meta.get("arch") or "x86_64")),
        form.FEATURE_NRCPUS: n_cpus.to_bytes(4, "little") * 2,
        form.FEATURE_CMDLINE: form.feature_strings(process.argv or ["?"]),
        form.FEATURE_EVENT_DESC: form.feature_event_desc(event, profile.period_ns),
        form.FEATURE_SAMPLE_TIME: form.feature_times(min(times, default=0), max(times, default=0)),
    }

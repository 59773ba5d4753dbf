"""Records and header of perf.data, as bytes.

Spec: tools/perf/Documentation/perf.data-file-format.txt in the Linux source, perf_event_open(2) for
records, include/uapi/linux/perf_event.h for `struct perf_event_attr`.  Little endian.
"""

import struct
from array import array
from itertools import chain
from typing import NamedTuple

# PERF_CONTEXT_KERNEL, _USER: the addresses that follow are the kernel's, the program's.
CONTEXT_KERNEL, CONTEXT_USER = (1 << 64) - 128, (1 << 64) - 512

# PERF_COUNT_SW_CPU_CLOCK, _TASK_CLOCK: their readers take both periods for nanoseconds.
CPU_CLOCK, TASK_CLOCK = 0, 1

KERNEL_PATH = "[kernel.kallsyms]"
BUILD_ID_SIZE = 20  # bytes; longer ones are cut, as perf itself does it

_MMAP, _COMM, _FORK, _SAMPLE, _MMAP2 = 1, 3, 7, 9, 10
_BUILD_ID, _FINISHED_ROUND = 67, 68  # perf's own
_FIRST_ID = 1  # the events' ids count from here
_KERNEL, _USER = 1, 2  # misc: cpumode
_MMAP_HAS_BUILD_ID, _BUILD_ID_HAS_SIZE = 1 << 14, 1 << 15
_READ_EXEC = 5  # PROT_READ | PROT_EXEC

# IP | TID | TIME | CALLCHAIN | CPU | PERIOD | IDENTIFIER
_SAMPLE_TYPE = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 16
# mmap, comm, task, sample_id_all, exclude_guest, mmap2, comm_exec, use_clockid
_FLAGS = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 20 | 1 << 23 | 1 << 24 | 1 << 25
_CLOCK_MONOTONIC = 1
_READ_FORMAT_ID = 4

_HEADER = struct.Struct("<IHH")
_SOFTWARE, _ATTR_SIZE = 1, 128
_ATTR = struct.Struct("<IIQQQQQ44xi32x")
_SAMPLE_ID = struct.Struct("<IIQIIQ")
_SAMPLE_BEGIN, _SAMPLE_OWN = struct.Struct("<IHHQQ"), struct.Struct("<IIQIIQ")
_SAMPLE_HEAD_SIZE = _SAMPLE_BEGIN.size + _SAMPLE_OWN.size
_FILE_HEADER = struct.Struct("<8sQQ6Q4Q")
_CHAIN, _CONTEXT = struct.Struct("<QQ"), struct.Struct("<Q")

FRAME_SIZE = 8  # bytes of a call chain
MAX_CHAIN = (65535 - _SAMPLE_HEAD_SIZE) // 8 - 3  # a record's size is 16 bits
# (pid, tid, time_ns, cpu, 0, period): of a SAMPLE record what is between its begin and its chain.
pack_own = _SAMPLE_OWN.pack

(
    FEATURE_BUILD_ID,
    FEATURE_HOSTNAME,
    FEATURE_OSRELEASE,
    FEATURE_VERSION,
    FEATURE_ARCH,
    FEATURE_NRCPUS,
    FEATURE_CPUDESC,
    FEATURE_CPUID,
    FEATURE_TOTAL_MEM,
    FEATURE_CMDLINE,
    FEATURE_EVENT_DESC,
) = range(2, 13)
FEATURE_SAMPLE_TIME, FEATURE_CLOCKID, FEATURE_CLOCK_DATA = 21, 23, 29


class Event(NamedTuple):
    """Hold its name in reports, what of PERF_TYPE_SOFTWARE it is, what a sample stands for."""

    name: str
    config: int
    period: int


def _attr(event: Event) -> bytes:
    """Return a `struct perf_event_attr`."""
    what = (_SOFTWARE, _ATTR_SIZE, event.config, event.period)
    return _ATTR.pack(*what, _SAMPLE_TYPE, _READ_FORMAT_ID, _FLAGS, _CLOCK_MONOTONIC)


def chain_bytes(addresses: "array[int]") -> bytes:
    """Return a sample's call chain, leaf first; what does not fit goes, from the root's side.

    Addresses are int64: the kernel's are negative, and come first (elsewhere in damaged files
    only).
    """
    addresses = addresses[:MAX_CHAIN]
    n_kernel = 0
    while n_kernel < len(addresses) and addresses[n_kernel] < 0:
        n_kernel += 1
    n = len(addresses) + 1
    if not n_kernel:
        return _CHAIN.pack(n, CONTEXT_USER) + addresses.tobytes()
    kernel, user = addresses[:n_kernel].tobytes(), addresses[n_kernel:].tobytes()
    return _CHAIN.pack(n + 1, CONTEXT_KERNEL) + kernel + _CONTEXT.pack(CONTEXT_USER) + user


def sample_begin(event: int, size: int, ip: int) -> bytes:
    """Return what of a SAMPLE record the event (by its place) and the stack decide; the call chain,
    of `size` bytes, comes at the record's end."""
    mode, ip = (_KERNEL, ip + (1 << 64)) if ip < 0 else (_USER, ip)
    return _SAMPLE_BEGIN.pack(_SAMPLE, mode, _SAMPLE_HEAD_SIZE + size, _FIRST_ID + event, ip)


def sample_size(depth: int) -> int:
    """Return the size of a SAMPLE record with so many frames (of MAX_CHAIN at most), some of them
    perhaps the kernel's."""
    return _SAMPLE_HEAD_SIZE + FRAME_SIZE * (3 + depth)


def _padded(text: str, unit: int = 8) -> bytes:
    """Return text with at least one zero after it, to a multiple of `unit`."""
    raw = text.encode("utf-8", "surrogateescape")
    return raw + bytes(unit - len(raw) % unit)


def _record(kind: int, misc: int, body: bytes) -> bytes:
    return _HEADER.pack(kind, misc, _HEADER.size + len(body)) + body


FINISHED_ROUND = _record(_FINISHED_ROUND, 0, b"")  # what follows is not before what was there


def _event(kind: int, misc: int, body: bytes, pid: int, tid: int, time_ns: int) -> bytes:
    return _record(kind, misc, body + _SAMPLE_ID.pack(pid, tid, time_ns, 0, 0, _FIRST_ID))


def fork(pid: int, tid: int, time_ns: int) -> bytes:
    """Return a FORK record: the process has a new thread, and none of this number before."""
    return _event(_FORK, 0, struct.pack("<IIIIQ", pid, pid, tid, pid, time_ns), pid, pid, time_ns)


def comm(pid: int, tid: int, name: str, time_ns: int = 0) -> bytes:
    """Return a COMM record: the name of a thread."""
    return _event(_COMM, 0, struct.pack("<II", pid, tid) + _padded(name), pid, tid, time_ns)


def kernel_map(start: int, end: int) -> bytes:
    """Return an MMAP record of the kernel's code, which perf wants even where no sample is in it.

    Its file offset is where `_text` was: so perf sees by how far the kernel has moved since.
    """
    body = struct.pack("<iIQQQ", -1, 0, start, end - start, start)
    body += _padded(KERNEL_PATH + "_text")
    return _event(_MMAP, _KERNEL, body, 0, 0, 0)


def mmap2(
    pid: int,
    start: int,
    size: int,
    file_offset: int,
    path: str,
    build_id: bytes = b"",
    time_ns: int = 0,
) -> bytes:
    """Return an MMAP2 record: executable memory; `path` is "//anon" for what the perf map names."""
    misc = _USER
    identity = bytes(24)  # maj, min, ino, ino_generation
    if build_id:
        misc |= _MMAP_HAS_BUILD_ID
        identity = struct.pack("<BBH20s", min(len(build_id), BUILD_ID_SIZE), 0, 0, build_id)
    body = struct.pack("<IIQQQ", pid, pid, start, size, file_offset) + identity
    body += struct.pack("<II", _READ_EXEC, 0) + _padded(path)  # MAP_PRIVATE is left out
    return _event(_MMAP2, misc, body, pid, pid, time_ns)


def feature_string(text: str) -> bytes:
    """Return a string as features carry it: its padded length, and it."""
    raw = _padded(text, 64)
    return struct.pack("<I", len(raw)) + raw


def feature_strings(texts: list[str]) -> bytes:
    """Return a list of strings."""
    return struct.pack("<I", len(texts)) + b"".join(map(feature_string, texts))


def feature_event_desc(events: list[Event]) -> bytes:
    """Return the events and their names."""
    return struct.pack("<II", len(events), _ATTR_SIZE) + b"".join(
        _attr(event) + struct.pack("<I", 1) + feature_string(event.name) + struct.pack("<Q", number)
        for number, event in enumerate(events, _FIRST_ID)
    )


def feature_times(first_ns: int, last_ns: int) -> bytes:
    """Return the times of the first and the last sample."""
    return struct.pack("<QQ", first_ns, last_ns)


def feature_clock_data(unix_ns: int, monotonic_ns: int) -> bytes:
    """Return the wall-clock time at a time of this file."""
    return struct.pack("<IIQQ", 1, _CLOCK_MONOTONIC, unix_ns, monotonic_ns)


def feature_build_ids(modules: list[tuple[str, bytes]]) -> bytes:
    """Return the build-ids of files: (path, build-id)."""
    return b"".join(
        _record(
            _BUILD_ID,
            (_KERNEL if path == KERNEL_PATH else _USER) | _BUILD_ID_HAS_SIZE,
            struct.pack("<i20sB3x", -1, build_id, min(len(build_id), BUILD_ID_SIZE))
            + _padded(path, 64),
        )
        for path, build_id in modules
    )


def head_size(n_events: int) -> int:
    """Return the size of `head`: the header, the ids, attributes with their ids' places."""
    return _FILE_HEADER.size + n_events * (8 + _ATTR_SIZE + 16)


def head(events: list[Event], data_size: int, features: list[int]) -> bytes:
    """Return all that comes before the data; `features` are the numbers of those that follow it."""
    size, n = _FILE_HEADER.size, len(events)
    bits = [0, 0, 0, 0]
    for number in features:
        bits[number // 64] |= 1 << number % 64
    entry = _ATTR_SIZE + 16
    sections = (size + 8 * n, entry * n, head_size(n), data_size, 0, 0)
    return (
        _FILE_HEADER.pack(b"PERFILE2", size, entry, *sections, *bits)
        + struct.pack(f"<{n}Q", *range(_FIRST_ID, _FIRST_ID + n))
        + b"".join(
            _attr(event) + struct.pack("<QQ", size + 8 * i, 8) for i, event in enumerate(events)
        )
    )


def tail(data_end: int, bodies: list[bytes]) -> bytes:
    """Return the features after the data: where each is, then bodies, in the order of numbers."""
    at = data_end + 16 * len(bodies)
    sections = []
    for body in bodies:
        sections.append(struct.pack("<QQ", at, len(body)))
        at += len(body)
    return b"".join(chain(sections, bodies))

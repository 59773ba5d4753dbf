"""Much of one kind: distinct stacks, samples, functions of a JIT compiler."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spool_writer import SpoolWriter, native, python

HZ = 1000
CODE = 0x7E0000000000  # where the first function is


def many_stacks(path: Path, n_stacks: int, n_seconds: int) -> str:
    """HZ samples a second of distinct stacks in turn: 5,000 native, 1,000 Python functions."""
    writer = SpoolWriter()
    writer.meta()
    writer.module(1, "[vdso]", 0x7F0000000000)
    writer.thread(1, 1, "python")
    for code in range(1, 1001):
        writer.code(code, f"function_{code}", f"/src/file_{code % 50}.py", code)
    leaves = [
        writer.stack(python(1, 1), python(1 + i * 1000 // n_stacks, i % 64), native(1, i % 5000))
        for i in range(n_stacks)
    ]
    writer.stacks()
    for second in range(n_seconds):
        taken = [leaves[(second * HZ + i) % n_stacks] for i in range(HZ)]
        writer.samples(1, taken, first_ns=second * 10**9)
    return writer.save(path)


def many_samples(path: Path, n_seconds: int) -> str:
    """HZ a second, all of one stack."""
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python")
    stack = writer.stack(python(1, 1))
    writer.stacks()
    for second in range(n_seconds):
        writer.samples(1, [stack] * HZ, first_ns=second * 10**9)
    return writer.save(path)


def many_threads(path: Path, n_threads: int, is_sampled: bool) -> str:
    """Threads with a name of their own, each with ten functions of long names, one in the other."""
    depth = 10
    writer = SpoolWriter()
    writer.meta()
    writer.clock(0, 0)
    for code in range(1, depth + 1):
        writer.code(code, f"f{code}_" + "n" * 200, "/src/f.py", code)
    words = [python(code, 0) for code in range(1, depth + 1)]
    stack = writer.stack(*(python(code, 1) for code in range(1, depth + 1)))
    writer.stacks()
    for number in range(1, n_threads + 1):
        writer.thread(number, number, f"worker-{number}")
        writer.exact_thread(number, number)
        writer.exact_nodes(number, 1, *enumerate(words))
        counts = ({"node": 1 + i, "calls": 1, "ticks": 5000 - 10 * i} for i in range(depth))
        writer.exact_counts(number, *counts)
        if is_sampled:
            writer.samples(number, [stack] * 3, first_ns=number * 10**6)
            writer.counters(number, recorded=3, weight=3)
    writer.clock(10**9, 10**9)
    return writer.save(path)


def many_functions(numbers: Iterable[int], size: int) -> bytes:
    """A perf map of functions 64 bytes apart, each of `size` bytes."""
    lines = (b"%x %x some::name_%d\n" % (CODE + 64 * i, size, i) for i in numbers)
    return b"".join(lines)

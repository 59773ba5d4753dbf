"""Reads a trace of torch.profiler's (Kineto): the work of a GPU, and what launched it.

The format is Chrome's trace events, JSON; https://github.com/pytorch/kineto, output_json.cpp.
A kernel, copy or fill has the correlation number of its launch by the CUDA runtime (or, of Triton's
kernels, the driver).  A CUDA graph is launched once, and all that it replays has this number.
Events are read one by one, so a trace that is cut off has those before the cut.
"""

import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from pyhybrid.base.files import damage_in
from pyhybrid.errors import PyhybridError
from pyhybrid.gpu import GpuTrace, Launch, Operator, Wait, Work, graph_name

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHES = ("cuda_runtime", "cuda_driver")
REPLAY = "GraphLaunch"  # of a launch's name
WAITS = "Synchronize"  # ends the names of calls that do nothing else
ACCUMULATES = "torch::autograd::AccumulateGrad"  # ends the names of operators that sum up gradients
SPAN = "Trace"  # when the profiler ran
HAS_EVENTS, GZIP = '"traceEvents"', b"\x1f\x8b"
BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d+)')
_BETWEEN = re.compile(r"[\s,]*")


def read(path: str) -> GpuTrace:
    """Return what the trace has of the GPU.  Raises PyhybridError."""
    with damage_in(path):
        text = _text(path)
        base = BASE.search(text)
        return _Reader(int(base[1]) if base else 0).read(text)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
        if data[:2] == GZIP:
            # One that is cut off, too.
            data = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data)
        text = data.decode("utf-8", "replace")
        if HAS_EVENTS not in text:
            json.loads(text)["traceEvents"]  # raises
    except (OSError, zlib.error) as error:
        raise PyhybridError(f"cannot read {path}: {error}") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        why = f"not JSON: {error}" if isinstance(error, ValueError) else "no traceEvents in it"
        raise PyhybridError(f"cannot read {path}: no trace of torch.profiler's: {why}") from None
    return text


class _Reader:
    """Read the events, as records of the trace."""

    def __init__(self, base_ns: int) -> None:
        """Begin at `base_ns`, which times are since."""
        self._base_ns = base_ns
        self._launches: dict[int, tuple[Launch, bool]] = {}  # by correlation; is it a graph's?
        self._work: list[tuple[Any, Work]] = []
        self._spans: list[tuple[int, int]] = []
        self._trace = GpuTrace()

    def read(self, text: str) -> GpuTrace:
        """Read all of them."""
        for event in self._events(text):
            if event.get("ph") == "X" and "dur" in event:
                self._add(event)
        for correlation, work in self._work:
            launch, replays = self._launches.get(correlation, (None, False))
            name = graph_name(work.name) if replays else work.name
            self._trace.work.append(work._replace(name=name, launch=launch))
        if self._spans:
            begins, ends = zip(*self._spans, strict=True)
            self._trace.windows = [(min(begins), max(ends))]
        return self._trace

    def _events(self, text: str) -> Iterator[dict[str, Any]]:
        decode = json.JSONDecoder().raw_decode
        at, n = text.index("[", text.index(HAS_EVENTS)) + 1, 0
        while True:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it always matches
            if text[at : at + 1] == "]":
                return
            try:
                event, at = decode(text, at)
            except json.JSONDecodeError:
                self._trace.notes.append(f"the trace is cut off or damaged after {n:,} events")
                return
            n += 1
            yield event

    def _add(self, event: dict[str, Any]) -> None:
        category, args = event.get("cat"), event.get("args", {})
        begin_ns = self._base_ns + round(event["ts"] * 1000)
        end_ns = begin_ns + round(event["dur"] * 1000)
        if category in WORK:
            where = args.get("device", 0), args.get("stream", 0)
            work = Work(event["name"], *where, begin_ns, end_ns, None)
            self._work.append((args.get("correlation"), work))
            self._spans.append((begin_ns, end_ns))
        elif category in LAUNCHES:
            self._add_launch(event, begin_ns, end_ns)
        elif category == "cpu_op":
            sequence, of_thread = args.get("Sequence number", -1), args.get("Fwd thread id")
            runs = bool(of_thread), event["name"].endswith(ACCUMULATES)
            operator = Operator(event["tid"], begin_ns, end_ns, sequence, *runs)
            self._trace.operators.append(operator)
        elif category == SPAN:
            self._spans.append((begin_ns, end_ns))

    def _add_launch(self, event: dict[str, Any], begin_ns: int, end_ns: int) -> None:
        name, tid = event["name"], event["tid"]
        self._trace.pids.add(event["pid"])
        if "correlation" in event.get("args", {}):
            launch = Launch(tid, begin_ns), REPLAY in name
            self._launches[event["args"]["correlation"]] = launch
        if WAITS in name:
            self._trace.waits.append(Wait(name, tid, begin_ns, end_ns))

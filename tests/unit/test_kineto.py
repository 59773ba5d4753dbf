"""Traces of torch.profiler's, read: as a GPU's driver, several GPUs and a full disk leave them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pyhybrid.errors import PyhybridError
from pyhybrid.gpu import GpuTrace
from pyhybrid.gpu.kineto import read

BASE_NS = 1_790_857_026_000_000_000
PID = 4242


def event(category: str, name: str, ts: float, dur: float = 1.0, **args: Any) -> dict[str, Any]:
    where = {"pid": PID, "tid": args.pop("tid", PID)}
    return {"ph": "X", "cat": category, "name": name, **where, "ts": ts, "dur": dur, "args": args}


EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 1.0, "pid": PID, "tid": 0, "args": {}},
    event("cuda_runtime", "cudaLaunchKernel", 10.0, correlation=1),
    event("kernel", "gemm", 12.5, 3.25, correlation=1, device=0, stream=7),
    event("cuda_driver", "cuLaunchKernel", 20.0, tid=77, correlation=2),
    event("kernel", "triton_poi_fused_0", 22.0, correlation=2, device=1, stream=9),
    event("cuda_runtime", "cudaMemcpyAsync", 30.0, correlation=3),
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 31.0, correlation=3, stream=7),
    event("cuda_runtime", "cudaStreamSynchronize", 32.0, 5.0, correlation=4),
    event("gpu_memset", "Memset (Device)", 33.0, correlation=99, device=0, stream=7),
    event("gpu_user_annotation", "Optimizer.step", 12.0, 90.0, device=0, stream=7),
    event("cuda_runtime", "cudaGraphLaunch", 40.0, correlation=5),
    event("kernel", "a", 41.0, correlation=5, device=0, stream=7),
    event("kernel", "b", 42.0, correlation=5, device=0, stream=7),
    {"ph": "X", "cat": "kernel", "name": "without a time", "args": {}},
    event("Trace", "PyTorch Profiler (0)", 5.0, 100.0),
]


def text_of(events: list[dict[str, Any]]) -> str:
    return json.dumps({"baseTimeNanoseconds": BASE_NS, "traceEvents": events}, indent=1)


def trace_of(path: Path, data: bytes) -> GpuTrace:
    path.write_bytes(data)
    return read(str(path))


def at(us: float) -> int:
    return BASE_NS + round(us * 1000)


def test_what_is_launched_is_what_was_launched(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace.json", text_of(EVENTS).encode())
    found = {
        each.name: (each.device, each.stream, each.launch and tuple(each.launch))
        for each in trace.work
    }
    assert found == {
        "gemm": (0, 7, (PID, at(10))),
        "triton_poi_fused_0": (1, 9, (77, at(20))),
        "Memcpy DtoH (Device -> Pageable)": (0, 7, (PID, at(30))),
        "Memset (Device)": (0, 7, None),
        "[graph] a": (0, 7, (PID, at(40))),
        "[graph] b": (0, 7, (PID, at(40))),
    }
    gemm = trace.work[0]
    assert (gemm.begin_ns, gemm.end_ns) == (at(12.5), at(15.75))
    assert [tuple(each) for each in trace.waits] == [("cudaStreamSynchronize", PID, at(32), at(37))]
    assert (trace.windows, trace.pids, trace.notes) == ([(at(5), at(105))], {PID}, [])


@pytest.mark.parametrize("compressed", [False, True])
def test_one_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, compressed: bool) -> None:
    data = text_of(EVENTS).encode()
    if compressed:
        data = gzip.compress(text_of(EVENTS * 200).encode())
        cut = len(data) // 2
    else:
        cut = data.index(b"Memset")
    trace = trace_of(tmp_path / "trace.json", data[:cut])
    (note,) = trace.notes
    assert "cut off or damaged after " in note
    n = 200 * len(EVENTS) // 4 if compressed else 8
    assert int(note.split()[-2].replace(",", "")) >= n
    names = [each.name for each in trace.work]
    assert names[:3] == ["gemm", "triton_poi_fused_0", "Memcpy DtoH (Device -> Pageable)"]
    assert compressed or len(names) == 3


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no trace of torch.profiler's: not JSON"),
        (b"[1]", "no traceEvents in it"),
        (b"{}", "no traceEvents in it"),
        (b"\x1f\x8bnothing", "cannot read"),
        (b'{"traceEvents": 5}', "damaged"),
        (b'{"traceEvents": [5]}', "damaged"),
        (text_of([event("kernel", "k", 1.0) | {"ts": "soon"}]).encode(), "damaged"),
    ],
)
def test_what_is_no_trace_is_said(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(PyhybridError, match=said):
        trace_of(tmp_path / "trace.json", data)

"""Several GPUs, of which each has streams of the same numbers: in figures, and in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from page_support import Browser, report
from support import command, made_once, printed

from pyhybrid.tables.profile import Profile
from pyhybrid.views.gpu import busy_spans, idle_spans

US = 1000
ROUNDING_NS = 10  # times of day are mapped to the profile's clock

# Two threads that each tell a moment at which a function of theirs ran.
PROGRAM = """
import json, os, threading, time
def feeds(n): return spins()
def feeds_other(n): return spins()
def spins():
    since = time.time_ns()
    while time.time_ns() < since + 2_000_000:
        pass
    return since + 1_000_000
told = {"pid": os.getpid()}
def run(function, device):
    told[device] = threading.get_native_id(), function(device)
threads = [threading.Thread(target=run, args=each) for each in ((feeds, 0), (feeds_other, 1))]
for thread in threads:
    thread.start()
    thread.join()
print(json.dumps(told))
"""

RECORDED = 0, 1000
# Device, stream, begin and end, microseconds: on each device two streams overlap, and what a graph
# replays overlaps on its own.
KERNELS = [
    (0, 7, 100, 200),
    (0, 7, 300, 400),
    (0, 13, 150, 250),
    (1, 7, 120, 180),
    (1, 7, 390, 500),
    (1, 20, 170, 190),
    (1, 20, 180, 220),
]
BUSY = {0: [(100, 250), (300, 400)], 1: [(120, 220), (390, 500)]}
IDLE = [(0, 100), (250, 300), (500, 1000)]


def trace_of(told: dict[str, Any]) -> dict[str, Any]:
    """What torch.profiler would have written of the kernels."""
    base_ns = max(launch_ns for _, launch_ns in (told["0"], told["1"]))
    events = []

    def add(category: str, name: str, tid: int, begin: float, end: float, **args: int) -> None:
        where = {"ph": "X", "cat": category, "name": name, "pid": told["pid"], "tid": tid}
        events.append({**where, "ts": begin, "dur": end - begin, "args": args})

    add("Trace", "PyTorch Profiler (0)", 0, *RECORDED)
    for number, (device, stream, begin, end) in enumerate(KERNELS):
        tid, launch_ns = told[str(device)]
        at = (launch_ns - base_ns) / US
        add("cuda_runtime", "cudaLaunchKernel", tid, at, at + 1, correlation=number)
        where = {"correlation": number, "device": device, "stream": stream}
        add("kernel", "gemm", stream, begin, end, **where)
    return {"baseTimeNanoseconds": base_ns, "traceEvents": events}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run of the program left its profile, with the kernels in it."""

    def make(folder: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        told = json.loads(printed(folder, "-q", "--mode", "trace", "--events", "program.py"))
        (folder / "trace.json").write_text(json.dumps(trace_of(told)))
        command(folder, "import", "kineto", "trace.json")

    return made_once(tmp_path_factory, "gpu-devices", make)


def test_a_device_is_busy_when_any_of_its_streams_is(folder: Path) -> None:
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        ((since, _),) = ((each.begin_ns, each.end_ns) for each in profile.gpu_windows)

        def ns(spans: list[tuple[int, int]]) -> list[Any]:
            times = [since + at * US for span in spans for at in span]
            return [pytest.approx(at, rel=0, abs=ROUNDING_NS) for at in times]

        busy = busy_spans(profile)
        assert list(busy) == list(BUSY)
        for device, spans in BUSY.items():
            assert [at for span in busy[device] for at in span] == ns(spans)
        assert [at for span in idle_spans(profile) for at in span] == ns(IDLE)


def test_the_summary_is_of_all_devices(folder: Path) -> None:
    gpu = report(folder)["gpu"]
    by_device = [sum(end - begin for begin, end in spans) for spans in BUSY.values()]
    assert gpu["devices"] == len(BUSY)
    recorded_us = RECORDED[1] - RECORDED[0]
    assert gpu["busy"] == pytest.approx(sum(by_device) / (2 * recorded_us), abs=1e-4)
    launched = {each["name"].partition(" (")[0]: each["self_ns"] for each in gpu["functions"]}
    of_device = [sum(end - begin for at, _, begin, end in KERNELS if at == n) * US for n in BUSY]
    assert launched == {"spins": sum(of_device)}
    total = {each["name"].partition(" (")[0]: each["total_ns"] for each in gpu["functions"]}
    assert total == {"spins": sum(of_device)}
    assert gpu["total_ns"] == sum(of_device)


@pytest.mark.further
def test_what_each_thread_launched(folder: Path) -> None:
    """Streams of one number on two devices stay apart, and so do those who fed them."""
    found: dict[tuple[str, int, int], list[int]] = {}
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        frames, nodes = profile.frames, profile.nodes
        for work in profile.gpu:
            caller = frames[nodes.frame[nodes.parent[work.node]]].name
            found[caller, work.device, work.stream] = [work.launches, work.ns]
    assert found == {
        ("feeds", 0, 7): [2, 200 * US],
        ("feeds", 0, 13): [1, 100 * US],
        ("feeds_other", 1, 7): [2, 170 * US],
        ("feeds_other", 1, 20): [2, 60 * US],
    }


@pytest.mark.further
@pytest.mark.once
@pytest.mark.needs("viewers", "chromium")
def test_the_page_has_a_lane_a_stream(folder: Path, tmp_path: Path, browse: Browser) -> None:
    page = tmp_path / "page.html"
    command(folder, "page", "--no-open", "-o", page)
    steps = """
        const lanes = await page.locator(".lanes.gpu .lane").all();
        return await Promise.all(
            lanes.map(async (each) => [await each.getAttribute("title"), await each.innerText()])
        );
    """
    lanes = {title: float(text.split("\n")[-1].rstrip("%")) for title, text in browse(page, steps)}
    assert lanes == {
        "GPU 0, stream 7: 2 kernels and copies": 20.0,
        "GPU 0, stream 13: 1 kernel or copy": 10.0,
        "GPU 1, stream 7: 2 kernels and copies": 17.0,
        "GPU 1, stream 20: 2 kernels and copies": 5.0,
    }

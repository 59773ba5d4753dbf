"""The unwinder: a walk that was made before, walks in live training beside libunwind's of the same
stacks, and the handler on a stack of 60 native frames."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from method import Figure, bare, profiled, row, run

from figures.training import TRAIN
from pyhybrid.tables.profile import Profile

ROOT = Path(__file__).parents[3]
WORKLOADS = Path(__file__).parents[1] / "workloads"
BOTH = str(ROOT / "tests" / "targets" / "both_unwinders.py")
SOURCES = ["base/memread.c", "sampler/backend_libunwind.c"]
SOURCES += [f"unwind/{name}.c" for name in ("cfi", "cfi_fde", "libraries", "rules", "unwind")]
DEPTHS = ("10", "200")
HZ = 999
CACHE = 1024  # of libunwind, which thrashes with its own 128
LOADED = "torch._dynamo"  # an optimizer imports it: no library is loaded while libunwind walks


def build(folder: Path) -> tuple[str, str]:
    warm, both = str(folder / "warm"), str(folder / "both.so")
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fno-strict-aliasing"]
    flags += [f"-I{ROOT / 'src' / room}" for room in ("base", "unwind")]
    sources = [str(WORKLOADS / "unwind_warm.c"), *(str(ROOT / "src" / name) for name in SOURCES)]
    subprocess.run(["gcc", *flags, "-o", warm, *sources, "-lunwind"], check=True)
    subprocess.run([sys.executable, BOTH, "build", both], check=True)
    return warm, both


def of_a_frame(found: dict[str, list[float]], whose: int) -> float:
    near, far = DEPTHS
    return (found[far][whose] - found[near][whose]) / (int(far) - int(near))


def in_training(folder: Path, both: str) -> dict[str, float]:
    """Medians over the samples of one run, and how many stacks are equal."""
    numbers = (str(HZ), str(CACHE))
    run(bare(BOTH, "run", both, "both.json", *numbers, LOADED, TRAIN, "--epochs", "2"), folder)
    found = json.loads((folder / "both.json").read_text())
    samples = [dict(zip(found["fields"], each, strict=True)) for each in found["samples"]]
    finished = [each for each in samples if each["finished"]]
    return {
        "own_ns": statistics.median(each["own_ns"] for each in finished),
        "their_ns": statistics.median(each["their_ns"] for each in finished),
        "ratio": statistics.median(each["own_ns"] / each["their_ns"] for each in finished),
        "frames": statistics.median(each["frames"] for each in finished),
        "samples": len(samples),
        "finished": len(finished),
        "their_faults": found["their_faults"],
        "equal": sum(not each["differs_at"] for each in finished) / len(finished),
    }


def handler(folder: Path) -> dict[str, float]:
    options = ["--mode", "sample", "--hz", "999", "--format", "folded"]
    run(profiled(str(WORKLOADS / "sixty.py"), "6", options=options), folder)
    said = run(profiled("report", "quality", "out.pyhybrid", "--json"), folder).stdout
    report = json.loads(said)
    with Profile.open(str(folder / "out.pyhybrid")) as profile:
        nodes = (profile.view.all_frames or profile).nodes
        most = max(profile.sampled, key=lambda sampled: sampled.weight_ns)
        node, frames = profile.stacks.node[most.stack], 0
        while node:
            node, frames = nodes.parent[node], frames + 1
    return {
        "p50": report["handler_p50_ns"] / 1e3,
        "p99": report["handler_p99_ns"] / 1e3,
        "frames": frames,
    }


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm, both = build(folder)
        rounds = [
            {
                "warm": json.loads(run([warm], folder).stdout),
                "training": in_training(folder, both),
                "handler": handler(folder),
            }
            for _ in range(pairs)
        ]
    live = [each["training"] for each in rounds]
    rows = [
        row(
            "our unwinder, a frame, warm",
            "ns",
            [of_a_frame(r["warm"], 0) for r in rounds],
            "<= 10",
        ),
        row("libunwind's unw_step, the same", "ns", [of_a_frame(r["warm"], 1) for r in rounds]),
        row(
            "its unw_backtrace, which has no CFAs", "ns", [of_a_frame(r["warm"], 2) for r in rounds]
        ),
        row(
            "live training: our time over unw_step's",
            "x",
            [each["ratio"] for each in live],
            "<= 0.125",
        ),
        row("a walk of ours in it", "µs", [each["own_ns"] / 1e3 for each in live]),
        row("by unw_step", "µs", [each["their_ns"] / 1e3 for each in live]),
        row("frames of it", "", [each["frames"] for each in live]),
        row(
            "stacks equal, of those that libunwind finishes",
            "",
            [each["equal"] for each in live],
            ">= 0.999",
        ),
        row("stacks that it finishes", "", [each["finished"] / each["samples"] for each in live]),
        row(
            "walks of its that read what is not there", "", [each["their_faults"] for each in live]
        ),
        row(
            "handler on a deep stack, p50",
            "µs",
            [each["handler"]["p50"] for each in rounds],
            "<= 3",
        ),
        row("the same, p99", "µs", [each["handler"]["p99"] for each in rounds], "<= 15"),
        row("frames of that stack", "", [each["handler"]["frames"] for each in rounds]),
    ]
    return [Figure("unwind", "The unwinder", rows, rounds)]

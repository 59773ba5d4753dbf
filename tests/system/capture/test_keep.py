"""--keep: every single call of functions by name, while all others are counted as ever."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run

from pyhybrid.tables import Call, Usage
from pyhybrid.tables.profile import Profile

PROGRAM = """
import asyncio, json, threading

def fact(n): return 1 if n < 2 else n * fact(n - 1)

def numbers(n):
    for i in range(n): yield i

def bad(): raise ValueError

async def nap(n):
    await asyncio.sleep(0)
    fact(n)

class Model:
    def forward(self, x, *rest, scale=1, **more):
        y = x
        return y
    def backward(self): pass

def other(): pass

def main():
    fact(3)
    sum(numbers(3))
    try: bad()
    except ValueError: pass
    async def both(): await asyncio.gather(nap(1), nap(2))
    asyncio.run(both())
    threads = [threading.Thread(target=fact, args=(2,)) for _ in range(2)]
    for each in threads: each.start()
    for each in threads: each.join()
    model = Model()
    for _ in range(5):
        model.forward(1)
        model.backward()
    for _ in range(1000): other()
    json.loads("[1]")

main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def by_name(profile: Profile) -> dict[str, list[Call]]:
    calls: dict[str, list[Call]] = {}
    for call in profile.calls:
        name = profile.frames[profile.nodes.frame[call.node]].name
        calls.setdefault(name, []).append(call)
    return calls


def counted(profile: Profile) -> Counter[str]:
    calls = Counter[str]()
    for row in profile.exact:
        calls[profile.frames[profile.nodes.frame[row.node]].name] += row.calls
    return calls


@pytest.mark.version
def test_every_call_of_named_functions(pyhybrid: Callable[..., Run], program: Path) -> None:
    names = ("main", "fact", "numbers", "program.py:bad", "__main__.nap", "*.forward")
    options = [word for name in names for word in ("--keep", name)]
    run = pyhybrid("--mode", "trace", "--format", "folded", *options, program)
    profile = run.profile()
    calls = by_name(profile)
    assert {name: len(of_name) for name, of_name in calls.items()} == {
        "main": 1, "fact": 3 + 1 + 2 + 2 * 2, "numbers": 1, "bad": 1, "nap": 2, "Model.forward": 5,
    }  # fmt: skip
    everything = counted(profile)
    assert everything["other"] == 1000
    assert everything["Model.backward"] == 5
    assert everything["fact"] == 10
    assert [call.state for call in calls["bad"]] == ["raised"]
    (numbers,) = calls["numbers"]
    turns = [turn for turn in profile.turns if turn.call == numbers.id]
    assert len(turns) == 4
    assert numbers.busy_ns == sum(turn.end_ns - turn.begin_ns for turn in turns)

    by_id = {call.id: call for call in profile.calls}
    (main,) = calls["main"]
    for name in ("bad", "numbers", "nap", "Model.forward"):
        assert {call.parent for call in calls[name]} == {main.id}
    depths = Counter[int]()
    for call in calls["fact"]:
        depth = 0
        while call.parent:
            around = by_id[call.parent]
            assert around.begin_ns <= call.begin_ns
            assert around.end_ns >= call.end_ns
            assert around.thread == call.thread
            call, depth = around, depth + 1
        depths[depth] += 1
    # on threads of their own; in main, 3 deep; in nap, in main
    assert depths == {0: 2, 1: 2 + 1, 2: 1 + 2, 3: 1 + 1}
    assert len({call.thread for call in calls["fact"]}) == 3


def test_what_is_known_of_them(pyhybrid: Callable[..., Run], program: Path) -> None:
    options = ("--keep", "Model.*", "--keep", "json.loads", "--keep", "nobody", "--keep", "os:*")
    run = pyhybrid("--mode", "trace", "--format", "folded", *options, program)
    profile = run.profile()
    codes = {code.path: code for code in profile.codes.values()}
    assert set(codes) == {"__main__.Model.forward", "__main__.Model.backward", "json.loads"}
    forward = codes["__main__.Model.forward"]
    assert (forward.function, forward.module) == ("forward", "__main__")
    assert forward.file == str(program)
    assert forward.line == 1 + PROGRAM[: PROGRAM.index("def forward")].count("\n")
    assert forward.arguments == ["self", "x", "scale", "rest", "more"]
    assert forward.other_locals == ["y"]
    assert forward.stack_size > 0
    assert profile.frames[forward.frame].name == "Model.forward"
    notes = [note for note in profile.meta["notes"] if "no function" in note]
    assert notes == [f"--keep {name}: no function of this name ran" for name in ("nobody", "os:*")]


@pytest.mark.further
def test_t_traces_nothing_else(pyhybrid: Callable[..., Run], program: Path) -> None:
    options = ("-t", "*.forward", "-t", "bad", "--keep", "fact")
    profile = pyhybrid("--mode", "trace", "--format", "folded", *options, program).profile()
    assert {name: len(calls) for name, calls in by_name(profile).items()} == {
        "bad": 1, "Model.forward": 5,
    }  # fmt: skip
    assert set(counted(profile)) == {"bad", "Model.forward"}


@pytest.mark.further
def test_in_a_program(tmp_path: Path) -> None:
    script = """if True:
        import pyhybrid
        def step(n): return n
        with pyhybrid.Profiler(mode="trace", keep=["step"]) as p:
            for i in range(10): step(i)
            with pyhybrid.region("part"): step(11)
        calls = p.profile.calls
        print([call.state for call in calls] == ["returned"] * 12)
        print(calls[11].parent == calls[10].id, calls[9].parent)
    """
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "True", "None"], done.stderr


USED = """
import threading, time, pyhybrid

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass

def wait():
    for _ in range(5): time.sleep(0.02)

def grow():
    grow.data = bytearray(64 << 20)
    for i in range(0, len(grow.data), 4096): grow.data[i] = 1

def parts():
    burn(0.01)
    yield 1
    burn(0.01)

thread = threading.Thread(target=burn, args=(0.1,))
thread.start()
burn(0.02)
thread.join()
wait()
grow()
for _ in parts(): burn(0.05)
with pyhybrid.region("part"): burn(0.01)
"""


def used_by_name(profile: Profile) -> dict[str, list[Usage]]:
    return {
        name: [profile.usage[call.id] for call in calls] for name, calls in by_name(profile).items()
    }


def test_what_calls_used(pyhybrid: Callable[..., Run]) -> None:
    options = ("--keep", "burn", "--keep", "wait", "--keep", "grow", "--keep", "parts")
    usage = ("--usage", "cpu,memory", "--usage", "process")
    run = pyhybrid("--mode", "trace", "--format", "folded", *options, *usage, "-c", USED)
    profile = run.profile()
    used = used_by_name(profile)
    assert set(used) == {"burn", "wait", "grow", "parts", "part"}
    for of_call in profile.usage.values():
        assert of_call.cpu_ns is not None
        assert of_call.process_ns is not None
        assert of_call.process_ns >= of_call.cpu_ns - 4_000_000  # the kernel's readings lag
    cpu = {name: [each.cpu_ns or 0 for each in of_name] for name, of_name in used.items()}
    in_thread, in_main = sorted(cpu["burn"], reverse=True)[0], cpu["burn"]
    assert in_thread >= 0.095e9  # its own, though the main thread waited for it
    assert sum(in_main) >= 0.2e9
    assert cpu["wait"][0] < 0.05e9
    assert (used["wait"][0].voluntary_switches or 0) >= 5
    (grown,) = used["grow"]
    assert grown.resident_begin is not None
    assert grown.resident_end is not None
    assert 60 << 20 <= grown.resident_end - grown.resident_begin <= 80 << 20
    assert (grown.minor_faults or 0) > 0  # few, where pages are huge
    (parts,) = used["parts"]  # what ran between its turns is not its own
    assert 0.018e9 <= (parts.cpu_ns or 0) < 0.06e9
    assert cpu["part"][0] >= 0.009e9
    threads, pid = profile.threads, profile.process.pid
    of_main = [call.id for call in profile.calls if threads[call.thread].tid == pid]
    used_before = [profile.usage[call].cpu_begin_ns or 0 for call in of_main]
    assert used_before == sorted(used_before)


SHORT = """
import threading, time
def short(n):
    end = time.thread_time_ns() + n
    while time.thread_time_ns() < end: pass
def sleeps(): time.sleep(0.01)
def main():
    for _ in range(50): short(300_000)
    for _ in range(5): sleeps()
    for _ in range(50): short(300_000)
thread = threading.Thread(target=main)
thread.start()
main()
thread.join()
"""


@pytest.mark.further
def test_cpu_time_of_short_calls(pyhybrid: Callable[..., Run]) -> None:
    """It is not in steps of the kernel's ticks, and waiting, for the CPU too, is no part of it."""
    options = ("--keep", "short", "--keep", "sleeps", "--usage", "cpu")
    profile = pyhybrid("--mode", "trace", "--format", "folded", *options, "-c", SHORT).profile()
    used = used_by_name(profile)
    assert len(used["short"]) == 200
    short = sorted(each.cpu_ns or 0 for each in used["short"])
    assert short[20] >= 299_000  # of the others an interrupt may have been told late
    assert short[100] < 400_000
    assert sorted(each.cpu_ns or 0 for each in used["sleeps"])[5] < 5_000_000


@pytest.mark.further
def test_only_what_is_asked_for(pyhybrid: Callable[..., Run], program: Path) -> None:
    run = pyhybrid("--mode", "trace", "--keep", "fact", "--usage", "memory", program)
    profile = run.profile()
    assert len(profile.usage) == 10
    for used in profile.usage.values():
        assert used.resident_end
        assert {*used[1:11]} == {None}
    run = pyhybrid("--mode", "trace", "--keep", "fact", program)
    assert not run.profile().usage
    wrong = pyhybrid("--keep", "fact", "--usage", "cpu,gpu", program, check=False).result
    assert wrong.returncode == 2
    assert "unknown usage 'gpu': there are cpu, memory, process" in wrong.stderr


@pytest.mark.further
def test_calls_are_reported(pyhybrid: Callable[..., Run], program: Path) -> None:
    options = ("--keep", "fact", "--keep", "bad", "--keep", "*.raw_decode")
    run = pyhybrid("--mode", "trace", *options, "--usage", "cpu,memory", program)
    profile = run.profile()
    told = json.loads(pyhybrid("report", "calls", run.path(), "--json").result.stdout)
    assert set(told["functions"]) == {"fact", "bad", "JSONDecoder.raw_decode"}
    assert told["counted"] == {"fact": 10, "bad": 1, "JSONDecoder.raw_decode": 1}
    assert {name: len(calls) for name, calls in told["results"].items()} == told["counted"]
    by_serial = {call.id: call for call in profile.calls}
    for each in (call for calls in told["results"].values() for call in calls):
        call = by_serial[each["serial"]]
        assert each["parent"] == call.parent
        assert each["pid"] == profile.process.pid
        assert each["thread"] == profile.threads[call.thread].tid
        assert each["time_elapsed"] == (call.end_ns - call.begin_ns) / 1e9
        assert abs(each["time_end"] - each["time_start"] - each["time_elapsed"]) < 1e-5
        assert abs(each["time_start"] - program.stat().st_mtime) < 600
        used = profile.usage[call.id]
        assert each["mem_usage"] == (used.resident_end or 0) / 1e3
        assert each["cpu_start"] == (used.cpu_begin_ns or 0) / 1e9
        assert each["cpu_end"] == (used.cpu_end_ns or 0) / 1e9
        assert each["process_name"] == each["name"] != ""
    assert [each["state"] for each in told["results"]["bad"]] == ["raised"]
    metadata = told["metadata"]["JSONDecoder.raw_decode"]
    assert metadata["stacksize"] > 0
    assert {key: metadata[key] for key in ("function", "args", "locals", "module", "path")} == {
        "function": "raw_decode",
        "args": ["self", "s", "idx"],
        "locals": ["obj", "end", "err"],
        "module": "json.decoder",
        "path": "json.decoder.JSONDecoder.raw_decode",
    }
    assert set(metadata) >= {"lineno", "filename"}

    slow = ("report", "calls", run.path(), "--slowest", 2)
    few = json.loads(pyhybrid(*slow, "--json").result.stdout)["results"]["fact"]
    longest = sorted(told["results"]["fact"], key=lambda each: -each["time_elapsed"])[:2]
    assert sorted(each["serial"] for each in few) == sorted(each["serial"] for each in longest)
    lines = pyhybrid(*slow).result.stdout.splitlines()
    assert lines[0].split()[:4] == ["calls", "total", "s", "p50"]
    fact, _ = [i for i, line in enumerate(lines) if line.endswith("fact (program.py:4)")]
    assert lines[fact].split()[0] == "10"
    assert all("MB resident" in line for line in lines[fact + 1 : fact + 3])
    bad, _ = [i for i, line in enumerate(lines) if "bad (program.py:" in line]
    assert lines[bad].split()[0] == "1"
    assert ", raised, CPU " in lines[bad + 1]
    heads, row = lines[lines.index("") + 1], lines[lines.index("") + 2 :]
    assert heads.split("  used")[0].split() == [
        *("user", "s", "system", "s", "faults", "major", "switches", "forced"),
        *("MB", "before", "MB", "after"),
    ]
    (figures,) = [line.split() for line in row if line.endswith("fact (program.py:4)")]
    used = [profile.usage[each["serial"]] for each in told["results"]["fact"]]
    assert figures[0] == f"{sum(each.user_ns or 0 for each in used) / 1e9:.4f}"
    assert figures[2] == f"{sum(each.minor_faults or 0 for each in used):,}"
    of_fact = [by_serial[each["serial"]] for each in told["results"]["fact"]]
    first = min(of_fact, key=lambda call: call.begin_ns)
    last = max(of_fact, key=lambda call: call.end_ns)  # the outermost one
    before = profile.usage[first.id].resident_begin or 0
    after = profile.usage[last.id].resident_end or 0
    assert figures[6:8] == [f"{before / 1e6:.1f}", f"{after / 1e6:.1f}"]


@pytest.mark.further
def test_reports_of_calls_that_are_not_there(pyhybrid: Callable[..., Run], program: Path) -> None:
    run = pyhybrid("--mode", "trace", "--keep", "other", "--max-calls", 100, program)
    lines = pyhybrid("report", "calls", run.path()).result.stdout.splitlines()
    assert lines[1].split()[0] == "1,000"
    run = pyhybrid("--mode", "trace", "--keep", "forward", "--keep", "os:x", program)
    told = pyhybrid("report", "calls", run.path()).result.stdout
    assert told == "no single calls: no function that forward, os:x names was called\n"
    assert run.profile().meta["notes"] == [
        "--keep forward: no function of this name ran, but Model.forward did: '*.forward'",
        "--keep os:x: no function of this name ran",
    ]
    run = pyhybrid("--mode", "trace", program)
    told = pyhybrid("report", "calls", run.path()).result.stdout
    assert told == "no single calls were kept: choose functions with --keep NAME, or with -t NAME\n"
    empty = json.loads(pyhybrid("report", "calls", run.path(), "--json").result.stdout)
    assert empty == {"functions": [], "counted": {}, "results": {}, "metadata": {}}
    wrong = pyhybrid("report", run.path(), "--slowest", 3, check=False).result
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


@pytest.mark.further
def test_what_is_of_no_use_is_said(pyhybrid: Callable[..., Run], program: Path) -> None:
    run = pyhybrid("--mode", "trace", "--usage", "cpu", "-p", program)
    usage, paused = run.profile().meta["notes"]
    assert usage.startswith("--usage is of calls that are kept (--keep NAME)")
    assert paused.startswith("nothing was profiled (-p): `pyhybrid.enable()`")


def test_calls_are_announced(pyhybrid: Callable[..., Run], program: Path) -> None:
    chosen = ("--keep", "bad", "--keep", "Model.*", "--keep", "numbers")
    run = pyhybrid("-q", "--mode", "trace", *chosen, "--emit", "print:announce", program)
    lines = [line for line in run.result.stdout.splitlines() if line.startswith("Function ")]

    def told(name: str, *events: str) -> list[str]:
        return [f"Function {name} is being traced for event {event}!" for event in events]

    assert lines == [
        *told("numbers", "call", "return"),
        *told("bad", "call", "exception"),
        *(told("Model.forward", "call", "return") + told("Model.backward", "call", "return")) * 5,
    ]
    wrong = pyhybrid("--emit", "print:announce", program, check=False).result
    assert wrong.returncode == 2
    assert "--emit print:announce is of chosen functions: name some (-t, --keep)" in wrong.stderr


@pytest.mark.further
def test_they_are_announced_while_the_program_runs(tmp_path: Path) -> None:
    script = """if True:
        import sys
        def step(): return sys.stdin.read(1)
        step()
    """
    command = [
        "-m",
        "pyhybrid",
        "-q",
        "--mode",
        "none",
        "-t",
        "step",
        "--emit",
        "print:announce",
        "-c",
        script,
    ]
    with subprocess.Popen(
        [sys.executable, "-P", *command],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline().endswith("step is being traced for event call!\n")
        process.stdin.write("x")
        process.stdin.close()
        assert process.stdout.readline().endswith("step is being traced for event return!\n")

"""The profiler measures what counting a call costs, unseen by the program, and can subtract it."""

from __future__ import annotations

import json
import pstats
import re
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from exact_support import MODES, check_exact
from support import Run, printed

from pyhybrid.views.calls.compensate import compensate
from pyhybrid.views.calls.function_calls import function_calls

pytestmark = pytest.mark.once

CALLS = """\
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def main():
    fib(18)
    sorted(range(1000), key=lambda x: -x)
    sum(x for x in range(1000))
main()
"""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("selection", [(), ("--exclude", "nothing_of_this_name")])
def test_the_cost_of_a_call_is_measured(
    pyhybrid: Callable[..., Run], mode: str, selection: tuple[str, ...]
) -> None:
    run = pyhybrid("--mode", mode, *selection, "--format", "folded", "-c", CALLS)
    meta = run.profile().meta
    assert 1 <= meta["call_cost_ns"] <= 5000
    assert 0 <= meta["call_cost_inside_ns"] <= meta["call_cost_ns"]
    quality = printed(run.folder, "report", "quality")
    assert re.search(r"counting [\d,]{5,} calls and resumes: (about|less than) ", quality)


@pytest.mark.further
def test_samples_alone_count_nothing(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("--mode", "sample", "--format", "folded", "-c", "pass")
    meta = run.profile().meta
    assert (meta["call_cost_ns"], meta["call_cost_inside_ns"]) == (None, None)
    assert "counting" not in printed(run.folder, "report", "quality")


@pytest.mark.further
def test_nothing_of_the_measurement_is_in_the_tree(pyhybrid: Callable[..., Run]) -> None:
    for mode in ("trace", "hybrid"):
        profile = pyhybrid("-q", "--mode", mode, "--format", "folded", "-c", "pass").profile()
        assert profile.exact
        files = {frame.file for frame in profile.frames.values() if frame.kind == "python"}
        assert "<pyhybrid>" not in files
        assert not any("calibrate" in frame.name for frame in profile.frames.values())
        assert max(row.calls for row in profile.exact) < 500


def in_process(tmp_path: Path, code: str) -> str:
    """What a program prints that may use `run()`: the meta of a traced run of a function `f`."""
    head = """\
        import sys, pyhybrid
        def f(): pass
        def run():
            with pyhybrid.Profiler(mode="trace") as p:
                f()
            return p.profile.meta
        """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(head) + textwrap.dedent(code))
    command = [sys.executable, "-P", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.further
@pytest.mark.parametrize("which", ["trace", "profile"])
def test_the_programs_own_tracer_does_not_see_it(tmp_path: Path, which: str) -> None:
    code = f"""
        seen = set()
        def tracer(frame, event, arg):
            seen.add((frame.f_code.co_filename, frame.f_code.co_name))
            return tracer
        sys.set{which}(tracer)
        meta = run()
        assert sys.get{which}() is tracer
        sys.set{which}(None)
        assert (__file__, "f") in seen
        print(meta["call_cost_ns"] > 0, any(file == "<pyhybrid>" for file, _ in seen))
    """
    assert in_process(tmp_path, code) == "True False"


@pytest.mark.further
def test_where_another_tool_would_see_it_the_cost_is_unknown(tmp_path: Path) -> None:
    code = """
        m, seen = sys.monitoring, set()
        m.use_tool_id(1, "other")
        m.register_callback(1, m.events.PY_START, lambda code, _: seen.add(code.co_filename))
        m.set_events(1, m.events.PY_START)
        meta = run()
        m.set_events(1, 0)
        print(meta["call_cost_ns"], "<pyhybrid>" in seen, __file__ in seen)
        m.free_tool_id(1)
        print(run()["call_cost_ns"] > 0)
    """
    assert in_process(tmp_path, code).split() == ["None", "False", "True", "True"]


@pytest.mark.further
def test_nothing_of_it_stays(tmp_path: Path) -> None:
    code = """
        import gc
        def ours():
            codes = (getattr(o, "__code__", None) for o in gc.get_objects())
            return [code for code in codes if getattr(code, "co_filename", "") == "<pyhybrid>"]
        gc.disable()
        run()
        print(len(ours()), [sys.monitoring.get_tool(i) for i in range(6)])
    """
    assert in_process(tmp_path, code) == f"0 {[None] * 6}"


def test_compensated_times_are_smaller_and_still_add_up(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-q", "--mode", "trace", "--format", "folded", "-c", CALLS)
    plain = run.profile()
    profile = compensate(plain)
    check_exact(profile)
    before, after = function_calls(plain), function_calls(profile)
    (fib,) = (frame.id for frame in profile.frames.values() if frame.name == "fib")
    assert 0 < after[fib].total_ns < before[fib].total_ns
    assert all(after[frame].total_ns <= f.total_ns for frame, f in before.items())
    assert all(after[frame].turns == f.turns for frame, f in before.items())


@pytest.mark.further
def test_report_and_export(pyhybrid: Callable[..., Run]) -> None:
    pyhybrid("-q", "--mode", "trace", "--format", "folded", "-c", CALLS)
    report = pyhybrid("report", "--compensate")
    assert "note     compensated: the estimated cost of counting" in report.result.stdout
    run = pyhybrid("export", "--compensate", "-f", "pstats", "-f", "callgrind")
    profile = compensate(run.profile())
    total_ns = sum(f.self_ns for f in function_calls(profile).values())
    read = pstats.Stats(str(run.path("out.pstats"))).total_tt  # type: ignore[attr-defined]
    assert read == pytest.approx(total_ns / 1e9)
    text = run.path("callgrind.out").read_text()
    assert f"\ntotals: {total_ns}\n" in text
    assert "\ndesc: View: compensated: " in text


@pytest.mark.further
def test_an_older_file_cannot_be_compensated(pyhybrid: Callable[..., Run]) -> None:
    path = pyhybrid("-q", "--mode", "trace", "--format", "folded", "-c", CALLS).path()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM meta WHERE key LIKE 'call_cost%'")
    database.close()
    for command in (("report",), ("export", "-f", "pstats")):
        run = pyhybrid(*command, "--compensate", check=False)
        assert run.result.returncode == 1
        assert re.fullmatch(r"pyhybrid: .*was not measured there.*\n", run.result.stderr)


@pytest.mark.further
def test_counting_took_no_less_than_samples_saw(pyhybrid: Callable[..., Run]) -> None:
    """Functions that are called once: each is a new path, and none is as cheap as a known one."""
    code = (
        "exec('\\n'.join(f'def f{i}(): pass' for i in range(30000)))\n"
        "for i in range(30000): globals()[f'f{i}']()"
    )
    pyhybrid("--mode", "hybrid", "--hz", 5000, "--format", "folded", "-c", code)
    summary = json.loads(pyhybrid("report", "--json").result.stdout)
    cost = summary["cost"]
    assert cost["counting_ns"] >= summary["samples"]["own_weight_ns"]
    assert cost["counting_ns"] > summary["calls"]["turns"] * cost["call_ns"]


@pytest.mark.further
def test_what_calls_from_c_cost_is_known_without_samples(pyhybrid: Callable[..., Run]) -> None:
    code = "def key(x): return x\nfor _ in range(20): sorted(range(1000), key=key)"
    profile = pyhybrid("-q", "--mode", "trace", "--format", "folded", "-c", code).profile()
    assert profile.meta["counting_more_ns"] > 0

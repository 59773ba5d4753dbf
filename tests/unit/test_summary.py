"""The summary: right figures, on one screen, readable by people and by programs."""

import argparse
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_profile import PERIOD_NS, PID, example, fake_symbols
from spool_writer import SpoolWriter, native, pseudo, python
from traces import UNKNOWN, Rows, trace

from pyhybrid.assemble import open_profile
from pyhybrid.cli.export import Export
from pyhybrid.cli.report import Report
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.finish.finish import export, finish
from pyhybrid.report.run_parts import Run
from pyhybrid.report.screen import print_summary, render
from pyhybrid.report.summary import Summary, summarize
from pyhybrid.report.table import plain as as_json
from pyhybrid.report.terminal import cut_line, show
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.hot_paths import Hot
from pyhybrid.views.labels import shorten_file, shorten_native
from pyhybrid.views.stack_quality import HandlerCost, hz_reached, stack_quality


def opened(writer: SpoolWriter, tmp_path: Path) -> Profile:
    """The spool as a profile."""
    return open_profile(writer.save(tmp_path / "x.part"), fake_symbols())


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    """The example."""
    with opened(example(), tmp_path) as profile:
        yield profile


def plain(summary: Summary, columns: int = 100) -> list[str]:
    """The rendered lines' text."""
    return ["".join(text for text, _ in line) for line in render(summary, columns)]


def test_figures(profile: Profile) -> None:
    summary = summarize(profile, ["out.pyhybrid"], ["a note"])
    assert (summary.samples.signals, summary.samples.recorded) == (15, 12)
    assert summary.samples.losses == {"ring_full": 2, "too_slow": 1}
    assert summary.samples.recorded_weight_ns == 15 * PERIOD_NS
    assert summary.samples.missed_weight_ns == PERIOD_NS
    assert (summary.run.wall_ns, summary.run.cpu_ns) == (2_000_000_000, 1_500_000_000)
    run = summary.run
    assert (run.n_threads, run.n_forked, run.n_spawned) == (2, 2, 1)
    assert summary.samples.stacks == {
        "complete": 13 / 15,
        "re_anchored": 0,
        "gapped": 1 / 15,
        "truncated": 1 / 15,
    }
    by_name = {each.name.split(" (")[0].split("(")[0]: each for each in summary.functions}
    stub = by_name["at::native::add_stub; odd\nname"]
    assert (stub.samples, stub.self_ns, stub.total_ns) == (2, 5 * PERIOD_NS, 5 * PERIOD_NS)
    assert stub.module is not None
    assert stub.module.endswith("libtorch_cpu.so")
    forward = by_name["Linear.forward"]
    assert (forward.self_ns, forward.total_ns) == (2 * PERIOD_NS, 10 * PERIOD_NS)
    assert forward.python_ns == 10 * PERIOD_NS
    assert by_name["main.<locals>.step"].python_ns == 0
    assert summary.paths[0].weight_ns == 5 * PERIOD_NS
    assert summary.paths[0].frames[0] == "<module> (workload.py:1)"
    assert summary.notes == ["a note"]


def test_self_figures_sum_to_what_was_recorded(profile: Profile) -> None:
    functions = Hot(profile).functions()
    interpreter = PERIOD_NS  # the sample that folded away as a whole
    assert sum(f.self_ns for f in functions) + interpreter == 15 * PERIOD_NS
    assert sum(f.samples for f in functions) + 1 == 12


def test_recursion_counts_once(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.code(1, "f", "/a.py", 1)
    writer.code(2, "g", "/a.py", 2)
    writer.thread(1, 1, "python")
    f, g = python(1, 1), python(2, 1)
    rows = [writer.stack(f), writer.stack(f, f, f), writer.stack(f, g, f), writer.stack(g, f, g)]
    writer.stacks()
    writer.samples(1, rows)
    with opened(writer, tmp_path) as profile:
        found = {profile.frames[x.frame].name: x for x in Hot(profile).functions()}
    assert (found["f"].self_ns, found["f"].total_ns) == (3 * PERIOD_NS, 4 * PERIOD_NS)
    assert (found["g"].self_ns, found["g"].total_ns) == (PERIOD_NS, 2 * PERIOD_NS)


def test_the_worst_frame_decides_the_quality(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.thread(1, 1, "python")
    whole, anchored, gap, cut = native(0, 16), pseudo(3), pseudo(2), pseudo(1)
    rows = [
        writer.stack(whole),
        writer.stack(whole, anchored, whole),
        writer.stack(anchored, gap, whole),
        writer.stack(cut, whole, anchored),
    ]
    writer.stacks()
    writer.samples(1, rows, weights=[(3, 5)])
    with opened(writer, tmp_path) as profile:
        quality = stack_quality(profile)
    assert list(quality.values()) == [1 / 8, 1 / 8, 1 / 8, 5 / 8]


def busy(clock: str, tmp_path: Path, **meta: object) -> Profile:
    """A profile of one busy thread: 1,000 samples in 2 s of CPU time, and an idle one."""
    writer = SpoolWriter()
    writer.meta(clock=clock, **meta)
    writer.thread(1, 1, "python")
    writer.thread(2, 2, "idle")
    row = writer.stack(pseudo(1))
    writer.stacks()
    writer.samples(1, [row] * 1000, dt_ns=4_000_000)
    writer.samples(2, [row] * 2, dt_ns=4_000_000)
    handler = [0] * 64
    handler[20], handler[30] = 985, 15
    writer.counters(1, 1000, 1000, cpu_ns=2_000_000_000, handler=handler)
    writer.counters(2, 2, 2, cpu_ns=2_000_000)
    writer.end(cpu_ns=2_002_000_000)
    return opened(writer, tmp_path)


def test_rate(tmp_path: Path) -> None:
    with busy("cpu", tmp_path) as profile:
        assert hz_reached(profile) == 500
    with busy("wall", tmp_path) as profile:
        assert hz_reached(profile) == pytest.approx(250)


def test_handler_cost(tmp_path: Path) -> None:
    with busy("cpu", tmp_path) as profile:
        cost = HandlerCost(profile)
    assert cost.quantile_ns(0.5) == round(2048 + 500 / 985 * 512)  # in bucket 20
    assert cost.quantile_ns(0.99) == round(12288 + 5 / 15 * 2048)  # in bucket 30
    assert cost.overhead() == pytest.approx(0.00117, rel=0.1)
    with busy("cpu", tmp_path, cost_ns=20_000) as profile:
        assert HandlerCost(profile).overhead() == pytest.approx(0.01, rel=0.01)


def test_nothing_is_known_of_a_killed_process(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta(start_ns=None)
    with opened(writer, tmp_path) as profile:
        summary = summarize(profile, [], [])
    run, cost = summary.run, summary.cost
    assert (summary.clock.hz_reached, cost.handler_median_ns, cost.overhead) == (None, None, None)
    assert (run.wall_ns, run.cpu_ns, run.complete) == (None, None, False)
    lines = plain(summary)
    assert any("killed" in line for line in lines)
    assert not any("complete" in line or "GIL" in line for line in lines)  # there is no sample


@pytest.mark.parametrize("columns", [80, 100])
def test_one_screen(tmp_path: Path, columns: int) -> None:
    writer = example(end=False)
    writer.meta(notes=["a very long note " * 20] * 5, argv=["python", "x" * 300])
    with opened(writer, tmp_path) as profile:
        lines = plain(summarize(profile, ["/somewhere/" * 20], []), columns)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= columns
    assert not any("\n" in line for line in lines)


def test_notes_are_whole(tmp_path: Path) -> None:
    notes = [
        f"/a/long/folder{'/name' * 12}/lib.so is another build than the one that ran: no names"
    ]
    writer = example()
    writer.meta(notes=[*notes, "a second one", "a third one"])
    with opened(writer, tmp_path) as profile:
        lines = plain(summarize(profile, [], []))
    first = next(i for i, line in enumerate(lines) if line.startswith("note"))
    assert " ".join(line[9:] for line in lines[first : first + 2]) == notes[0]
    assert lines[first + 2 : first + 4] == [
        "note     a second one",
        "         and 1 more in `pyhybrid report --json`",
    ]


def test_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    writer = example()
    writer.meta(pid=PID, children_cpu_ns=70_000_000)
    with opened(writer, tmp_path) as profile:
        text = "\n".join(plain(summarize(profile, ["/out.pyhybrid", "/perf.data"], [])))
    for part in (
        f"pyhybrid workload.py --steps 3  pid {PID}, Python 3.12.1",
        "wall 2.00 s, CPU 1.50 s; 2 threads",
        "samples  12 of CPU time, 1000 Hz asked",
        "only 12 samples: shares are true to 14 points",
        "lost 2 ring full, 1 too slow of 15 signals",
        "13.3% of the stacks are not whole",
        "3 child processes not profiled, 0.07 s of CPU time",
        "Linear.forward (torch/nn/modules/linear.py:130)",
        "wrote    out.pyhybrid, perf.data",
    ):
        assert part in text


@pytest.mark.parametrize(("delay_ns", "said"), [(500_000_000, True), (90_000_000, False)])
def test_a_busy_machine_is_said(tmp_path: Path, delay_ns: int, said: bool) -> None:
    writer = example()
    writer.meta(main_delay_ns=delay_ns)
    with opened(writer, tmp_path) as profile:
        (time,) = [line for line in plain(summarize(profile, [], [])) if line.startswith("time ")]
    assert ("CPU 1.50 s, ready without a processor 0.50 s; 2 threads" in time) == said


def test_plain_text_where_there_is_no_terminal(profile: Profile) -> None:
    stream = io.StringIO()
    print_summary(summarize(profile, [], []), stream)
    assert stream.getvalue().startswith("pyhybrid workload.py")
    assert "\x1b" not in stream.getvalue()


class Terminal(io.StringIO):
    """A stream that says it is a terminal of 100 columns."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_colours_on_a_terminal(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    summary = summarize(profile, [], [])
    print_summary(summary, stream)
    text = stream.getvalue()
    assert "\x1b[1m" in text
    without = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert without == plain(summary)


@pytest.mark.parametrize(
    ("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", None)]
)
def test_no_styles_where_they_are_not_wanted(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    stream = Terminal()
    print_summary(summarize(profile, [], []), stream)
    assert stream.getvalue().startswith("pyhybrid workload.py")
    assert "\x1b" not in stream.getvalue()


class Gone(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, text: str) -> int:
        """Fail as a broken pipe does."""
        raise BrokenPipeError


def test_a_stream_that_is_gone_is_no_error(profile: Profile) -> None:
    print_summary(summarize(profile, [], []), Gone())


def test_json_has_the_documented_keys(profile: Profile) -> None:
    keys = json.loads(json.dumps(as_json(summarize(profile, [], []))))
    assert list(keys) == list(Summary._fields)
    assert list(keys["run"]) == list(Run._fields)
    assert set(keys["functions"][0]) == {
        "name", "kind", "module", "python_name", "declared_at",
        "samples", "self_ns", "total_ns", "python_ns", "calls", "raised",
        "exact_self_ns", "exact_total_ns", "waits",
    }  # fmt: skip


def run(command: Report | Export, *arguments: str) -> int:
    """A subcommand with these arguments."""
    parser = argparse.ArgumentParser()
    command.prepare_parser(parser)
    return command.run(parser.parse_args(arguments))


def test_report_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finish(example().save(tmp_path / "x.part"), "out", fake_symbols())
    assert run(Report()) == 0
    assert "samples  12 of" in capsys.readouterr().out
    assert run(Report(), "out.pyhybrid", "--json") == 0
    assert json.loads(capsys.readouterr().out)["samples"]["recorded"] == 12
    with pytest.raises(PyhybridError, match="No such file"):
        run(Report(), "none.pyhybrid")


def test_export_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = finish(example().save(tmp_path / "x.part"), "out", fake_symbols())
    assert run(Export(), path, "-f", "folded", "-f", "perf") == 0
    assert (tmp_path / "out.folded").exists()
    assert (tmp_path / "perf.data").exists()
    assert run(Export(), "-f", "perf-map", "-o", "names") == 0
    assert "py::Linear.forward" in (tmp_path / "names").read_text()
    assert "wrote names" in capsys.readouterr().err
    with pytest.raises(UsageError):
        run(Export(), path, "-f", "folded", "-f", "perf", "-o", "x")
    with pytest.raises(SystemExit, match="2"):
        run(Export(), path, "-f", "nonsense")


def test_an_export_that_fails_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = finish(example().save(tmp_path / "x.part"), str(tmp_path / "out"), fake_symbols())
    (tmp_path / "out.folded").mkdir()
    assert export(path, str(tmp_path / "out"), ["folded", "perf"], summary=True) == 1
    err = capsys.readouterr().err
    assert "cannot write" in err
    assert "perf.data" in err
    assert (tmp_path / "perf.data").exists()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("main", "main"),
        ("builtin_abs.lto_priv.0", "builtin_abs"),
        ("list_sort_impl.constprop.0.isra.0.cold", "list_sort_impl"),
        ("region._omp_fn.0", "region._omp_fn.0"),
        ("at::native::add_stub(at::Tensor const&, c10::Scalar const&)", "at::native::add_stub"),
        ("void f<std::vector<int> >(int) [clone .cold]", "f"),
        ("std::function<void (int)>::operator()(int) const", "std::function::operator()"),
        ("at::(anonymous namespace)::g<(c10::T)3>(long)", "at::{anonymous}::g"),
        (
            "void at::parallel_for<at::f(int)::{lambda(long, long)#1}>(long, int const&)"
            "::{lambda()#1}::operator()() const [clone ._omp_fn.0]",
            "at::f::{lambda}",
        ),
        (
            "void c10::function_ref<void (char**, long const*, long, long)>::callback_fn<at::native"
            "::AVX2::VectorizedLoop2d<at::native::(anonymous namespace)::mul_kernel(at::TensorIter"
            "atorBase&)::{lambda()#2}::operator()() const::{lambda(float, float)#1} const&, int> >"
            "(long, char**, long const*, long, long)",
            "at::native::{anonymous}::mul_kernel::{lambda} [AVX2]",
        ),
        (
            "std::_Function_handler<void (int, b<c>), a::start(int)::{lambda()#1}>::_M_invoke"
            "(std::_Any_data const&)",
            "a::start::{lambda}",
        ),
        (
            "std::_Function_handler<void (), a::Task>::_M_invoke(std::_Any_data const&)",
            "std::_Function_handler::_M_invoke",
        ),
        ("std::_Function_handler<>::_M_invoke(int)", "std::_Function_handler::_M_invoke"),
        (
            "void at::internal::invoke_parallel<a::f()::{lambda(long, long)#1}>(long, int)",
            "at::internal::invoke_parallel",
        ),
        ("std::ostream& c10::operator<<(std::ostream&, c10::T)", "c10::operator<<"),
        ("X::operator std::string() const", "X::operator std::string"),
        ("A::operator->() const", "A::operator->"),
        ("_ZN2at8internal15invoke_parallelIZNS_12parallel", "at::internal::invoke_parallel…"),
        ("_ZZN3c1012_GLOBAL__N_11fEUlvE_", "c10::{anonymous}::f…"),
        ("_Z", "_Z"),
        ("int A::size<int>(int) const_[i]", "A::size_[i]"),
        ("bool f::vector_if_equal_operator<std::vector<int> >(int)", "f::vector_if_equal_operator"),
    ],
)
def test_short_cpp_names(name: str, short: str) -> None:
    assert shorten_native(name) == short


@pytest.mark.parametrize(
    ("file", "short"),
    [
        ("/home/me/job/train.py", "job/train.py"),
        ("/opt/x/lib/python3.12/site-packages/torch/nn/a.py", "torch/nn/a.py"),
        ("/usr/lib/python3/dist-packages/numpy/a.py", "numpy/a.py"),
        ("/usr/lib/python3.12/json/a.py", "json/a.py"),
        ("/elsewhere/a.py", "/elsewhere/a.py"),
        ("<frozen runpy>", "<frozen runpy>"),
    ],
)
def test_short_files(file: str, short: str) -> None:
    assert shorten_file(file, "/home/me") == short


def test_calls_of_functions_that_are_not_told_apart(tmp_path: Path) -> None:
    rows: Rows = [(0, "main", {"calls": 1}), (1, "f", {"calls": 5}), (1, UNKNOWN, {"calls": 7})]
    with trace(tmp_path, rows) as profile:
        summary = summarize(profile, [], [])
    calls = summary.calls
    assert calls and (calls.calls, calls.n_traced, calls.unknown_calls) == (6, 2, 7)
    stream = io.StringIO()
    print_summary(summary, stream)
    lines = stream.getvalue().splitlines()
    assert "calls    6 of 2 Python functions, all counted" in lines
    assert "caution  7 more calls are [unknown python]" in lines


LONG = "a" * 150 + " " + "b" * 150


@pytest.mark.parametrize(
    ("columns", "is_terminal", "width"),
    [
        (None, False, 301),  # whole
        (None, True, 120),
        ("", False, 301),
        ("wide", True, 120),
        ("200", False, 200),
        ("200", True, 200),
        ("10", False, 80),
    ],
)
def test_how_wide_lines_are(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, is_terminal: bool, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((120, 40)))
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(stream, "fileno", lambda: 1)
    show(lambda columns: [cut_line([(LONG, "")], columns)], stream)
    assert len(stream.getvalue().rstrip("\n")) == width

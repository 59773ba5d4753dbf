"""Findings of hand-made profiles: what no program shows at will."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from example_profile import PID, example, fake_symbols
from spool_writer import SpoolWriter, native, pseudo, python

from pyhybrid._columns import GIL_SHIFT
from pyhybrid.assemble import open_profile
from pyhybrid.report.screen import render, render_report
from pyhybrid.report.summary import summarize
from pyhybrid.report.terminal import Line
from pyhybrid.report.tree import CallTree
from pyhybrid.symbols.resolve import Symbol
from pyhybrid.tables import GIL, GpuActivity, GpuWindow, GpuWork
from pyhybrid.views.call_tree.spinning_threads import pool_of, spinning
from pyhybrid.views.findings import Finding, findings
from pyhybrid.views.labels import Labels


def profile_of(path: Path, broken: int, lost: int) -> str:
    """200 samples, of which so many have a truncated stack, and so many others that were lost."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.thread(1, PID, "python", "MainThread")
    spool.code(3, "f", "/w.py", 1)
    whole, half = spool.stack(python(3, 0)), spool.stack(pseudo(1), python(3, 0))
    spool.stacks()
    spool.samples(1, [half] * broken + [whole] * (200 - broken))
    spool.counters(1, 200, 200 + lost, lost=(lost, 0))
    spool.end()
    return str(spool.save(path))


@pytest.mark.parametrize(
    ("broken", "lost", "rules"),
    [
        (0, 0, []),
        (5, 5, []),
        (40, 0, ["broken stacks"]),
        (0, 50, ["lost samples"]),
        (100, 50, ["broken stacks", "lost samples"]),
    ],
)
def test_the_limits_of_sampling(tmp_path: Path, broken: int, lost: int, rules: list[str]) -> None:
    with open_profile(profile_of(tmp_path / "x.part", broken, lost), fake_symbols()) as profile:
        assert [each.rule for each in findings(profile)] == rules
        lines = ["".join(t for t, _ in line) for line in render(summarize(profile, [], []))]
        assert sum(line.startswith("found    ") for line in lines) == len(rules)
        assert all(len(line) <= 100 for line in lines)


GIL_HELD, GIL_WAITING = (GIL.index(each) << GIL_SHIFT for each in ("held", "waiting"))
SYMBOLS = {
    "/x/libpython3.12.so.1.0": [("gc_collect_main", 0x100, 0x80, "symtab")],
    "/x/libc.so.6": [("free", 0x200, 0x80, "symtab")],
}


class Symbols:
    """Stands for `_symbolize.ElfSymbols`."""

    def __init__(self, path: str, build_id: str | None) -> None:
        self._symbols: list[Symbol] = SYMBOLS[path]

    def resolve(self, addresses: Iterable[int]) -> list[Symbol | None]:
        """The one symbol for all."""
        return [self._symbols[0] for _ in addresses]


def test_of_six_the_five_largest_are_said(tmp_path: Path) -> None:
    """An import that collects garbage, which frees memory, in stacks of which some are truncated;
    a fifth waits for the GIL, and a tenth of the signals is lost."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    for number, path in enumerate(SYMBOLS, 1):
        spool.module(number, path, 0x7F0000000000 + number * 0x10000000)
    spool.code(1, "_find_and_load", "<frozen importlib._bootstrap>", 1)
    spool.code(2, "<module>", "/m.py", 1)
    imports = python(1, 0), python(2, 0)
    stacks = [
        spool.stack(*imports, native(1, 0x100), native(2, 0x200)),
        spool.stack(pseudo(1), *imports),
    ]
    spool.stacks()
    frees, truncated = stacks
    for thread in (1, 2):
        spool.thread(thread, PID + thread - 1, "python", f"T-{thread}")
        waits = [frees | GIL_WAITING] * 120 + [truncated | GIL_WAITING] * 60
        spool.samples(thread, [frees | GIL_HELD] * 700 + waits + [truncated | GIL_HELD] * 120)
        spool.counters(thread, 1000, 1000, lost=(110, 0))
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), (Symbols, str)) as profile:
        said = [(each.rule, each.share) for each in findings(profile)]
    assert said == [
        ("imports", 1),
        ("garbage collection", pytest.approx(0.82)),
        ("allocation", pytest.approx(0.82)),
        ("gil", pytest.approx(0.18)),
        ("broken stacks", pytest.approx(0.18)),
    ]


def test_of_a_few_samples_nothing_is_said(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert findings(profile) == []


@pytest.mark.parametrize(
    ("library", "symbol", "pool"),
    [
        ("libgomp.so.1", "gomp_team_barrier_wait_end", "OpenMP (libgomp)"),
        ("libgomp-24e2ab19.so.1.0.0", "gomp_barrier_wait_end", "OpenMP (libgomp)"),
        ("libiomp5.so", "__kmp_hyper_barrier_release", "OpenMP (libomp)"),
        ("libscipy_openblas64_-4b78795a.so", "blas_thread_server", "OpenBLAS"),
        ("libgomp.so.1", "GOMP_parallel", None),
        ("libtorch_cpu.so", "gomp_barrier_wait_end", None),
    ],
)
def test_functions_that_spin(library: str, symbol: str, pool: str | None) -> None:
    assert pool_of(library, symbol) == pool


@pytest.mark.parametrize(
    ("path", "spins"),
    [
        ((("libc.so.6", None), ("libgomp.so.1", None)), 1),
        ((("libc.so.6", None), ("libgomp.so.1", None), ("libmine.so", "part")), 0),
        ((("libmine.so", "f"), ("libgomp.so.1", "GOMP_parallel"), ("libgomp.so.1", None)), 1),
        (
            (
                ("libmine.so", "f"),
                ("libgomp.so.1", "GOMP_loop_dynamic_next"),
                ("libgomp.so.1", None),
            ),
            0,
        ),
        ((("libgomp.so.1", None), ("libc.so.6", "sched_yield")), 1),
        ((("libc.so.6", None), ("libopenblas.so.0", None)), 3),
        ((("libc.so.6", None), ("libopenblas.so.0", None), ("libopenblas.so.0", "dgemm")), 0),
        ((("libopenblas.so.0", "dgemm_"), ("libopenblas.so.0", None)), 0),
    ],
)
def test_functions_without_names_that_spin(
    tmp_path: Path, path: tuple[tuple[str, str | None], ...], spins: int
) -> None:
    """By their library, and by what called them."""
    files = list(dict.fromkeys(f"/x/{file}" for file, _ in path))

    class OfPath:
        def __init__(self, path: str, build_id: str | None) -> None:
            self._path = path

        def resolve(self, addresses: Iterable[int]) -> list[Symbol | None]:
            """By the place on the path, which is the address."""
            symbols = [path[address >> 8][1] for address in addresses]
            return [
                (symbol, at & ~255, 256, "dynsym") if symbol else None
                for symbol, at in zip(symbols, addresses, strict=True)
            ]

    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    for number, file in enumerate(files, 1):
        spool.module(number, file, 0x7F0000000000 + number * 0x10000000)
    spool.thread(1, PID, "python")
    stack = spool.stack(
        *(native(files.index(f"/x/{file}") + 1, at * 256 + 16) for at, (file, _) in enumerate(path))
    )
    spool.stacks()
    spool.samples(1, [stack] * 10)
    spool.counters(1, 10, 10)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), (OfPath, str)) as profile:
        (row,) = profile.sampled
        assert spinning(profile)[profile.stacks.node[row.stack]] == spins


def test_imports_of_a_long_run(tmp_path: Path) -> None:
    """That it hardly computed changes nothing."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.code(1, "_find_and_load", "<frozen importlib._bootstrap>", 1)
    spool.code(2, "<module>", "/m.py", 1)
    spool.code(3, "serve", "/w.py", 1)
    spool.thread(1, PID, "python")
    imports, serves = spool.stack(python(1, 0), python(2, 0)), spool.stack(python(3, 0))
    spool.stacks()
    spool.samples(1, [imports] * 900 + [serves] * 300)
    spool.counters(1, 1200, 1200)
    spool.end(time_ns=3600 * 10**9)
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        (finding,) = findings(profile)
    assert (finding.rule, finding.share, finding.evidence["module"]) == ("imports", 0.75, "m")


def test_locks_where_the_kernel_tells_no_names(tmp_path: Path) -> None:
    """By the function of the C library that entered it."""
    library = "/x/libc.so.6"
    symbols: list[Symbol] = [
        ("pthread_cond_wait", 0x100, 0x80, "dynsym"),
        ("read", 0x200, 0x80, "dynsym"),
    ]

    class Libc:
        def __init__(self, path: str, build_id: str | None) -> None:
            assert path == library

        def resolve(self, addresses: Iterable[int]) -> list[Symbol | None]:
            """What it exports."""
            return [
                next((s for s in symbols if s[1] <= address < s[1] + s[2]), None)
                for address in addresses
            ]

    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.module(1, library, 0x7F0000000000)
    spool.code(1, "waits", "/w.py", 1)
    spool.thread(1, PID, "python")
    locks, reads, computes = (
        spool.stack(python(1, 0), native(1, 0x110), native(1, 0x1010), pseudo(8)),
        spool.stack(python(1, 0), native(1, 0x210), pseudo(8)),
        spool.stack(python(1, 0), native(1, 0x110)),
    )
    spool.stacks()
    spool.samples(1, [locks] * 400 + [reads] * 300 + [computes] * 300)
    spool.counters(1, 1000, 1000)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), (Libc, str)) as profile:
        (finding,) = findings(profile)
    assert (finding.rule, finding.share) == ("locks", 0.4)
    assert "most of it in waits (" in finding.text


@pytest.mark.parametrize(("busy", "found"), [(0.0, True), (0.5, True), (0.9, False), (1.0, False)])
def test_a_gpu_that_idles(tmp_path: Path, busy: float, found: bool) -> None:
    """Two of its kernels overlap, and a function holds the GIL all the time."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.thread(1, PID, "python", "MainThread")
    spool.code(3, "prepare", "/w.py", 1)
    stack = spool.stack(python(3, 0))
    spool.stacks()
    n, begin_ns, step_ns = 200, 2_000_000_000, 1_000_000
    spool.samples(1, [stack | GIL_HELD] * n, begin_ns, step_ns)
    spool.counters(1, n, n)
    spool.end()
    end_ns = begin_ns + n * step_ns
    busy_ns = round(busy * (end_ns - begin_ns))
    with open_profile(str(spool.save(tmp_path / "x.part")), fake_symbols()) as profile:
        ran = begin_ns, begin_ns + busy_ns, begin_ns
        of_gpu = {
            GpuWork: [GpuWork(1, 0, 0, "kernel", 0, 7, 2, 2 * busy_ns)],
            GpuWindow: [GpuWindow(begin_ns, end_ns)],
            GpuActivity: [GpuActivity(1, *ran), GpuActivity(1, *ran)],
        }
        with_gpu = profile.replaced(of_gpu)
        idle = [each for each in findings(with_gpu) if each.rule == "idle GPU"]
        assert bool(idle) == found
        if idle:
            assert idle[0].share == pytest.approx(1 - busy)
            assert idle[0].evidence["held"] == 1
            assert "most samples are in prepare (/w.py:1)" in idle[0].text


@pytest.mark.parametrize(("took_ms", "reason"), [(900, "size mismatch"), (900, None), (90, None)])
def test_what_is_compiled_again(tmp_path: Path, took_ms: int, reason: str | None) -> None:
    """For the share of the run that it takes, with the reason, if one is known."""
    spool = SpoolWriter(PID)
    begin_ns = 2_000_000_000
    known = {"name": "forward", "file": "/w.py", "line": 7, "begin_ns": begin_ns}
    first = {**known, "id": "0/0", "end_ns": begin_ns + 1_500_000_000}
    again = {**known, "id": "0/1", "end_ns": begin_ns + took_ms * 1_000_000}
    again |= {"reason": f"0/0: {reason}"} if reason else {}
    spool.meta(pid=PID, start_ns=begin_ns, compiles=[first, again])
    spool.thread(1, PID, "python", "MainThread")
    spool.end(begin_ns + 6_000_000_000)
    with open_profile(str(spool.save(tmp_path / "x.part")), fake_symbols()) as profile:
        texts = [each.text for each in findings(profile) if each.rule == "recompiles"]
    text = "of the run, 0.9 s, is compiling again what was compiled, most of it forward (w.py:7)"
    said = f"15% {text}{f', because {reason}' if reason else ''}"
    assert texts == ([said] if took_ms > 300 else [])


PLACE = "Classifier.forward (/home/me/models/classifier.py:67)"
AGAIN = "35% of the run, 11 s, is compiling again what was compiled, most of it"
BECAUSE = ", because tensor 'x' size mismatch at index 1. expected 32, actual 31"


def recompiled(place: str = PLACE, because: str = BECAUSE) -> Finding:
    """As findings.toml words it."""
    evidence = {"function": place, "because": because}
    text = f"{AGAIN} {place}{because}"
    return Finding("recompiles", text, "pyhybrid report compiles", 0.35, evidence)


@pytest.fixture
def screens(tmp_path: Path) -> Iterator[Callable[..., list[list[str]]]]:
    """Of these findings: the screen at the end of a run, of a small and of a large terminal."""
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        labels = Labels(profile).of_frame

        def render_all(found: list[Finding], columns: int, notes: int = 0) -> list[list[str]]:
            summary = summarize(profile, ["out.pyhybrid"], ["a long note " * 30] * notes)
            summary = summary._replace(findings=found)
            tree = CallTree(profile, labels, 0, False, False)
            reports = [render_report(summary, tree, columns, height) for height in (23, 50)]
            shown = [plain(screen) for screen in (render(summary, columns), *reports)]
            for lines, height in zip(shown, (24, 23, 50), strict=True):
                assert len(lines) <= height
                assert max(map(len, lines)) <= columns
                assert lines[-1].startswith("wrote    ")
            return shown

        yield render_all


def plain(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def said(lines: list[str]) -> list[list[str]]:
    """The lines of each finding, without what stands before its text."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("found    "):
            found.append([line[9:]])
        elif found and line.startswith(" " * 9) and line[9] != " ":
            found[-1].append(line[9:])
        elif found:
            break
    return found


@pytest.mark.parametrize("columns", [100, 160])
def test_a_long_finding_has_two_lines(
    screens: Callable[..., list[list[str]]], columns: int
) -> None:
    """With all its words, and the command where there is room."""
    long = recompiled(because=BECAUSE[:-40])
    for lines in screens([long, recompiled("f (x.py:1)", "")], columns):
        first, second = said(lines)
        assert len(first) == 2
        assert " ".join(first).removesuffix(f": `{long.command}`") == long.text
        assert second[0].startswith(f"{AGAIN} f (x.py:1)")
        assert len(second) <= 2
    assert said(lines)[1][-1].endswith(f"`{long.command}`")


@pytest.mark.parametrize(
    ("found", "columns", "kept"),
    [
        (recompiled(), 80, "Classifier.forward (…/classifier.py:67), because tensor"),
        (recompiled("Outer." * 14 + "run (/home/me/model.py:7)"), 80, "run (…/model.py:7)…"),
        (recompiled("f" * 300 + " (/home/me/model.py:7)", ""), 100, "f (…/model.py:7)"),
        (recompiled("f (x.py:1)", ", because " + "of this " * 40), 100, "f (x.py:1), because of"),
    ],
)
def test_of_what_two_lines_cannot_hold_the_place_is_kept(
    screens: Callable[..., list[list[str]]], found: Finding, columns: int, kept: str
) -> None:
    for lines in screens([found], columns):
        ((first, second),) = said(lines)
        assert first.startswith("35% ")
        assert kept in f"{first} {second}"
        assert "…" in f"{first} {second}"


@pytest.mark.parametrize("notes", [0, 1, 2])
def test_no_finding_is_cut_for_the_height(
    screens: Callable[..., list[list[str]]], notes: int
) -> None:
    """Five, below long notes; no heading is left without what it is of."""
    for lines in screens([recompiled()] * 5, 100, notes):
        found = said(lines)
        assert len(found) in (3, 5)
        assert all("classifier.py:67" in " ".join(each) for each in found)
        assert not lines[-2].endswith(("function", "below it", "paths", "libraries"))


@pytest.mark.parametrize("paused", [False, True])
def test_a_program_that_hardly_ran(tmp_path: Path, paused: bool) -> None:
    """It waited; or with -p it ran while nothing was profiled."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID, paused=paused)
    spool.thread(1, PID, "python")
    spool.end(10**10, 10**8)
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        found = [(each.rule, each.command) for each in findings(profile)]
        notes = profile.meta["notes"]
    assert found == ([] if paused else [("waiting", "python -m pyhybrid --clock wall ...")])
    assert any("`pyhybrid.enable()`" in note for note in notes) == paused

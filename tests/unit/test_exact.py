"""The exact half of a spool: times, threads and nodes, joined with the sampled half."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from example_profile import PATHS, PYTHON, TORCH, fake_symbols
from spool_writer import SpoolWriter, c_call, native, pseudo, python

from pyhybrid import spool as form
from pyhybrid.assemble import open_profile
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.finish.finish import make
from pyhybrid.report.screen import print_summary
from pyhybrid.report.summary import summarize
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import ROOT, function_calls

Opened = Callable[[SpoolWriter], Profile]
MAIN, WORK, LEAF, SORTED = python(1, 0), python(2, 0), python(3, 0), native(1, 0x100)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    profiles = []

    def profile_of(writer: SpoolWriter) -> Profile:
        profiles.append(open_profile(writer.save(tmp_path / "x.part"), fake_symbols()))
        return profiles[-1]

    yield profile_of
    for profile in profiles:
        profile.close()


def writer(mode: str = "trace") -> SpoolWriter:
    """Three functions; ticks are half nanoseconds."""
    spool = SpoolWriter()
    spool.meta(mode=mode)
    spool.clock(1000, 500)
    spool.module(1, "/usr/lib/libfake.so", 0x7F0000000000)
    for index, name in enumerate(("main", "work", "leaf"), 1):
        spool.code(index, name, "a.py", 10 * index)
    return spool


def recursive(spool: SpoolWriter) -> None:
    """main -> sorted (C) -> work -> work -> leaf, on one thread; the numbers are ticks."""
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, SORTED), (2, WORK), (3, WORK))
    spool.exact_nodes(1, 5, (4, LEAF))
    spool.exact_counts(1, {"node": 1, "calls": 9}, {"node": 3, "calls": 9})  # overridden below
    spool.exact_counts(
        1,
        {"node": 1, "calls": 1, "ticks": 2001},
        {"node": 3, "calls": 2, "resumes": 3, "ticks": 1501},
        {"node": 4, "calls": 2, "raised": 1, "ticks": 1001},
        {"node": 5, "calls": 7, "ticks": 601},
    )


def by_name(profile: Profile) -> dict[str, tuple[int, ...]]:
    """name/depth -> calls, resumes, raised, total, self."""
    rows = {}
    for row in profile.exact:
        path, node = [], row.node
        while node:
            path.append(profile.frames[profile.nodes.frame[node]].name)
            node = profile.nodes.parent[node]
        figures = (row.calls, row.resumes, row.raised, row.total_ns, row.self_ns)
        rows[f"{row.thread}:" + "/".join(reversed(path))] = figures
    return rows


def test_totals_and_self_times(opened: Opened) -> None:
    spool = writer()
    recursive(spool)
    spool.clock(4001000, 2000500)
    spool.end()
    profile = opened(spool)
    name = next(f.name for f in profile.frames.values() if f.kind == "native")
    assert by_name(profile) == {
        "1:main": (1, 0, 0, 1000, 250),
        f"1:main/{name}/work": (2, 3, 0, 750, 250),
        f"1:main/{name}/work/work": (2, 0, 1, 500, 200),
        f"1:main/{name}/work/work/leaf": (7, 0, 0, 300, 300),
    }
    (thread,) = profile.threads.values()
    assert (thread.tid, thread.name, thread.recorded) == (100, "python", 0)


def test_functions(opened: Opened) -> None:
    spool = writer()
    recursive(spool)
    spool.clock(4001000, 2000500)
    spool.end()
    profile = opened(spool)
    ids = {frame.name: frame.id for frame in profile.frames.values()}
    functions = function_calls(profile)
    work = functions[ids["work"]]
    assert (work.calls, work.turns, work.outer_turns) == (4, 7, 5)
    assert (work.total_ns, work.self_ns, work.raised) == (750, 450, 1)
    assert {k: (t.turns, t.total_ns) for k, t in work.callers.items()} == {
        ids["main"]: (5, 750),
        ids["work"]: (2, 500),
    }
    assert functions[ids["main"]].callers.keys() == {ROOT}


def test_nodes_of_both_halves_are_one(opened: Opened) -> None:
    spool = writer("hybrid")
    spool.thread(1, 100, "python")
    stack = spool.stack(python(1, 5), native(1, 0x108), python(2, 7), native(1, 0x200))
    spool.stacks()
    spool.samples(1, [stack])
    spool.exact_thread(7, 100)
    spool.exact_nodes(7, 1, (0, MAIN), (1, SORTED), (2, WORK))
    spool.exact_counts(7, {"node": 1, "calls": 1}, {"node": 3, "calls": 4})
    spool.end()
    profile = opened(spool)
    assert len(profile.threads) == 1
    assert len(profile.nodes.parent) == 5  # the root, and four frames
    assert {row.node for row in profile.exact} <= set(range(1, 5))


def test_a_tid_that_came_again(opened: Opened) -> None:
    spool = writer()
    spool.thread(1, 100, "python", "first")
    spool.exact_thread(1, 100, first_ns=10**9 - 5_000_000)
    spool.exact_thread(2, 100, first_ns=3 * 10**9)
    for index in (1, 2):
        spool.exact_nodes(index, 1, (0, MAIN))
        spool.exact_counts(index, {"node": 1, "calls": index})
    spool.end()
    profile = opened(spool)
    assert [(row.thread, row.calls) for row in profile.exact] == [(1, 1), (2, 2)]
    assert [thread.name for thread in profile.threads.values()] == ["first", "python"]


def test_tables_are_those_of_the_file_in_its_order(tmp_path: Path) -> None:
    """Whether the file was read or has just been made; events need not come in order of threads."""
    spool = writer()
    spool.meta(mode="trace", odd={1: ("a", "b\udc80")})
    for number in (3, 2):
        spool.module(number, f"/{number}.so", 0x7F0000000000 - 0x1000000 * number, build_id=b"")
    for tid in (100, 200):
        spool.thread(tid // 100, tid, "python")
    for index, tid in enumerate((200, 100), 1):
        spool.exact_thread(index, tid)
        spool.exact_nodes(index, 1, (0, MAIN), (1, WORK))
        spool.exact_counts(index, *({"node": node, "calls": tid} for node in (1, 2)))
    sampled = [spool.stack(PYTHON, native(number, 0x10)) for number in (2, 3)]
    spool.stacks()
    spool.samples(1, sampled)
    spool.end()
    path, made = make(spool.save(tmp_path / "x.part"), str(tmp_path / "x"), fake_symbols())
    with Profile.open(path) as profile:
        for name, part in made.items():
            assert getattr(profile, name) == part, name
        assert list(profile.modules) == [1, 2, 3]
        assert len(profile.sampled_stacks) == 2
    assert [(row.thread, row.calls) for row in made["exact"]] == [(1, 100)] * 2 + [(2, 200)] * 2


def test_a_thread_is_one_however_late_it_was_seen(opened: Opened) -> None:
    spool = writer()
    spool.thread(1, 100, "python", "late", first_ns=10**12)
    spool.exact_thread(1, 100, first_ns=10**9)
    spool.exact_nodes(1, 1, (0, MAIN))
    spool.exact_counts(1, {"node": 1, "calls": 1})
    spool.end()
    profile = opened(spool)
    assert [profile.threads[row.thread].name for row in profile.exact] == ["late"]
    assert len(profile.threads) == 1


@pytest.mark.parametrize("number", [2, 1])  # of none, and of one that has events already
def test_events_of_a_thread_that_is_not_there(opened: Opened, number: int) -> None:
    spool = writer()
    spool.thread(1, 100, "python")
    spool.exact_thread(1, 100)
    spool.record(form.TYPE["EXACT_THREAD"], form.STRUCT["spool_exact_thread"].pack(2, number))
    spool.end()
    assert opened(spool).meta["notes"][0].startswith("1 damaged records of ")


def test_what_still_ran_when_the_process_was_killed(opened: Opened) -> None:
    spool = writer()
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, WORK), (2, LEAF))
    counts = (
        {"node": 1, "calls": 1},
        {"node": 2, "seeded": 1},
        {"node": 3, "calls": 5, "ticks": 80},
    )
    spool.exact_counts(1, *counts)
    spool.clock(2000, 1000)
    rows = by_name(opened(spool))
    assert rows["1:main"] == (1, 0, 0, 40, 0)
    assert rows["1:main/work"] == (0, 0, 0, 40, 0)


def test_full_trees_and_unknown_code(opened: Opened) -> None:
    spool = writer()
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, pseudo(6)), (1, python(99, 0)))
    spool.exact_counts(1, *({"node": node, "calls": node} for node in (1, 2, 3)))
    spool.end()
    rows = by_name(opened(spool))
    assert set(rows) == {"1:main", "1:main/[tree full]", "1:main/[unknown python]"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda spool: spool.exact_nodes(1, 1 << 21, (0, MAIN)),
        lambda spool: spool.exact_nodes(1, 1, (1, MAIN)),
        lambda spool: spool.exact_nodes(2, 1, (0, MAIN)),
        lambda spool: spool.exact_counts(1, {"node": 1, "calls": 1}),
    ],
)
def test_damage_is_one_line(opened: Opened, damage: Callable[[SpoolWriter], None]) -> None:
    """And what is not damaged is read."""
    spool = writer()
    spool.exact_thread(1, 100)
    damage(spool)
    profile = opened(spool)
    assert profile.meta["notes"][0].startswith("1 damaged records of ")
    assert profile.exact == []


@pytest.mark.parametrize("figure", ["calls", "resumes", "ticks", "since"])
def test_a_figure_that_cannot_be(opened: Opened, figure: str) -> None:
    """It costs its own row."""
    spool = writer()
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, MAIN))
    spool.exact_counts(
        1,
        {"node": 1, "calls": 1, "ticks": 10},
        {"node": 2, "calls": 1, figure: (1 << 64) - 1},
    )
    spool.clock(5000, 2500)
    spool.end(cpu_ns=(1 << 64) - 1)
    profile = opened(spool)
    assert profile.meta["notes"][0].startswith(("1 damaged records", "2 damaged records"))
    assert [(row.calls, row.total_ns) for row in profile.exact][:1] == [(1, 5)]
    assert profile.process.cpu_ns is None


def test_nodes_whose_parents_were_in_a_damaged_record(opened: Opened) -> None:
    spool = writer()
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 3, (2, MAIN))
    spool.exact_counts(1, {"node": 3, "calls": 7})
    spool.end()
    assert by_name(opened(spool)).keys() == {"1:[truncated]/main"}


def test_what_runs_when_the_process_is_killed(opened: Opened) -> None:
    """Up to the last reading of the clock, and not at all if that is older."""
    spool = writer()
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, MAIN), (2, MAIN))
    spool.exact_counts(
        1,
        {"node": 1, "calls": 1, "since": 1000},
        {"node": 2, "calls": 3, "ticks": 500_000, "since": 3_001_000},
        {"node": 3, "calls": 1, "since": 4_001_001},
    )
    spool.clock(4_001_000, 2_000_500)
    rows = sorted(opened(spool).exact, key=lambda row: row.node)
    assert [row.total_ns for row in rows] == [2_000_000, 750_000, 0]
    assert [row.self_ns for row in rows] == [1_250_000, 750_000, 0]


def test_folded_without_samples_is_in_microseconds(opened: Opened, tmp_path: Path) -> None:
    spool = writer()
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, WORK))
    spool.exact_counts(
        1, {"node": 1, "calls": 1, "ticks": 10**7}, {"node": 2, "calls": 3, "ticks": 4 * 10**6}
    )
    spool.clock(4001000, 2000500)
    spool.end()
    path = tmp_path / "x.folded"
    export_to(Folded(), opened(spool), str(path))
    assert path.read_text().splitlines() == [
        "python;main (a.py:10) 3000",
        "python;main (a.py:10);work (a.py:20) 2000",
    ]


def test_summary_of_a_trace(opened: Opened) -> None:
    spool = writer()
    recursive(spool)
    spool.clock(4001000, 2000500)
    spool.end()
    profile = opened(spool)
    stream = io.StringIO()
    print_summary(summarize(profile, [], []), stream)
    text = stream.getvalue()
    assert "calls    12 of 3 Python functions" in text
    assert "samples" not in text
    assert [line.split()[-2] for line in text.splitlines() if "a.py" in line] == [
        "main", "work", "leaf",
        "work", "leaf", "main",
    ]  # fmt: skip


def test_the_table_can_be_queried(opened: Opened) -> None:
    spool = writer()
    recursive(spool)
    spool.end()
    profile = opened(spool)
    assert profile.query("SELECT sum(calls) FROM exact") == [(12,)]


BASE = 0x7F0000000000  # of the interpreter below
SORT, MAKE_CALL = native(PYTHON, 0x500), native(PYTHON, 0x600)  # builtin_sorted, plumbing


def with_c_calls() -> SpoolWriter:
    """main calls builtin_sorted, which calls work; ticks are nanoseconds."""
    spool = SpoolWriter()
    spool.meta(mode="hybrid", c_calls=True)
    spool.module(PYTHON, PATHS[PYTHON], BASE)
    for index, name in enumerate(("main", "work"), 1):
        spool.code(index, name, "a.py", 10 * index)
    spool.thread(1, 100, "python")
    spool.exact_thread(1, 100)
    spool.exact_nodes(1, 1, (0, MAIN), (1, c_call(PYTHON, 0x500)), (2, WORK))
    return spool


def counts_of_c_calls(spool: SpoolWriter) -> None:
    spool.exact_counts(
        1,
        {"node": 1, "calls": 1, "ticks": 1000},
        {"node": 2, "calls": 4, "raised": 1, "ticks": 700},
        {"node": 3, "calls": 8, "ticks": 300},
    )


def test_a_c_function_has_a_time_of_its_own(opened: Opened) -> None:
    spool = with_c_calls()
    counts_of_c_calls(spool)
    spool.c_function(BASE + 0x500, "<built-in method builtins.sorted>")
    spool.end()
    profile = opened(spool)
    assert by_name(profile) == {
        "1:main": (1, 0, 0, 1000, 300),
        "1:main/builtin_sorted": (4, 0, 1, 700, 400),
        "1:main/builtin_sorted/work": (8, 0, 0, 300, 300),
    }
    ids = {frame.name: frame.id for frame in profile.frames.values()}
    functions = function_calls(profile)
    assert {k: t.calls for k, t in functions[ids["work"]].callers.items()} == {
        ids["builtin_sorted"]: 8
    }
    assert functions[ids["builtin_sorted"]].callers.keys() == {ids["main"]}
    assert profile.c_names == {ids["builtin_sorted"]: "<built-in method builtins.sorted>"}
    summary = summarize(profile, [], [])
    calls = summary.calls
    assert calls and (calls.calls, calls.n_traced, calls.c_calls, calls.n_c_traced) == (9, 2, 4, 1)


def test_samples_of_a_c_function_are_where_its_calls_are(opened: Opened) -> None:
    spool = with_c_calls()
    counts_of_c_calls(spool)
    stacks = [
        spool.stack(python(1, 5), MAKE_CALL, native(PYTHON, 0x508)),
        spool.stack(python(1, 9), MAKE_CALL, native(PYTHON, 0x610), native(PYTHON, 0x510)),
        spool.stack(python(1, 9), SORT, python(2, 3)),  # its outer part is an exact node's
        spool.stack(python(1, 9), MAKE_CALL),
        spool.stack(python(1, 9), native(PYTHON, 0x310), native(PYTHON, 0x508)),  # another's callee
        spool.stack(python(2, 9), MAKE_CALL, native(PYTHON, 0x508)),  # not counted there
    ]
    spool.stacks()
    spool.samples(1, stacks)
    spool.end()
    profile = opened(spool)
    names = []
    for stack in stacks:
        node, path = profile.stacks.node[stack], []
        while node:
            path.append(profile.frames[profile.nodes.frame[node]].name)
            node = profile.nodes.parent[node]
        names.append("/".join(reversed(path)))
    assert names == [
        "main/builtin_sorted",
        "main/builtin_sorted",
        "main/builtin_sorted/work",
        "main/_PyObject_MakeTpCall",
        "main/builtin_exec/builtin_sorted",
        "work/_PyObject_MakeTpCall/builtin_sorted",
    ]
    (row,) = (row for row in profile.exact if row.calls == 4)
    assert {profile.stacks.node[stack] for stack in stacks[:2]} == {row.node}
    # Addresses stay.
    assert profile.stacks.address[profile.stacks.parent[stacks[0]]] == BASE + 0x600


def test_a_c_function_that_is_also_met_without_a_call(opened: Opened) -> None:
    """What it led to then is no part of its time, though it is the same node."""
    spool = with_c_calls()
    spool.exact_nodes(1, 4, (1, SORT), (4, WORK))
    counts_of_c_calls(spool)
    spool.exact_counts(1, {"node": 5, "calls": 2, "ticks": 250})
    spool.end()
    rows = by_name(opened(spool))
    assert rows["1:main"] == (1, 0, 0, 1000, 50)
    assert rows["1:main/builtin_sorted"] == (4, 0, 1, 700, 400)
    assert rows["1:main/builtin_sorted/work"] == (10, 0, 0, 550, 550)


@pytest.mark.parametrize(
    ("module", "address", "names", "shown"),
    [
        (PYTHON, 0x910, ["<built-in method builtins.id>"], "builtins.id"),
        (PYTHON, 0xB00, ["<built-in method builtins.id>"], "builtins.id"),  # PyType_Type[16]
        (
            PYTHON,
            0x910,
            ["<method 'items' of 'frozendict' objects>", "<method 'items' of 'dict' objects>"],
            "dict.items or frozendict.items",
        ),
        (PYTHON, 0x910, [f"<built-in method m.{x}>" for x in "abc"], "libpython3.12.so.1.0!+0x910"),
        (TORCH, 0x910, ["<built-in method m.f>"], "libtorch_cpu.so!+0x910"),  # perhaps a dispatcher
    ],
)
def test_c_functions_without_a_symbol(
    opened: Opened, module: int, address: int, names: list[str], shown: str
) -> None:
    spool = with_c_calls()
    if module != PYTHON:
        spool.module(module, PATHS[module], 2 * BASE)
    spool.functions({native(module, address): native(module, address)})
    spool.exact_nodes(1, 4, (1, c_call(module, address)))
    spool.exact_counts(1, {"node": 4, "calls": 1})
    for name in names:
        spool.c_function((BASE if module == PYTHON else 2 * BASE) + address, name)
    spool.end()
    profile = opened(spool)
    assert [profile.frames[profile.nodes.frame[row.node]].name for row in profile.exact] == [shown]


def test_functions_that_share_their_code_have_no_name(opened: Opened) -> None:
    spool = with_c_calls()
    counts_of_c_calls(spool)
    for name in ("<built-in method m.f>", "<built-in method m.g>"):
        spool.c_function(BASE + 0x500, name)
    spool.end()
    profile = opened(spool)
    assert profile.c_names == {}
    assert len(profile.query("SELECT name FROM c_function")) == 2

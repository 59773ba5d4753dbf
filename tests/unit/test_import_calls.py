"""Calls that imports of libraries ran: sums by module, without a call or a nanosecond less."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from example_profile import fake_symbols
from spool_writer import SpoolWriter, call_turn, pseudo, python, region

from pyhybrid.assemble import open_profile
from pyhybrid.report.run_parts import Calls
from pyhybrid.report.summary import summarize
from pyhybrid.spool import STRUCT, TYPE
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.function_calls import function_calls
from pyhybrid.views.calls.kept_functions import kept_functions

LIBRARY = "/usr/lib/python3.12/site-packages/lib"
IMPORTLIB = "<frozen importlib._bootstrap>"
CODES = {
    "main": "/home/me/main.py",
    "_find_and_load": IMPORTLIB,
    "_load": IMPORTLIB,
    "_spec": IMPORTLIB,
    "<module>": f"{LIBRARY}/a.py",
    "setup": f"{LIBRARY}/a.py",
    "check": f"{LIBRARY}/a.py",
    "callback": "/home/me/hooks.py",
    "kept": f"{LIBRARY}/a.py",
}
WORD = {name: python(number, 0) for number, name in enumerate(CODES, 1)}
SUBMODULE = python(len(CODES) + 1, 0)
OWN_MODULE = python(len(CODES) + 2, 0)
SUMS = "[functions of imports]"


def spool_of(**meta: object) -> SpoolWriter:
    spool = SpoolWriter()
    spool.meta(mode="hybrid", **meta)
    spool.clock(0, 0)
    for number, (name, file) in enumerate(CODES.items(), 1):
        spool.code(number, name, file, 10 * number)
    spool.code(len(CODES) + 1, "<module>", f"{LIBRARY}/sub.py", 1)
    spool.code(len(CODES) + 2, "<module>", "/home/me/mine.py", 1)
    spool.exact_thread(1, 100)
    return spool


def put(spool: SpoolWriter, *paths: tuple[str, int, int, dict[str, int]]) -> None:
    """Nodes by their paths of names, with calls, ticks and what else was counted; 1 tick = 1 ns."""
    words = {**WORD, "sub": SUBMODULE, "mine": OWN_MODULE, "region": region(1), "full": pseudo(6)}
    words["text"] = python(len(CODES) + 3, 0)
    numbers = {"": 0}
    for path, calls, ticks, more in paths:
        above, _, name = path.rpartition("/")
        numbers[path] = len(numbers)
        spool.exact_nodes(1, numbers[path], (numbers[above], words[name]))
        spool.exact_counts(1, {"node": numbers[path], "calls": calls, "ticks": ticks, **more})


STATEMENT = "main/_find_and_load/_load/<module>"
TREE: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("main", 1, 1000, {}),
    ("main/check", 2, 20, {}),
    ("main/_find_and_load", 1, 900, {}),
    ("main/_find_and_load/_spec", 5, 50, {"raised": 3}),
    ("main/_find_and_load/_spec/check", 6, 10, {}),
    ("main/_find_and_load/_load", 1, 840, {}),
    (STATEMENT, 1, 800, {}),
    (f"{STATEMENT}/setup", 10, 100, {"seeded": 1}),
    (f"{STATEMENT}/setup/check", 70, 60, {"resumes": 4}),
    (f"{STATEMENT}/check", 7, 30, {}),
    (f"{STATEMENT}/setup/_find_and_load", 1, 30, {}),
    (f"{STATEMENT}/setup/_find_and_load/sub", 1, 25, {}),
    (f"{STATEMENT}/setup/callback", 3, 9, {}),
    (f"{STATEMENT}/setup/callback/check", 4, 6, {}),
)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Profile, Profile]]:
    """The same run with all calls, and with sums."""
    profiles = []
    for imports in (True, False):
        spool = spool_of(imports=imports)
        put(spool, *TREE)
        spool.clock(10**6, 10**6)
        spool.end()
        path = spool.save(tmp_path / f"{imports}.part")
        profiles.append(open_profile(path, fake_symbols()))
    yield profiles[0], profiles[1]
    for profile in profiles:
        profile.close()


def rows(profile: Profile) -> dict[str, tuple[int, ...]]:
    """By path: calls, resumes, raised, seeded, total and self time."""
    found = {}
    for row in profile.exact:
        path, node = "", row.node
        while node:
            frame = profile.frames[profile.nodes.frame[node]]
            name = {f"{LIBRARY}/sub.py": "sub"}.get(frame.file or "", frame.name)
            path, node = f"{name}/{path}", profile.nodes.parent[node]
        figures = row.calls, row.resumes, row.raised, row.seeded, row.total_ns, row.self_ns
        found[path.rstrip("/")] = figures
    return found


def test_what_stays_is_as_it_was(both: tuple[Profile, Profile]) -> None:
    """Modules and what leads to them, the program's functions and what these call."""
    whole, summed = map(rows, both)
    sums = {path for path in summed if path.endswith(SUMS)}
    assert sums == {
        f"main/_find_and_load/{SUMS}",
        f"{STATEMENT}/{SUMS}",
        f"{STATEMENT}/setup/{SUMS}",
    }
    folded = whole.keys() - summed.keys()
    assert folded == {
        "main/_find_and_load/_spec",
        "main/_find_and_load/_spec/check",
        f"{STATEMENT}/setup/check",
        f"{STATEMENT}/check",
    }
    assert {path: whole[path] for path in whole.keys() - folded} == {
        path: summed[path] for path in summed.keys() - sums
    }


def test_sums_have_all_the_rest(both: tuple[Profile, Profile]) -> None:
    _, summed = map(rows, both)
    assert summed[f"main/_find_and_load/{SUMS}"] == (11, 0, 3, 0, 50, 50)
    assert summed[f"{STATEMENT}/{SUMS}"] == (7, 0, 0, 0, 30, 30)
    assert summed[f"{STATEMENT}/setup/{SUMS}"] == (70, 4, 0, 0, 60, 60)


def test_what_a_summary_counts_is_the_same(both: tuple[Profile, Profile]) -> None:
    whole, summed = (Calls.of(profile) for profile in both)
    assert whole == summed
    assert whole is not None and whole.calls == sum(calls for _, calls, _, _ in TREE)
    assert both[1].meta["import_functions"] == 1  # _spec; check was called elsewhere, too
    of_both = [summarize(each, [], [], imports=False).functions for each in both]
    assert of_both[0] == of_both[1] != []


def test_a_function_called_elsewhere_keeps_what_it_did_there(both: tuple[Profile, Profile]) -> None:
    profile = both[1]
    (check,) = (f.id for f in profile.frames.values() if f.name == "check")
    assert function_calls(profile)[check].calls == 2 + 4


@pytest.mark.parametrize(
    "meta",
    [{}, {"imports": True}, {"imports": False, "c_calls": True}],
    ids=["an older run", "asked for", "with C functions"],
)
def test_all_stays_where_it_is_asked_for(tmp_path: Path, meta: dict[str, bool]) -> None:
    spool = spool_of(**meta)
    put(spool, *TREE)
    spool.clock(10**6, 10**6)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert len(rows(profile)) == len(TREE)


def test_a_killed_run_keeps_all(tmp_path: Path) -> None:
    """What ran last is what is wanted of it."""
    spool = spool_of(imports=False)
    put(spool, *TREE)
    spool.clock(10**6, 10**6)
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert len(rows(profile)) == len(TREE)


def test_a_module_of_the_programs_is_no_library(tmp_path: Path) -> None:
    """Its import statements are, each of its own."""
    mine = "main/_find_and_load/mine"
    spool = spool_of(imports=False)
    put(
        spool,
        ("main", 1, 1000, {}),
        ("main/_find_and_load", 1, 900, {}),
        (mine, 1, 800, {}),
        (f"{mine}/setup", 2, 100, {}),
        (f"{mine}/_find_and_load", 1, 600, {}),
        (f"{mine}/_find_and_load/<module>", 1, 500, {}),
        (f"{mine}/_find_and_load/<module>/setup", 9, 400, {}),
    )
    spool.clock(10**6, 10**6)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        paths = {path.replace("_load/<module>", "_load/mine", 1) for path in rows(profile)}
    assert f"{mine}/setup" in paths
    assert {path for path in paths if path.endswith(SUMS)} == {
        f"{mine}/_find_and_load/<module>/{SUMS}"
    }


def test_regions_and_what_is_not_told_apart_stay(tmp_path: Path) -> None:
    spool = spool_of(imports=False)
    spool.region(1, "phase")
    put(
        spool,
        ("main", 1, 1000, {}),
        ("main/_find_and_load", 1, 900, {}),
        ("main/_find_and_load/<module>", 1, 800, {}),
        ("main/_find_and_load/<module>/setup", 2, 100, {}),
        ("main/_find_and_load/<module>/setup/region", 1, 50, {}),
        ("main/_find_and_load/<module>/setup/full", 4, 20, {}),
    )
    spool.clock(10**6, 10**6)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        below = {path.rpartition("/")[2] for path in rows(profile)}
    assert {"phase", "[tree full]", "setup"} <= below and SUMS not in below


def test_what_exec_runs_is_no_module(tmp_path: Path) -> None:
    """Dataclasses and the like run a text for each class."""
    spool = spool_of(imports=False)
    spool.code(len(CODES) + 3, "<module>", "<string>", 1)
    put(
        spool,
        ("main", 1, 1000, {}),
        ("main/_find_and_load", 1, 900, {}),
        ("main/_find_and_load/<module>", 1, 800, {}),
        ("main/_find_and_load/<module>/setup", 2, 100, {}),
        ("main/_find_and_load/<module>/setup/text", 2, 50, {}),
    )
    spool.clock(10**6, 10**6)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert rows(profile)[f"main/_find_and_load/<module>/{SUMS}"] == (4, 0, 0, 0, 100, 100)


def test_what_still_ran_has_its_time(tmp_path: Path) -> None:
    """A program that ends within an import: what runs there did so until the end."""
    spool = spool_of(imports=False)
    put(
        spool,
        ("main", 1, 0, {"since": 100}),
        ("main/_find_and_load", 1, 0, {"since": 200}),
        ("main/_find_and_load/<module>", 1, 0, {"since": 300}),
        ("main/_find_and_load/<module>/setup", 1, 7, {"since": 400}),
    )
    spool.clock(1000, 1000)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        found = rows(profile)
    assert found[f"main/_find_and_load/<module>/{SUMS}"] == (1, 0, 0, 0, 607, 607)
    assert found["main/_find_and_load/<module>"][-2:] == (700, 93)


def test_calls_that_are_kept_stay_at_their_function(tmp_path: Path) -> None:
    """Rows move, and what refers to them with them."""
    spool = spool_of(imports=False, keep=["kept"])
    texts = b"".join(f"{text}\0".encode() for text in ("kept", CODES["kept"], "lib.a", "kept"))
    facts = STRUCT["spool_code_facts"].pack(10 * len(CODES), 1, 0, len(texts))
    spool.record(TYPE["CODE_FACTS"], facts + texts)
    put(
        spool,
        ("main", 1, 1000, {}),
        ("main/_find_and_load", 1, 900, {}),
        ("main/_find_and_load/_spec", 3, 20, {}),
        ("main/_find_and_load/<module>", 1, 800, {}),
        ("main/_find_and_load/<module>/check", 2, 10, {}),
        ("main/_find_and_load/<module>/setup", 2, 300, {}),
        ("main/_find_and_load/<module>/setup/kept", 1, 100, {}),
    )
    spool.calls(1, call_turn(2000, 2100, node=7))
    spool.clock(10**6, 10**6)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        (function,) = kept_functions(profile)
        assert (function.frame.name, len(function.calls)) == ("kept", 1)
        assert rows(profile)["main/_find_and_load/<module>/setup/kept"][0] == 1


def test_damaged_counts_are_left_to_who_finds_them(tmp_path: Path) -> None:
    spool = spool_of(imports=False)
    paths = [list(each) for each in TREE]
    paths[8][2] = paths[9][2] = (1 << 63) - 1
    put(spool, *((str(a), int(str(b)), int(str(c)), {}) for a, b, c, _ in paths))
    spool.clock(10**6, 10**6)
    spool.end()
    with open_profile(spool.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert sum(row.calls for row in profile.exact) <= sum(calls for _, calls, _, _ in TREE)
        assert all(row.total_ns <= 10**7 for row in profile.exact)

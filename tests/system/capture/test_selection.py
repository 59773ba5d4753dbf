"""What is traced: --include, --exclude, -t.  What is not stays in the tree, without figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from exact_support import MODES, check_exact
from support import TARGETS, Run

from pyhybrid.tables.profile import Profile

# What tests/targets/selected.py calls.
CALLS = {
    "leaf": 10 + 30 + 10 + 30 + 10 + 9,
    "middle": 10,
    "outer": 1,
    "Table": 1,  # the body of the class
    "Table.add": 10,
    "Table.total": 10,
    "Table.numbers": 10,
    "fails": 60,
    "catches": 10,
    "<lambda>": 9,
}


@pytest.fixture(params=MODES)
def selected(pyhybrid: Callable[..., Run], request: pytest.FixtureRequest) -> Callable[..., Run]:
    def run(*options: str) -> Run:
        mode = ("--mode", request.param, "--format", "folded")
        return pyhybrid(*mode, *options, TARGETS / "selected.py")

    return run


def calls(profile: Profile) -> dict[str, int]:
    """Of the target's functions."""
    counts: Counter[str] = Counter()
    for row in profile.exact:
        frame = profile.frames[profile.nodes.frame[row.node]]
        if (frame.file or "").endswith("selected.py"):
            counts[frame.name] += row.calls
    return {name: n for name, n in counts.items() if name != "<module>"}


def paths_to(profile: Profile, name: str) -> set[str]:
    """Of traced nodes: the Python functions of the target from the root to them."""
    paths = set()
    for row in profile.exact:
        frames, node = [], row.node
        while node:
            frames.append(profile.frames[profile.nodes.frame[node]])
            node = profile.nodes.parent[node]
        if frames[0].name == name:
            mine = [f.name for f in reversed(frames) if (f.file or "").endswith("selected.py")]
            paths.add(" ".join(mine[1:]))
    return paths


@pytest.mark.further
def test_everything(selected: Callable[..., Run]) -> None:
    profile = selected().profile()
    check_exact(profile)
    assert calls(profile) == CALLS


def test_by_file(selected: Callable[..., Run]) -> None:
    profile = selected("--include", r"selected\.py$").profile()
    check_exact(profile)
    assert calls(profile) == CALLS
    others = {profile.frames[profile.nodes.frame[row.node]].file for row in profile.exact}
    assert len(others) == 1


@pytest.mark.further
def test_without_the_standard_library(selected: Callable[..., Run]) -> None:
    profile = selected("--exclude", "stdlib").profile()
    files = [profile.frames[profile.nodes.frame[row.node]].file or "" for row in profile.exact]
    assert calls(profile) == CALLS
    assert not any("json" in file or file.startswith("<frozen") for file in files)


def test_by_name(selected: Callable[..., Run]) -> None:
    run = selected("-t", "leaf", "-t", "__main__.Table.add", "-t", "never")
    profile = run.profile()
    check_exact(profile)
    assert calls(profile) == {"leaf": CALLS["leaf"], "Table.add": 10}
    assert "-t never: no function of this name ran" in run.result.stderr
    # Those that are left out stand where they ran.
    assert paths_to(profile, "leaf") == {
        "outer middle leaf",
        "Table.add leaf",
        "Table.add Table.total Table.numbers leaf",
        "catches leaf",
        "<lambda> leaf",
    }


def test_include_and_exclude(selected: Callable[..., Run]) -> None:
    profile = selected(
        "--include", r"^Table\.", "--include", "^fails$", "--exclude", "add"
    ).profile()
    check_exact(profile)
    assert calls(profile) == {"Table.total": 10, "Table.numbers": 10, "fails": 60}
    raised = [row.raised for row in profile.exact if row.raised]
    assert sum(raised) == 60


@pytest.mark.further
def test_a_filter_is_forgotten_with_its_run(pyhybrid: Callable[..., Run]) -> None:
    script = """
from pyhybrid import Profiler
from pyhybrid.views.calls.function_calls import function_calls
def f(): return g()
def g(): return 1
def calls(p):
    frames = p.profile.frames
    return {frames[i].name: c.calls for i, c in function_calls(p.profile).items() if c.calls}
def run(**options):
    with Profiler(mode="trace", **options) as p:
        for _ in range(10): f()
    return calls(p)
assert run(functions=["f"]) == {"f": 10}
assert run() == {"f": 10, "g": 10}, run()
assert run(include=["^g$"]) == {"g": 10}
assert run(exclude=["^g$", "stdlib", "pyhybrid"]) == {"f": 10}
assert run() == {"f": 10, "g": 10}
"""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--mode", "trace", "--include", "("), "invalid pattern"),
        (("--mode", "trace", "--exclude", "*"), "invalid pattern"),
        (("--mode", "sample", "-t", "f"), "--mode hybrid"),
    ],
)
def test_used_wrongly(pyhybrid: Callable[..., Run], options: tuple[str, ...], what: str) -> None:
    result = pyhybrid(*options, TARGETS / "selected.py", check=False).result
    assert result.returncode == 2
    assert what in result.stderr
    assert len(result.stderr.splitlines()) == 1

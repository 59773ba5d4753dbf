"""A program of ever new paths meets the tree's bound, says so, and keeps its totals right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from exact_support import check_exact, of_function
from support import TARGETS, Run, check_invariants

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.once


def all_calls(profile: Profile) -> int:
    return sum(row.calls + row.resumes for row in profile.exact)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", ["trace", "hybrid", "trace --c-calls", "hybrid --c-calls"])
def test_node_bound(pyhybrid: Callable[..., Run], mode: str) -> None:
    def run(*options: object) -> Run:
        mine = ("--mode", *mode.split(), "--format", "folded", *options)
        return pyhybrid(*mine, TARGETS / "descent.py", 13)

    whole = run()
    assert "--max-nodes" not in whole.result.stderr
    n_nodes, n_calls = len(whole.profile().nodes.parent), all_calls(whole.profile())
    bounded = run("--max-nodes", 3000)
    assert "--max-nodes" in bounded.result.stderr
    assert bounded.result.stdout == whole.result.stdout
    profile = bounded.profile()
    check_invariants(profile)
    check_exact(profile)
    assert len(profile.nodes.parent) < 2 * 1.2 * 3000 < n_nodes
    # Every call is counted, of its function or of [tree full].
    full = of_function(profile, "[tree full]")
    assert all_calls(profile) == n_calls
    assert 0 < sum(row.calls for row in full) < all_calls(profile)
    longest = max(row.total_ns for row in of_function(profile, "<module>") if row.calls)
    assert 0 < sum(row.total_ns for row in full) <= longest

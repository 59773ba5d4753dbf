"""Spark gives the answers that DuckDB gives: on a real cluster, a master and two workers here."""

from __future__ import annotations

from pathlib import Path

import pytest
import spark_support
from support import PATIENCE_S

pytestmark = [
    pytest.mark.needs("ranks", "spark"),
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.long("five virtual machines of Java start"),
]
N, SLOW = 300, 137  # more than are compared step by step


def test_a_cluster_answers_alike(tmp_path: Path) -> None:
    from many_ranks import rank_rows, save

    folder = tmp_path / "many"
    ranks = (
        rank_rows(rank, N, 12_000_000 * (rank == SLOW), host=f"node{rank // 8}", clock_ns=rank // 8)
        for rank in range(N)
    )
    save(folder, ranks)
    with spark_support.cluster(tmp_path, PATIENCE_S) as master:
        done = spark_support.alike(folder, master, tmp_path / "alike.py", PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"alike {SLOW} 2" in done.stdout

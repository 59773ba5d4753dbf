"""Spark gives the answers that DuckDB gives: on a real cluster, a master and two workers here."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import PATIENCE_S

CLONE = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.needs("ranks", "spark"),
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.long("five virtual machines of Java start"),
]
N, SLOW = 300, 137  # more than are compared step by step


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.1)
    raise AssertionError("the master does not listen")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    spec = find_spec("pyspark")
    assert spec and spec.submodule_search_locations
    home = spec.submodule_search_locations[0]
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_WORKER_DIR": str(tmp_path / "work"), "PYSPARK_PYTHON": sys.executable}
    begun: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{kind}", *words]
        how = {"env": environment, "start_new_session": True, "stderr": subprocess.STDOUT}
        with open(tmp_path / f"{kind}-{len(begun)}.log", "wb") as log:
            begun.append(subprocess.Popen(command, stdout=log, **how))
        return begun[-1]

    port = free_port()
    address = ("--host", "127.0.0.1", "--webui-port", "0")
    try:
        await_port(port, start("master.Master", *address, "--port", str(port)))
        for _ in range(2):
            start("worker.Worker", *address, "-c", "1", "-m", "1g", f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in begun:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


ALIKE = """
import sys
from pyhybrid.ranks.spark import SparkRanks
from pyhybrid.ranks.store import Ranks
from pyhybrid.ranks.verdict import judge
from pyhybrid.report.table import plain
folder, master = sys.argv[1:]
duckdb, spark = Ranks(folder), SparkRanks(folder, master)
a, b = plain(judge(duckdb)), plain(judge(spark))
assert a == b, (a, b)
assert a["slow"] and a["slow"][0]["reasons"][0]["function"], a
keys = [key for key, in duckdb.execute("SELECT process FROM process ORDER BY process")][:40]
slow = max(keys)
for engine in (duckdb, spark):
    engine.keep("near_path", "path", keys)
functions = [key for key, in duckdb.execute("SELECT DISTINCT function FROM function")]
for name, values in {
    "rank_steps": {"processes": keys},
    "phase_excess": {"processes": keys},
    "garbage_turns": {"processes": keys},
    "function_excess": {"slow": slow, "others": keys[:-1]},
    "worker_excess": {"slow": 3, "processes": keys},
    "functions": {},
    "names": {"processes": keys, "functions": functions},
    "clashes": {},
}.items():
    one, other = duckdb.ask(name, **values), spark.ask(name, **values)
    assert one == other, (name, one[:3], other[:3])
    print(name, len(one))
cores = spark.spark.sparkContext.defaultParallelism
spark.close()
print("alike", a["slow"][0]["rank"], cores)
"""


def test_a_cluster_answers_alike(cluster: str, tmp_path: Path) -> None:
    from many_ranks import rank_rows, save

    folder = tmp_path / "many"
    ranks = (rank_rows(rank, N, 12_000_000 * (rank == SLOW)) for rank in range(N))
    save(folder, ranks)
    (tmp_path / "alike.py").write_text(ALIKE)
    command = [sys.executable, "-P", str(tmp_path / "alike.py"), str(folder), cluster]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"alike {SLOW} 2" in done.stdout

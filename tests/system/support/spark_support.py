"""A real cluster of Spark's on this machine, and whether it answers as DuckDB does."""

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

ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def await_port(port: int, process: subprocess.Popen[bytes], patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.1)
    raise AssertionError("the master does not listen")


@contextlib.contextmanager
def cluster(folder: Path, patience_s: float, memory: str = "1g") -> Iterator[str]:
    """A master and two workers, each a process of its own; its address."""
    spec = find_spec("pyspark")
    assert spec and spec.submodule_search_locations
    home = spec.submodule_search_locations[0]
    environment = {**os.environ, **ENVIRONMENT, "SPARK_HOME": home}
    environment |= {"SPARK_WORKER_DIR": str(folder / "work")}
    begun: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{kind}", *words]
        how = {"env": environment, "start_new_session": True, "stderr": subprocess.STDOUT}
        with open(folder / f"{kind}-{len(begun)}.log", "wb") as log:
            begun.append(subprocess.Popen(command, stdout=log, **how))
        return begun[-1]

    port = free_port()
    address = ("--host", "127.0.0.1", "--webui-port", "0")
    try:
        master = start("master.Master", *address, "--port", str(port))
        await_port(port, master, patience_s)
        for _ in range(2):
            start("worker.Worker", *address, "-c", "1", "-m", memory, f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in begun:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# Asks both everything, and prints how many rows, and how long each took.
ALIKE = """
import sys, time
from pyhybrid.ranks.spark import SparkRanks
from pyhybrid.ranks.store import Ranks
from pyhybrid.ranks.verdict import judge
from pyhybrid.report.table import plain
folder, master = sys.argv[1:]

def timed(ask):
    began = time.perf_counter()
    return ask(), round(time.perf_counter() - began, 1)

duckdb, spark = Ranks(folder), SparkRanks(folder, master)
a, duckdb_s = timed(lambda: plain(judge(duckdb)))
b, spark_s = timed(lambda: plain(judge(spark)))
assert a == b, (a, b)
assert a["slow"] and a["slow"][0]["reasons"][0]["function"], a
print("verdict", len(a["ranks"]), duckdb_s, spark_s, flush=True)
newest = "SELECT process FROM process WHERE steps > 0 ORDER BY began_ns DESC, process LIMIT 40"
keys = [key for key, in duckdb.execute(newest)]
slow = max(keys)
for engine in (duckdb, spark):
    engine.keep("near_path", "path", keys)
functions = [key for key, in duckdb.execute("SELECT DISTINCT function FROM function")]
((host,),) = duckdb.execute("SELECT min(host) FROM process")
for name, values in {
    "rank_steps": {"processes": keys},
    "phase_excess": {"processes": keys},
    "garbage_turns": {"processes": keys},
    "function_excess": {"slow": slow, "others": keys[:-1]},
    "worker_excess": {"slow": 3, "processes": keys},
    "functions": {},
    "names": {"processes": keys, "functions": functions},
    "clashes": {},
    "clock_offsets": {"processes": keys, "host": host},
}.items():
    one, duckdb_s = timed(lambda: duckdb.ask(name, **values))
    other, spark_s = timed(lambda: spark.ask(name, **values))
    assert one == other, (name, one[:3], other[:3])
    print(name, len(one), duckdb_s, spark_s, flush=True)
cores = spark.spark.sparkContext.defaultParallelism
spark.close()
print("alike", a["slow"][0]["rank"], cores)
"""


def alike(
    folder: Path, master: str, script: Path, patience_s: float | None
) -> subprocess.CompletedProcess[str]:
    """Asks DuckDB and Spark; what is not alike is in its errors."""
    script.write_text(ALIKE)
    command = [sys.executable, "-P", str(script), str(folder), master]
    environment = {**os.environ, **ENVIRONMENT}
    how = {"capture_output": True, "text": True, "env": environment, "check": False}
    return subprocess.run(command, timeout=patience_s, **how)

"""Servers and pools that other people wrote: their workers are in the profile, each by its role."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, Run, check_invariants

from pyhybrid.tables.profile import Profile
from pyhybrid.views.processes import processes_of

pytestmark = [pytest.mark.further, pytest.mark.needs("servers")]

APP = """
def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return str(total).encode()

def application(environ, start_response):
    body = work(2000)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": work(2000)})
"""
SERVERS = {
    "gunicorn": ("gunicorn", "-w", "2", "-b", "unix:socket", "app:application"),
    "gunicorn of threads": (
        *("gunicorn", "-w", "2", "-k", "gthread", "--threads", "2", "-b", "unix:socket"),
        "app:application",
    ),
    "uvicorn": ("uvicorn", "--workers", "2", "--uds", "socket", "app:asgi"),
}
HAS_STARTED = re.compile(rb"Booting worker|Application startup complete")
N_REQUESTS = 40


class OverSocket(http.client.HTTPConnection):
    """A connection to a server's socket in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__("localhost")
        self._folder = folder

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        folder = os.open(self._folder, os.O_PATH)
        try:  # the path itself may be too long for an address
            self.sock.connect(f"/proc/self/fd/{folder}/socket")
        finally:
            os.close(folder)


def answers(folder: Path) -> bool:
    connection = OverSocket(folder)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def wait_for_workers(server: subprocess.Popen[bytes]) -> None:
    """Both have said that they serve."""
    assert server.stderr
    left = 2
    while left:
        line = server.stderr.readline()
        assert line, "it has ended"
        left -= bool(HAS_STARTED.search(line))
    threading.Thread(target=server.stderr.read, daemon=True).start()


def calls(profile: Profile, name: str) -> int:
    frames = {number for number, frame in profile.frames.items() if frame.name == name}
    return sum(row.calls for row in profile.exact if profile.nodes.frame[row.node] in frames)


@pytest.mark.parametrize("name", SERVERS)
def test_workers_of_a_server(tmp_path: Path, name: str) -> None:
    """Each request is counted, whichever worker had it."""
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "pyhybrid", "-q", "-m", *SERVERS[name]]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        try:
            wait_for_workers(server)
            n = sum(answers(tmp_path) for _ in range(N_REQUESTS))
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()
    assert n == N_REQUESTS
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        check_invariants(profile)
        roles = Counter(each.role for each in processes_of(profile))
        assert roles == {"": 1, f"{name.split()[0]} worker": 2}
        assert calls(profile, "asgi" if name == "uvicorn" else "application") >= n
        assert calls(profile, "work") == n


JOBLIB = """
from joblib import Parallel, delayed
def work(n): return sum(i * i for i in range(n))
if __name__ == "__main__":
    print(sum(Parallel(n_jobs=2)(delayed(work)(3000) for _ in range(20))))
"""
DASK = """
def work(n): return sum(i * i for i in range(n))
if __name__ == "__main__":
    from distributed import Client, LocalCluster
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        print(sum(client.gather(client.map(work, range(20)))))
"""
CELERY = """
import sys
from celery import Celery
app = Celery("tasks", broker="filesystem://")
app.conf.broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
@app.task
def work(n): return sum(i * i for i in range(n))
@app.task
def end(): app.control.shutdown()
if __name__ == "__main__":
    for _ in range(20): work.delay(3000)
"""


@pytest.mark.parametrize(
    ("program", "role"), [(JOBLIB, "joblib worker"), (DASK, "dask worker")], ids=["joblib", "dask"]
)
def test_workers_of_a_pool(
    pyhybrid: Callable[..., Run], tmp_path: Path, program: str, role: str
) -> None:
    (tmp_path / "program.py").write_text(program)
    bare = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    run = pyhybrid("-q", "program.py")
    assert run.result.stdout == bare.stdout
    profile = run.profile()
    check_invariants(profile)
    assert Counter(each.role for each in processes_of(profile)) == {"": 1, role: 2}
    assert calls(profile, "work") == 20


def test_workers_of_celery(tmp_path: Path) -> None:
    """Its pool forks; each task is counted."""
    (tmp_path / "tasks.py").write_text(CELERY)
    (tmp_path / "queue").mkdir()
    subprocess.run([sys.executable, "tasks.py"], cwd=tmp_path, check=True)
    worker = (
        "celery",
        "-A",
        "tasks",
        "worker",
        "-c",
        "2",
        "-P",
        "prefork",
        "--without-mingle",
        "-l",
        "INFO",
    )
    command = [sys.executable, "-m", "pyhybrid", "-q", "-m", *worker, "--without-gossip"]
    environment = {**os.environ, "C_FORCE_ROOT": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        assert server.stderr
        try:
            for n, _ in enumerate(
                (line for line in server.stderr if b"succeeded in" in line), start=1
            ):
                if n == 20:
                    server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        check_invariants(profile)
        assert Counter(each.role for each in processes_of(profile)) == {"": 1, "celery worker": 2}
        assert calls(profile, "work") == 20

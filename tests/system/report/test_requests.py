"""`report requests`: what a server's requests waited for, by threads and by tasks of asyncio."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from json_page import check_report
from support import Run

THREADS = """
import queue, threading, time
LOCK, done, jobs = threading.Lock(), threading.Event(), queue.Queue()
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def refresh():
    while not done.is_set():
        with LOCK:
            time.sleep(0.06)
        time.sleep(0.02)
def work():
    while (job := jobs.get()) is not None:
        spin(0.004)
        job.set()
def look_up():
    with LOCK:
        spin(0.0005)
def handle(i):
    look_up()
    ended = threading.Event()
    jobs.put(ended)
    ended.wait()
def client():
    for i in range(10):
        handle(i)
others = [threading.Thread(target=each, name=each.__name__) for each in (refresh, work)]
clients = [threading.Thread(target=client, name="client") for _ in range(3)]
for each in others + clients: each.start()
for each in clients: each.join()
done.set(); jobs.put(None)
"""

TASKS = """
import asyncio, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
async def handle(i):
    spin(0.002)
    await asyncio.sleep(0.02)
    if i % 10 == 5: block()
    await asyncio.sleep(0)
def block():
    spin(0.1)
async def main():
    for _ in range(3):
        await asyncio.gather(*map(handle, range(10)))
asyncio.run(main())
"""


def requests(pyhybrid: Callable[..., Run], *words: str) -> dict[str, Any]:
    words = ("requests", "--json", *words)
    text = pyhybrid("report", *words).result.stdout
    check_report([*words], text)
    report: dict[str, Any] = json.loads(text)
    for each in report["slowest"]:
        assert sum(each["parts"].values()) == each["total_ns"]
    assert report["parts"] == [each for each in report["parts"] if each["share"] >= 0.005]
    assert [each["total_ns"] for each in report["slowest"]] == sorted(
        (each["total_ns"] for each in report["slowest"]), reverse=True
    )
    return report


def test_a_lock_that_another_thread_holds(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(THREADS)
    pyhybrid("--keep", "handle", "--usage", "cpu", "--clock", "wall", "server.py")
    report = requests(pyhybrid, "--slowest", "30")
    assert (report["function"], report["n"], len(report["slowest"])) == ("handle", 30, 30)
    assert report["by_samples"] and report["cpu_is_exact"] and report["most_open"] <= 3
    first = next(each for each in report["places"] if each["part"] == "locks")
    assert (first["function"], first["other"], first["other_at"], first["other_thread"]) == (
        *("look_up", "refresh", "server.py:10", "refresh"),
    )
    (queue, *_) = [each for each in report["places"] if each["part"] == "queues"]
    assert queue["function"] == "handle" and queue["waits_for"].startswith("Event.wait ")
    shares = {each["part"]: each["share"] for each in report["parts"]}
    assert shares.get("locks", 0) > shares.get("ran", 0)
    shown = pyhybrid("report", "requests").result.stdout.splitlines()
    assert shown[0].startswith("30 requests, the calls of handle: ")
    assert any("locks" in line and "refresh (server.py:10) on refresh" in line for line in shown)


def test_the_first_screen_says_who_holds_it(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(THREADS)
    pyhybrid("--keep", "handle", "--clock", "wall", "server.py")
    found = json.loads(pyhybrid("report", "findings", "--json").result.stdout)["findings"]
    (one,) = [each for each in found if each["rule"] == "requests"]
    assert "of the time of 30 calls of handle was waiting for a lock, in look_up (" in one["text"]
    assert one["text"].endswith(", while refresh (server.py:10) was at work")
    assert one["command"] == "pyhybrid report requests"


def test_what_others_ran_without_samples_of_waits(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text(THREADS)
    pyhybrid("--keep", "handle", "server.py")
    report = requests(pyhybrid)
    assert not report["by_samples"] and not report["cpu_is_exact"]
    shares = {each["part"]: each["share"] for each in report["parts"]}
    assert shares["not run"] > 0.5 and not shares.keys() & {"locks", "queues", "the GIL"}
    (place,) = report["places"]
    assert place["other"] in ("spin", "work")


@pytest.mark.parametrize("tasks", [False, pytest.param(True, marks=pytest.mark.further)])
def test_a_loop_that_is_blocked(pyhybrid: Callable[..., Run], tmp_path: Path, tasks: bool) -> None:
    (tmp_path / "server.py").write_text(TASKS)
    pyhybrid("--keep", "handle", *["--tasks"] * tasks, "--clock", "wall", "server.py")
    report = requests(pyhybrid, "--of", "handle")
    assert (report["n"], report["most_open"], report["model"]) == (30, 10, None)
    shares = {each["part"]: each["share"] for each in report["parts"]}
    assert shares["loop"] > shares["ran"] > 0
    place = next(each for each in report["places"] if each["part"] == "loop")
    assert (place["function"], place["other"]) == ("spin", "")


def test_what_is_no_request(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    pyhybrid("-c", "def f(): pass\nf()")
    done = pyhybrid("report", "requests", check=False).result
    assert done.returncode and "run it with --keep NAME" in done.stderr
    pyhybrid("--keep", "f", "-c", "def f(): pass\nf()")
    done = pyhybrid("report", "requests", "--of", "g", check=False).result
    assert done.returncode and "no calls of 'g' are kept, but of f" in done.stderr


def test_ask_names_it_where_there_are_some(pyhybrid: Callable[..., Run]) -> None:
    for words, has in (((), False), (("--keep", "f"), True)):
        pyhybrid(*words, "-c", "def f(): pass\nf()")
        more = json.loads(pyhybrid("ask").result.stdout)["more"]
        assert any(" report requests " in each["command"] for each in more) == has

"""finish/forked_work.py: work in a fork of the process, and what becomes of it."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from pyhybrid.finish.forked_work import ForkedWork, Prefetch

# Of pytest-xdist's threads, which wait.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
LISTDIR = os.listdir


@pytest.fixture(autouse=True)
def as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the finishing process, on a machine with two processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    has_threads(1, monkeypatch)


def has_threads(n: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """None: the system does not tell."""

    def listdir(path: str) -> list[str]:
        if path != "/proc/self/task":
            return LISTDIR(path)
        if n is None:
            raise FileNotFoundError(path)
        return list(map(str, range(n)))

    monkeypatch.setattr(os, "listdir", listdir)


def children() -> set[int]:
    """Of all threads of this process."""
    tids = Path("/proc/self/task").iterdir()
    return {int(pid) for tid in tids for pid in (tid / "children").read_text().split()}


@pytest.fixture
def of_others() -> set[int]:
    """Those that are other tests'."""
    return children()


def test_another_process_does_it() -> None:
    def work() -> tuple[int, list[tuple[str, int]]]:
        return os.getpid(), [("caf\u00e9 \udc80", 1)]

    with ForkedWork(work) as found:
        pid, said = found.value()
        assert found.value() == (pid, said)
    assert pid != os.getpid()
    assert said == [("caf\u00e9 \udc80", 1)]
    assert pid not in children()


@pytest.mark.parametrize(
    "reason", ["one processor", "threads", "no /proc", "no process to be had", "short"]
)
def test_this_process_does_it_at_once(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError

    if reason == "one processor":
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    elif reason == "threads":
        has_threads(2, monkeypatch)
    elif reason == "no /proc":
        has_threads(None, monkeypatch)
    elif reason == "no process to be had":
        monkeypatch.setattr(os, "fork", fork)
    done: list[int] = []
    open_before = os.listdir("/proc/self/fd")
    with ForkedWork(lambda: done.append(1), is_long=reason != "short") as found:
        assert done == [1]
        assert found.value() is None
    assert done == [1]
    assert os.listdir("/proc/self/fd") == open_before


def test_work_that_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    with ForkedWork(lambda: done.append(1), can_wait=True) as found:
        assert not done
        assert not found.is_done_within(0)
        found.value()
        assert found.is_done_within(0)
    assert done == [1]


def test_when_it_is_done(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    with ForkedWork(lambda: (tmp_path / "go").read_text()) as found:
        assert not found.is_done_within(0)
        (tmp_path / "go").write_text("on")
        assert found.is_done_within(60)
        assert found.value() == "on"


def test_a_process_that_was_killed() -> None:
    me = os.getpid()

    def work() -> int:
        if os.getpid() != me:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    with ForkedWork(work) as found:
        assert found.value() == me


def test_what_the_work_raises(of_others: set[int]) -> None:
    def work() -> int:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"), ForkedWork(work) as found:
        found.value()
    assert children() <= of_others


def test_an_interrupt_reaches_it(tmp_path: Path, of_others: set[int]) -> None:
    def work() -> None:
        try:
            (tmp_path / "begun").touch()
            time.sleep(600)
        finally:
            (tmp_path / "ended").touch()

    def interrupted() -> None:
        with ForkedWork(work):
            while not (tmp_path / "begun").exists():
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "ended").exists()
    assert children() <= of_others


def test_an_interrupt_that_wakes_nobody_comes_again(tmp_path: Path, of_others: set[int]) -> None:
    def work() -> None:
        (tmp_path / "begun").touch()
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(600)
        time.sleep(600)

    def interrupted() -> None:
        with ForkedWork(work):
            while not (tmp_path / "begun").exists():
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert children() <= of_others


def test_another_failure_lets_it_end(tmp_path: Path) -> None:
    def work() -> None:
        time.sleep(0.05)
        (tmp_path / "made").touch()

    def failing() -> None:
        with ForkedWork(work):
            raise ValueError

    with pytest.raises(ValueError):
        failing()
    assert (tmp_path / "made").exists()


def test_an_ignored_sigchld() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with ForkedWork(os.getpid) as found:
            assert found.value() != os.getpid()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_works_ahead_are_said_one_by_one(of_others: set[int]) -> None:
    me = os.getpid()
    seen, asked = os.pipe()

    def second() -> str:
        return os.read(seen, 1).decode()  # which comes after the first was read

    with Prefetch(os.getpid, second, lambda: None) as found:
        assert found.value(0) != me
        os.write(asked, b"!")
        assert found.value(1) == "!"
        assert found.value(2) is None
        assert found.value(0) != me
    os.close(seen)
    os.close(asked)
    assert children() <= of_others


@pytest.mark.parametrize("how", ["killed", "raises", "cannot be sent", "threads"])
def test_works_ahead_that_come_to_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process does none of them."""
    me = os.getpid()

    def work() -> object:
        assert os.getpid() != me
        if how == "raises":
            raise OSError("no room")
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return object()

    if how == "threads":
        has_threads(2, monkeypatch)
    with Prefetch(lambda: 1, work, lambda: 3) as found:
        said = [found.value(at) for at in (2, 1, 0)]
    assert said == [None, None, None if how == "threads" else 1]

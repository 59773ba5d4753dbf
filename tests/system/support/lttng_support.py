"""A session daemon of LTTng's that is a test's own, and what a session of it recorded."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import PATIENCE_S

EVENT = re.compile(r"(\w+:\w+): \{ cpu_id = \d+ \}, \{ vtid = (\d+) \}, \{ (.*) \}")
FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|[^,]*)')
BEGINS = {"py_start", "py_resume", "py_throw", "py_running", "region_begin"}
ENDS = {"py_return", "py_yield", "py_unwind", "py_cut_off", "region_end"}


class Event(NamedTuple):
    """One of a trace; `name` without the provider's."""

    provider: str
    name: str
    tid: int
    fields: dict[str, str]


class Lttng:
    """Root's daemon has fixed places for its sockets: in a mount namespace they are its own.  A
    user's are in LTTNG_HOME, but programs meet root's, too.  `command` and `env` are what a program
    is run with to meet it."""

    def __init__(self) -> None:
        if os.geteuid() != 0 and root_has_a_daemon():
            pytest.skip("root's session daemon runs here, which programs of all users meet")
        self.home = Path(tempfile.mkdtemp(prefix="lttng-"))  # a socket's path must be short
        self.env = {"LTTNG_HOME": str(self.home), "LTTNG_UST_REGISTER_TIMEOUT": "-1"}
        self.command: list[str] = []
        self.daemon: subprocess.Popen[bytes] | None = None
        self.namespace: subprocess.Popen[str] | None = None
        if os.geteuid() == 0:
            self._enter()

    def _enter(self) -> None:
        mounts = "mount -t tmpfs none /run && mkdir /run/lttng && mount -t tmpfs none /dev/shm"
        self.namespace = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"{mounts} && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.namespace.stdout and self.namespace.stdout.readline() == "ready\n"
        its = f"/proc/{self.namespace.pid}"
        # (A namespace of mounts begins at its own root, which is not that of a chroot.)
        self.command = ["nsenter", f"--mount={its}/ns/mnt", f"--root={its}/root", "--wd=."]

    def run(self, *words: object) -> str:
        """A command beside the daemon; what it prints."""
        done = subprocess.run(
            [*self.command, *map(str, words)],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def __call__(self, *words: object) -> str:
        """`lttng WORDS`; `lttng` starts no daemon."""
        return self.run("lttng", "--no-sessiond", *words)

    def start_daemon(self) -> None:
        with open(self.home / "said", "w") as said:
            self.daemon = subprocess.Popen(
                [*self.command, "lttng-sessiond", "--no-kernel"],
                env={**os.environ, **self.env},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        until(self._answers)

    def _answers(self) -> bool:
        try:
            self("list")
        except AssertionError:
            assert self.daemon and self.daemon.poll() is None, (self.home / "said").read_text()
            return False
        return True

    def record(self, *events: str, channel: tuple[str, ...] = ()) -> None:
        """Begin a session that records them."""
        self("create", "s", f"--output={self.home / 'trace'}")
        self("enable-channel", "--userspace", "c", *channel)
        self("enable-event", "--userspace", "--channel=c", ",".join(events))
        self("add-context", "--userspace", "--channel=c", "--type=vtid")
        self("start")

    def stop(self) -> int:
        """Records no more; how many events were discarded."""
        self("stop")
        # (LTTng 2.16 tells of event records, thousands apart.)
        (found,) = re.findall(r"Discarded event(?:s| records): (.+)", self("list", "s"))
        return int(re.sub(r"\D", "", found))

    def events(self) -> list[Event]:
        """End the session, and read it."""
        self("destroy", "s")
        events = []
        for line in self.run("babeltrace2", self.home / "trace").splitlines():
            found = EVENT.search(line)
            assert found, line
            provider, _, name = found[1].partition(":")
            fields = {k: v.strip('"') for k, v in FIELD.findall(found[3])}
            events.append(Event(provider, name, int(found[2]), fields))
        return events

    def processes(self) -> list[int]:
        """The daemon, and the consumers that it started."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is(pid)]

    def _is(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"lttng-" not in words.partition(b"\0")[0]:
                return False
            if not self.namespace:
                return bytes(self.home) in words
            here = os.readlink(f"/proc/{pid}/ns/mnt")
            return here == os.readlink(f"/proc/{self.namespace.pid}/ns/mnt")
        return False

    def kill_daemon(self, with_signal: int) -> None:
        assert self.daemon
        self.daemon.send_signal(with_signal)
        self.daemon.wait()

    def close(self) -> None:
        if self.daemon:
            self.kill_daemon(signal.SIGTERM)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.namespace:
            with self.namespace as namespace:
                namespace.communicate("")
        shutil.rmtree(self.home, ignore_errors=True)


def root_has_a_daemon() -> bool:
    for path in Path("/run/lttng").glob("lttng-ust-sock-*"):
        with socket.socket(socket.AF_UNIX) as asked, contextlib.suppress(OSError):
            asked.connect(str(path))
            return True
    return False


def until(done: Any) -> None:
    """Waits for what another process does."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)

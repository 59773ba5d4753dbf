"""One attachment: a socket to meet the process at, its spool, its end, and then the profile.

This process opens the spool and locks it, and hands the descriptor over; so whatever happens to the
other one, the profile is made here of what is there.
"""

from __future__ import annotations

import glob
import json
import marshal
import os
import re
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
from contextlib import suppress
from typing import Any

from pyhybrid import __version__
from pyhybrid.attach import ways
from pyhybrid.attach.processes import Process, refusal
from pyhybrid.attach.ways import Way
from pyhybrid.base.system_calls import pidfd_open
from pyhybrid.base.terminal_text import say
from pyhybrid.capture.attached import ATTACHED_AS, LENGTH, SLACK_S, STOP
from pyhybrid.capture.children import PartClaim
from pyhybrid.capture.listening import REQUEST
from pyhybrid.capture.output_lock import Claim
from pyhybrid.errors import PyhybridError, UsageError

ASKED_S = 10.0  # for the thread there to come: it needs the GIL
ANSWER_S = 60.0  # for it to begin
LATE_S = 0.1
STOP_S = 60.0  # for it to end
_FOLDER = "pyhybrid-attach-{pid}-"
# Where it has had the package the last time (Meeting.package).
_HAS_HAD = re.compile(r"(/tmp/pyhybrid-attach-[^/]+)/pyhybrid/_native[^/]* \(deleted\)")
_NOT_THERE = shutil.ignore_patterns("libpyhybrid*", "_symbolize*", "_attach*", "*.whl")
_PEER = struct.Struct("iii")


class Meeting:
    """Hold a socket in a folder of its own, where the process can reach it."""

    def __init__(self, process: Process) -> None:
        """Make it.  Raises UsageError."""
        self.process = process
        self.root = process.root
        try:
            self.life = pidfd_open(process.pid)
        except OSError as error:
            raise refusal(process.pid, error) from None
        self.folder = ""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.folder = self._new_folder()
            self.package = self._package()
            self._socket.bind(os.path.join(self.folder, "socket"))
            if os.geteuid() == 0:
                for path in (self.folder, os.path.join(self.folder, "socket")):
                    os.chown(path, process.uid, -1)
            self._socket.listen()
        except OSError as error:
            self.close()
            raise UsageError(f"{self.root}/tmp: {error.strerror}") from None
        self.path = os.path.join(self.folder.removeprefix(self.root), "socket")
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self.life, select.POLLIN)
        self.wants_stop = False

    def _new_folder(self) -> str:
        """Make it.  Modules of the package that are loaded there expect the others where they were:
        the second time it has the same name.  Raises OSError."""
        had = (_HAS_HAD.fullmatch(each.path) for each in self.process.mappings)
        if again := next(filter(None, had), None) if self.root else None:
            os.mkdir(self.root + again[1], 0o700)
            return self.root + again[1]
        prefix = _FOLDER.format(pid=self.process.pid)
        return tempfile.mkdtemp(prefix=prefix, dir=f"{self.root}/tmp")

    def _package(self) -> list[str]:
        """Return the folders of the package as the process may open them: copies, if it has other
        files.  Raises OSError."""
        folders = ways.package_folders()
        if not self.root:
            return folders
        copy = os.path.join(self.folder, "pyhybrid")
        for each in reversed(folders):
            shutil.copytree(each, copy, ignore=_NOT_THERE, dirs_exist_ok=True)
        return [copy.removeprefix(self.root)]

    def accept(self, most_s: float) -> socket.socket | None:
        """Return the connection of the process, once it comes; None: it does not.

        Whoever else may connect asks for the end of the profile (`stop`).  Raises PyhybridError.
        """
        until = time.monotonic() + most_s
        while (left := until - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(left * 1000):
                if descriptor == self.life:
                    raise PyhybridError(f"process {self.process.pid} has ended")
                other = self._socket.accept()[0]
                if self.is_process(other):
                    return other
        return None

    def is_process(self, other: socket.socket) -> bool:
        """Is it the process?  Another one of its user asks for the end of the profile."""
        pid, uid, _ = _PEER.unpack(
            other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )
        if pid == self.process.pid:
            return True
        self.wants_stop = self.wants_stop or uid in (0, os.geteuid())
        self._asking = other  # it waits for this to be closed
        return False

    def wait(self, connection: socket.socket, most_s: float) -> None:
        """Wait so long, or until the process ends, or somebody asks for the end."""
        self._poll.register(connection, select.POLLIN)
        until = time.monotonic() + most_s
        while not self.wants_stop and (left := until - time.monotonic()) > 0:
            for descriptor, _ in self._poll.poll(left * 1000):
                if descriptor != self._socket.fileno():
                    return
                self.is_process(self._socket.accept()[0])

    def close(self) -> None:
        """Leave nothing."""
        self._socket.close()
        os.close(self.life)
        with suppress(OSError):
            os.unlink(self.root + REQUEST.format(pid=self.process.own_number))
        shutil.rmtree(self.folder, ignore_errors=True)


def ends_in_order() -> None:
    """Let SIGTERM, and SIGHUP where nobody ignores it, end this process as Ctrl-C does: by
    KeyboardInterrupt, after which nothing of it is left there."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def ask_for_end(pid: int) -> None:
    """Let the `pyhybrid attach` of that process end its profile, and wait until it has.

    Raises UsageError."""
    pattern = f"/tmp/{_FOLDER.format(pid=pid)}*/socket"
    for path in [*glob.glob(pattern), *glob.glob(f"/proc/{pid}/root{pattern}")]:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            ours.connect(path)
            ours.recv(1)
            return
    raise UsageError(f"nothing is attached to process {pid}")


class Attachment:
    """Profile a process from now on: `begin`, `wait`, `end`."""

    def __init__(self, process: Process, options: dict[str, Any], claim: Claim | PartClaim) -> None:
        """`options` as of CommandLineSettings; the `claim` is this process's."""
        self._process, self._options, self._claim = process, options, claim
        self._meeting = Meeting(process)
        self._connection: socket.socket | None = None
        self.way: Way | None = None

    def begin(self, most_s: float) -> Way:
        """Begin, for so long at most.  Raises UsageError, PyhybridError."""
        self.way, self._connection = self._met()
        run = {
            "version": __version__,
            "options": self._options,
            "spool": self._claim.spool,
            "most_s": most_s + SLACK_S,
            "facts": self._facts(),
        }
        data = marshal.dumps(run)
        socket.send_fds(self._connection, [LENGTH.pack(len(data))], [self._claim.descriptor])
        self._connection.sendall(data)
        answer = self._answer(ANSWER_S)
        if answer is None:
            raise PyhybridError(f"process {self._process.pid} has not begun")
        if "error" in answer:
            raise UsageError(f"process {self._process.pid}: {answer['error']}")
        return self.way

    def _facts(self) -> dict[str, Any]:
        """Return what the profile's meta data gets: its number here, if it does not know that."""
        process = self._process
        is_known = process.own_number == process.pid and not process.root
        return {} if is_known else {ATTACHED_AS: process.pid}

    def _met(self) -> tuple[Way, socket.socket]:
        ways.check_goes_on(self._process)
        possible = ways.ways(self._process)
        for name in possible:
            try:
                way = self._begun(name)
            except UsageError as error:
                if name == possible[-1]:
                    raise
                say(f"{error}: another way is tried")
                continue
            patience = ASKED_S if name == ways.PTRACE else ASKED_S / 2
            if found := self._meeting.accept(patience):
                return way, found
            if name == ways.REMOTE_EXEC:
                ways.withdraw(self._process)
                if found := self._meeting.accept(LATE_S):  # it has just begun
                    return way, found
        raise UsageError(
            f"process {self._process.pid} was asked ({possible[-1]}), but has not begun in "
            f"{ASKED_S:.0f} s: no thread comes to run Python; `pyhybrid dump {self._process.pid}` "
            "shows where they are"
        )

    def _begun(self, name: str) -> Way:
        meeting = self._meeting
        if name == ways.LISTENS:
            return ways.begin_by_signal(self._process, meeting.path, meeting.root)
        if name == ways.REMOTE_EXEC:
            return ways.begin_by_remote_exec(
                self._process, meeting.path, meeting.folder, meeting.package
            )
        return ways.begin_by_ptrace(self._process, meeting.path, meeting.package)

    def wait(self, most_s: float) -> None:
        """Wait until it has been long enough, it ends, or somebody wants it to end."""
        if self._connection:
            self._meeting.wait(self._connection, most_s)

    def end(self) -> list[str]:
        """End the profile there; returns what there is to report of it."""
        if not self._connection:
            return []
        with suppress(OSError):
            self._connection.sendall(STOP)
        answer = self._answer(STOP_S)
        if answer is None:
            return [f"process {self._process.pid} has ended, or ended the profile itself"]
        return list(answer.get("stopped", []))

    def _answer(self, most_s: float) -> dict[str, Any] | None:
        """Return what it has to say; None: it is gone, or says nothing for too long."""
        assert self._connection
        self._connection.settimeout(most_s)
        with suppress(OSError, EOFError):
            head = self._read(LENGTH.size)
            if LENGTH.unpack(head)[0] >> 24:  # a text: it could not even load the package
                return {"error": (head + self._connection.recv(4096)).decode("utf-8", "replace")}
            answer: dict[str, Any] = json.loads(self._read(LENGTH.unpack(head)[0]))
            return answer
        return None

    def _read(self, n_bytes: int) -> bytes:
        assert self._connection
        data = b""
        while len(data) < n_bytes:
            more = self._connection.recv(n_bytes - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def give_up(self) -> None:
        """Remove the spool, where it has not begun; `close` follows."""
        self._claim.give_up()

    def close(self) -> None:
        """Leave nothing there and here but the spool; a child's may be read then."""
        if self._connection:
            self._connection.close()
        self._meeting.close()
        if isinstance(self._claim, PartClaim):
            self._claim.close()

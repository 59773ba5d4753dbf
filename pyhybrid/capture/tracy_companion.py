"""Runs Tracy's capture program beside a profiled one: `python -I tracy_companion.py FILE WORD...`

Descriptor 3 is a socket to that one (src/python/ending/companion.c); this process is of a session
of its own, so that an interrupt from the terminal is for the program alone.  The capture ends by
itself when the client in that program does; where that program has gone without that, or no client
was there, it is asked to end, and writes what it has.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time

PROGRAM = 3  # the descriptor
SETTLED_S = 0.1  # a client that refuses does so at once
PATIENCE_S = 1.0  # for what a client that has gone without a word had still sent
KEPT = 4000  # bytes of the capture's output, which repeats itself


def main(file: str, command: list[str]) -> None:
    """Run the capture until it ends; send when it is connected, at last why there is no file."""
    os.set_inheritable(PROGRAM, False)
    ours, theirs = os.openpty()  # only to a terminal it prints at once that it is connected
    capture = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # with what it starts, if it is a script
    )
    os.close(theirs)
    output = listen(capture, ours)
    code = capture.wait()
    if code:
        send(f"{file} was not made: {reason(output, code)}".encode())


def listen(capture: "subprocess.Popen[bytes]", source: int) -> bytes:
    """Return its last output; it has ended then."""
    output = b""
    due: dict[str, float] = {}  # what is to be done, and when
    is_connected = False
    poll = select.poll()
    for descriptor in (source, PROGRAM):
        poll.register(descriptor, select.POLLIN)
    while True:
        now = time.monotonic()
        for what in [what for what, at in due.items() if at <= now]:
            del due[what]
            if what == "connected":
                is_connected = True
                send(b"+")
            else:
                os.killpg(capture.pid, signal.SIGINT)
        waits_ms = max(0.0, min(due.values()) - now) * 1000 if due else None
        events = dict(poll.poll(waits_ms))
        if source in events:
            try:
                more = os.read(source, 4096)
            except OSError:  # EIO: the last one to write has gone
                return output
            output = (output + more)[-KEPT:]
            if b"\n" in output and not is_connected:  # after `Connecting to...`
                due.setdefault("connected", time.monotonic() + SETTLED_S)
        if PROGRAM in events:
            poll.unregister(PROGRAM)
            patience_s = PATIENCE_S if is_connected or due else 0
            due["interrupt"] = time.monotonic() + patience_s


def reason(output: bytes, code: int) -> str:
    """Return why it failed, in one line."""
    text = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", output).decode(errors="replace")
    lines = text.replace("\r", "\n").splitlines()
    messages = [line.strip() for line in lines if line.strip() and "Connecting to" not in line]
    if code < 0 and not messages:
        return "no Tracy client was there to connect to"
    return messages[0] if messages else f"the capture program failed ({code})"


def send(what: bytes) -> None:
    """Send it to the program, if it is still there."""
    with contextlib.suppress(OSError):
        os.write(PROGRAM, what)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main(sys.argv[1], sys.argv[2:])

"""Forks of this process run programs that begin with some modules imported (fork_support.py).

    python fork_server.py SOCKET frozen|whole MODULE...

Imports them and listens there, then goes into the background, until nobody is connected any more.
A message that comes is JSON, {folder, what, arguments, environment}, `what` being a module or a
file, with three descriptors, which are to be the program's 0 to 2.  The answers are the program's
process number, and, when it has ended, its exit status.  It is killed when the asking side is gone.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

if hasattr(os, "pidfd_open"):
    from os import pidfd_open
else:
    from pyhybrid.base.system_calls import pidfd_open

LONGEST = 1 << 20  # of a message, in bytes


def next_program(listening):
    """In a fork for each program, what is asked for, and its descriptors; at the end None."""
    children = set()
    while True:
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            children -= {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]}
            if not children:
                return None
            continue
        pid = os.fork()
        if not pid:
            listening.close()
            return serve(connection)
        listening.settimeout(1)
        connection.close()
        children.add(pid)


def serve(connection):
    """The same, of what one connection asks for."""
    connection.settimeout(None)
    with connection:
        connection.send(b"ready")
        while True:
            message, descriptors, _, _ = socket.recv_fds(connection, LONGEST, 3)
            if not message:
                return None
            pid = os.fork()
            if not pid:
                return json.loads(message), descriptors
            for each in descriptors:
                os.close(each)
            connection.send(b"%d" % pid)
            ended = pidfd_open(pid)
            if ended not in select.select([ended, connection], [], [])[0]:
                os.kill(pid, signal.SIGKILL)
            os.close(ended)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                connection.send(b"%d" % status)


def become(asked, descriptors):
    """What a new interpreter would have at its beginning."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for fd, given in enumerate(descriptors):
        os.dup2(given, fd)
        os.close(given)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    what = asked["what"]
    sys.argv[:] = what, *asked["arguments"]
    sys.orig_argv[1:] = "-P", *([] if os.path.isabs(what) else ["-m"]), *sys.argv


with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
    for module in sys.argv[3:]:
        importlib.import_module(module)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(sys.argv[1])
    listening.bind(sys.argv[1])
    listening.listen()
    listening.settimeout(600)  # for the first one
    if sys.argv[2] == "frozen":  # a fork's collections, the last one at least, would copy it all
        gc.freeze()
    n_threads = len(os.listdir("/proc/self/task"))
    assert n_threads == 1, "a fork would lack the others"
    given = None
    if not os.fork():
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        given = next_program(listening)
if given:
    become(*given)
    what = given[0]["what"]
    if os.path.isabs(what):
        runpy.run_path(what, run_name="__main__")
    else:
        runpy.run_module(what, run_name="__main__", alter_sys=True)

"""Forks of this process run programs that begin with PyTorch imported (torch_support.py).

    python torch_server.py SOCKET

Listens there, then goes into the background, until nobody is connected any more.  A line that comes
is JSON: {folder, what, arguments}, `what` being a module or a file; the answer is the exit status.
What the program prints is in its folder's files `said` and `errors`.
"""

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import sys

import torch._dynamo  # noqa: F401  # PyTorch, and what an optimizer imports

PATIENCE_S = 600


def next_program(listening):
    """In a fork for each program that is asked for, what is; at the end None."""
    listening.settimeout(PATIENCE_S)
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
    """The same, of one connection."""
    connection.settimeout(None)
    connection.sendall(b"ready\n")
    with connection, connection.makefile() as lines:
        for line in lines:
            pid = os.fork()
            if not pid:
                return json.loads(line)
            with open(os.pidfd_open(pid)) as ended:
                if not select.select([ended], [], [], PATIENCE_S)[0]:
                    os.kill(pid, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            connection.sendall(f"{status}\n".encode())
    return None


def become(folder, what, arguments):
    os.chdir(folder)
    for fd, name in enumerate((os.devnull, "said", "errors")):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(file, fd)
        os.close(file)
    sys.argv[:] = what, *arguments


with socket.socket(socket.AF_UNIX) as listening:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(sys.argv[1])
    listening.bind(sys.argv[1])
    listening.listen()
    n_threads = len(os.listdir("/proc/self/task"))
    assert n_threads == 1, "a fork would lack the others"
    asked = None
    if not os.fork():
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        asked = next_program(listening)
if asked:
    become(**asked)
    if os.path.isabs(asked["what"]):
        runpy.run_path(asked["what"], run_name="__main__")
    else:
        runpy.run_module(asked["what"], run_name="__main__", alter_sys=True)

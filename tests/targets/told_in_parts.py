"""Calls and regions, of which a live output is to tell some: python told_in_parts.py OUTPUT...

Two sessions, %d in an OUTPUT being their number, each announced by a line and begun by one on
standard input.  In each `called` is called and the region `epoch` entered three times where that is
to be told, once by a thread of its own; and while profiling is paused, in a forked child, and
between the sessions, where it is not.
"""

import os
import sys
import threading
import time

import pyhybrid


def called():
    pass


def left_out():
    called()


def stage():
    with pyhybrid.region("epoch"):
        left_out()


def wait_until_told():
    monitoring = sys.monitoring
    while not any(monitoring.get_events(i) for i in range(6) if monitoring.get_tool(i)):
        time.sleep(0.001)


def on_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def in_a_child(function):
    if pid := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    else:
        function()
        os._exit(0)


def session(profiler):
    with profiler:
        print("started", flush=True)
        sys.stdin.readline()
        wait_until_told()
        stage()
        on_a_thread(stage)
        profiler.pause()
        stage()
        profiler.resume()
        wait_until_told()
        in_a_child(stage)
        stage()
    stage()


choices = [{"functions": ["called"]}, {"include": ["^called$"]}]
for i, choice in enumerate(choices):
    outputs = [output.replace("%d", str(i)) for output in sys.argv[1:]]
    session(pyhybrid.Profiler(mode="none", emit=outputs, **choice))

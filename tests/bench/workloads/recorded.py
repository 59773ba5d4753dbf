"""Nanoseconds a call, in all: bare, counted, and told to LTTng without and with a session.

python recorded.py ROUNDS FOLDER: beside a session daemon, prints a list of rounds, {side: ns}, and
how many events were discarded.
"""

import json
import os
import re
import subprocess
import sys
import time

from best_call import best_ns

from pyhybrid import Profiler


def lttng(*words):
    command = ["lttng", "--no-sessiond", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait_for_events():
    deadline = time.monotonic() + 10
    tools = [i for i in range(6) if sys.monitoring.get_tool(i) == "pyhybrid"]
    while not any(map(sys.monitoring.get_events, tools)):
        assert time.monotonic() < deadline


def round_of(folder):
    """(Each side, discarded events)."""
    sides = {"bare": best_ns()}
    with Profiler(mode="trace") as p:
        sides["counted"] = best_ns()
    p.profile.close()
    with Profiler(mode="none", emit=["lttng"]):
        sides["no session"] = best_ns()
        lttng("create", "bench", f"--output={folder}")
        lttng("enable-channel", "-u", "c", "--subbuf-size=1M", "--num-subbuf=16")
        lttng("enable-event", "-u", "--channel=c", "pyhybrid:*")
        lttng("start")
        wait_for_events()
        sides["recorded"] = best_ns()
    lttng("stop")
    (discarded,) = re.findall(r"Discarded events: (\d+)", lttng("list", "bench"))
    lttng("destroy", "bench")
    return sides, int(discarded)


rounds = [round_of(os.path.join(sys.argv[2], f"trace{i}")) for i in range(int(sys.argv[1]))]
print(json.dumps({"rounds": [r for r, _ in rounds], "discarded": sum(n for _, n in rounds)}))

"""After `stop` the process is as it was; nothing but libc was ever brought into it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

LOOK = '''
import ctypes, json, os, signal, sys, threading, time
from pyhybrid import _native

def look():
    action = (ctypes.c_ulong * 19)()
    ctypes.CDLL(None).sigaction(signal.SIGPROF, None, action)
    with open("/proc/self/maps") as file:
        maps = [line.split(maxsplit=5) for line in file]
    with open("/proc/self/timers") as file:
        timers = file.read()
    return {
        "handler": action[0],  # the kernel fills no more of the mask than it has signals
        "fds": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                      if os.path.islink(f"/proc/self/fd/{fd}")),
        "threads": len(os.listdir("/proc/self/task")),
        "timers": timers,
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "files": sorted({m[5].strip() for m in maps if len(m) > 5 and m[5].startswith("/")}),
    }

def look_until(wanted):
    """A thread's entry in /proc goes a moment later."""
    end = time.monotonic() + 20
    while (found := look()) != wanted and time.monotonic() < end:
        time.sleep(0.001)
    return found

def anonymous():
    with open("/proc/self/maps") as file:
        return sum(1 for line in file if len(line.split()) == 5)

def once(path, **options):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    _native.start(fd, **options)
    os.close(fd)
    end = time.process_time() + 0.02
    while time.process_time() < end: pass
    return _native.stop()

path = sys.argv[1]
once(path)  # hooks and libraries that stay are loaded now
'''


def run(code: str, tmp_path: Path) -> dict[str, object]:
    command = [sys.executable, "-P", "-c", LOOK + code, str(tmp_path / "spool")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "options",
    [
        *("", "period_ns=100000", "exact=True"),
        *(pytest.param(timers, marks=pytest.mark.once) for timers in ("engine=2", "clock=1")),
    ],
)
def test_after_stop(tmp_path: Path, options: str) -> None:
    result = run(
        f"""
before, n = look(), anonymous()
for _ in range(20):
    assert once(path, {options})["write_error"] == 0
print(json.dumps([before, look_until(before), n, anonymous()]))
""",
        tmp_path,
    )
    before, after, n_before, n_after = result
    assert after == before
    assert n_after <= n_before + 2  # malloc's own


@pytest.mark.further
def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    before, after, n_before, n_after = run(
        """
before, n = look(), anonymous()
for _ in range(20):
    fd = os.open(path, os.O_RDWR)
    try:
        _native.start(fd, backend="/nonexistent.so")
    except OSError:
        pass
    else:
        raise SystemExit("it started")
    os.close(fd)
assert _native.stop() is None and not _native.running()
print(json.dumps([before, look_until(before), n, anonymous()]))
""",
        tmp_path,
    )
    assert after == before
    assert n_after <= n_before + 2


@pytest.mark.further
def test_a_second_start_is_refused(tmp_path: Path) -> None:
    assert run(
        """
fd = os.open(path, os.O_RDWR)
_native.start(fd)
try:
    _native.start(fd)
except OSError as error:
    print(json.dumps({"error": str(error)}))
_native.stop()
""",
        tmp_path,
    )["error"]


@pytest.mark.needs("plain_build")
def test_only_libc_is_linked(tmp_path: Path) -> None:
    code = """
fd = os.open(path, os.O_RDWR)
bare = look()["files"]
_native.start(fd)
print(json.dumps({"new": sorted(set(look()["files"]) - set(bare))}))
_native.stop()
"""
    assert run(code, tmp_path)["new"] == []
    # And importing it brought no more than itself.
    command = (
        "def maps(): return {l.split()[5] for l in open('/proc/self/maps') if l.count('/')}\n"
        "a = maps(); from pyhybrid import _native; print(*(maps() - a))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", command], capture_output=True, text=True, check=True
    )
    assert [Path(p).name.split(".")[0] for p in done.stdout.split()] == ["_native"]


ENGINES = [
    "engine=0",
    pytest.param("engine=1", marks=pytest.mark.needs("root")),
    pytest.param("engine=2", marks=pytest.mark.slow),
]


@pytest.mark.further
@pytest.mark.parametrize("n_stops", [20, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", ENGINES)
def test_stops_while_children_are_made(tmp_path: Path, options: str, n_stops: int) -> None:
    """A child has our descriptors until its exec; no event may outlive the stop by that."""
    done = run(
        f"""
import subprocess
spawning = True
def spawn():
    while spawning:
        subprocess.run(["/bin/true"], check=True)
thread = threading.Thread(target=spawn)
thread.start()
for _ in range({n_stops}):
    once(path, period_ns=100000, {options})
spawning = False
thread.join()
print(json.dumps({{"alive": True}}))
""",
        tmp_path,
    )
    assert done == {"alive": True}

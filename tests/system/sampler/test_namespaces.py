"""Where /proc is not this process's own: another namespace of processes, or none."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support import LINUX, PATIENCE_S, check_invariants, paths

from pyhybrid.tables.profile import Profile

pytestmark = pytest.mark.needs("root")

PROGRAM = """
import threading, time
def burn():
    end = time.thread_time() + 0.15
    while time.thread_time() < end:
        sum(range(100))
threads = [threading.Thread(target=burn) for _ in range(2)]
for each in threads: each.start()
burn()
for each in threads: each.join()
print(threading.get_native_id(), *(each.native_id for each in threads))
"""
OUTER = ["unshare", "-pf"]  # a namespace of its own, and the /proc of the one around it
NONE = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
ANOTHERS = [*NONE[:4], 'unshare -pf mount -t proc none /proc && exec "$@"', "sh"]
OTHERS = "note     /proc does not show this process: threads that had begun before, or not by"


def run(folder: Path, place: list[str], options: str) -> tuple[Profile, str, set[int]]:
    """The profile, what was said, and the threads that there were."""
    command = [*place, sys.executable, "-P", "-m", "pyhybrid", *options.split()]
    done = subprocess.run(
        [*command, "--format", "folded", "-c", textwrap.dedent(PROGRAM)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    profile = Profile.open(str(folder / "out.pyhybrid"))
    check_invariants(profile)
    return profile, done.stderr, set(map(int, done.stdout.split()))


def sampled(profile: Profile) -> set[int]:
    """The threads that were, in `burn`."""
    found = [names for _, _, names in paths(profile) if "burn" in names]
    assert found
    return {thread.tid for thread in profile.threads.values() if thread.recorded}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "options",
    [
        "",
        "--mode sample",
        "--mode sample --engine perf_event",
        "--mode sample --engine timer",
        "--mode sample --clock wall",
    ],
)
def test_the_proc_of_an_outer_namespace(tmp_path: Path, options: str) -> None:
    """It lists threads by numbers that are not theirs here."""
    profile, said, tids = run(tmp_path, OUTER, options)
    with profile:
        assert {thread.tid for thread in profile.threads.values()} == tids
        assert sampled(profile) == tids
        assert all(thread.name for thread in profile.threads.values())
    assert "note " not in said


@pytest.mark.further
@pytest.mark.skipif(LINUX < (6, 15), reason="sigtrap needs Linux 6.15")
@pytest.mark.needs("plain_build")  # ASan itself wants /proc
@pytest.mark.parametrize("place", [NONE, ANOTHERS], ids=["none", "another's"])
def test_no_proc_and_clocks_that_threads_inherit(tmp_path: Path, place: list[str]) -> None:
    profile, said, tids = run(tmp_path, place, "--mode sample")
    with profile:
        assert sampled(profile) == tids
    assert "/proc does not show this process: threads that had begun before are not seen" in said


@pytest.mark.first_cases(1)
@pytest.mark.needs("plain_build")
@pytest.mark.parametrize("options", ["--engine perf_event", "--engine timer", "--clock wall"])
def test_no_proc(tmp_path: Path, options: str) -> None:
    """Threads are known by their events, in mode sample by where `threading` begins them."""
    profile, said, tids = run(tmp_path, NONE, f"{options} --format perf-map --format perf")
    with profile:
        assert sampled(profile) == tids
    assert "/proc does not show this process: threads that run no Python function" in said
    (wrote,) = (line for line in said.splitlines() if line.startswith("wrote "))
    assert "perf.data" in wrote
    Path(wrote.split("; ")[-1]).unlink()  # the map: a later run that has no /proc does not
    profile, said, tids = run(tmp_path, NONE, f"--mode sample {options}")
    with profile:
        assert sampled(profile) == tids
    assert OTHERS in said

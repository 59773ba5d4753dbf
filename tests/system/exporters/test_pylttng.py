"""Figures of functions as events of LTTng: the module pylttng, and `export -f lttng`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lttng_support import Lttng
from support import TARGETS, Run

from pyhybrid.exporters.pstats import PStats

pytestmark = pytest.mark.needs("lttng")


def python(lttng: Lttng, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*lttng.command, sys.executable, "-P", "-c", code],
        env={**os.environ, **lttng.env, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.engine
@pytest.mark.version
def test_one_event_a_call(lttng: Lttng) -> None:
    """Positional or named, the average given or not; of a forked child nothing."""
    code = (
        "import os, pylttng\n"
        "assert pylttng.is_recorded()\n"
        "pylttng.trace_function_stats('workload.py', 7, 'train_step', 4, 0.5)\n"
        "if not os.fork():\n"
        "    pylttng.trace_function_stats('child.py', 1, 'child', 1, 1)\n"
        "    os._exit(pylttng.is_recorded())\n"
        "assert os.wait()[1] == 0\n"
        "pylttng.trace_function_stats(filename='größe\\udc80.py', lineno=-1, funcname='f',\n"
        "    calls=2**63 - 1, total_time=3, avg_time=2.5)\n"
        "pylttng.trace_function_stats('x.py', 1, 'never', 0, 0.0, None)\n"
    )
    lttng.record("sysmon:*")
    done = python(lttng, code)
    assert done.returncode == 0, done.stderr
    events = lttng.events()
    assert {(e.provider, e.name) for e in events} == {("sysmon", "function_stats")}
    keys = ["filename", "lineno", "funcname", "calls", "total_time", "avg_time"]
    assert all(list(e.fields) == keys for e in events)
    assert [list(e.fields.values()) for e in events] == [
        ["workload.py", "7", "train_step", "4", "0.5", "0.125"],
        [r"größe\\udc80.py", "-1", "f", str(2**63 - 1), "3", "2.5"],
        ["x.py", "1", "never", "0", "0", "0"],
    ]


@pytest.mark.further
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("b'x', 1, 'f', 1, 1.0", "TypeError: a name must be str, not bytes"),
        ("'x', 1, 'f', -1, 1.0", "ValueError: calls must not be negative"),
        ("'x', 1, 'f', 1, 1.0, 'y'", "TypeError: must be real number, not str"),
        ("'x', 1", "TypeError: trace_function_stats() missing required argument"),
    ],
)
def test_bad_arguments(no_daemon: Lttng, arguments: str, error: str) -> None:
    """Of a good call nothing is to be seen where nobody records."""
    call = "pylttng.trace_function_stats"
    done = python(no_daemon, f"import pylttng; {call}('x', 1, 'f', 1, 1.0); {call}({arguments})")
    assert error in done.stderr.splitlines()[-1]


@pytest.mark.further
def test_without_the_library_the_import_says_what_is_missing(
    no_daemon: Lttng, tmp_path: Path
) -> None:
    found = importlib.util.find_spec("pylttng")
    assert found and found.origin
    shutil.copy(found.origin, tmp_path)
    done = python(no_daemon, "import pylttng", PYTHONPATH=str(tmp_path))
    assert "ImportError: pylttng needs LTTng (Debian, Ubuntu:" in done.stderr


@pytest.mark.further
def test_a_child_does_not_wait_for_locks(no_daemon: Lttng) -> None:
    """That one of LTTng's threads held when it was forked."""
    program = str(TARGETS / "forks_with_lttng_locked.py")
    code = f"import pylttng, runpy; runpy.run_path({program!r}, run_name='__main__')"
    assert python(no_daemon, code).stdout == "the child ended with 7\n"


def test_a_profile_exported(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """Each function's figures are those that pstats shows; the program itself loads nothing."""
    run = pyhybrid("--mode", "trace", TARGETS / "emitted.py")
    beside = {"within": lttng.command, "env": lttng.env}
    refused = pyhybrid("export", "-f", "lttng", check=False, **beside).result
    assert refused.returncode == 2
    assert "no LTTng session records" in refused.stderr
    lttng.record("sysmon:*")
    said = pyhybrid("export", "-f", "lttng", **beside).result.stderr
    assert not lttng.stop()
    stats = PStats().stats(run.profile())
    assert said == f"pyhybrid: {len(stats)} functions are events sysmon:function_stats of LTTng\n"
    exported = {
        (f["filename"], int(f["lineno"]), f["funcname"]): (
            int(f["calls"]),
            pytest.approx(float(f["total_time"]), abs=1e-9, rel=1e-5),
        )
        for f in (e.fields for e in lttng.events())
    }
    shown = {
        (file, line, name.replace("\x1b", r"\e")): row for (file, line, name), row in stats.items()
    }
    assert exported == {key: (row[1], row[3]) for key, row in shown.items()}
    assert len(exported) > 5


@pytest.mark.further
def test_at_the_end_of_a_run(lttng: Lttng, pyhybrid: Callable[..., Run]) -> None:
    """By the process that makes the files; -o has no meaning."""
    lttng.record("sysmon:*")
    code = "print('lttng-ust' in open('/proc/self/maps').read())"
    options = ("--mode", "trace", "--format", "lttng")
    run = pyhybrid(*options, "-c", code, within=lttng.command, env=lttng.env)
    assert run.result.stdout == "False\n"
    events = lttng.events()
    assert [e.fields["calls"] for e in events if e.fields["filename"] == "<string>"] == ["1"]
    refused = pyhybrid("export", "-f", "lttng", "-o", "x", check=False).result
    assert refused.returncode == 2
    assert "-o is for the other formats" in refused.stderr

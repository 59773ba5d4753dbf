#!/usr/bin/env python3
"""Tries the pyhybrid that is installed for this interpreter, as its users would, in a new folder.

    try_wheel.py [--uninstall]

Runs a program by the commands of the README and checks what comes of it: Python and the native
code below it; the page, exports, children, pytest.  And that no library which a wheel brings along
comes into the program; with --uninstall also that pip leaves nothing of it.  Needs pytest for its
plugin, and no compiler.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import files
from pathlib import Path

PROGRAM = """
import bz2, subprocess, sys, time

def compress(end):
    while time.process_time() < end:
        bz2.compress(bytes(range(256)) * 4000)

def keyed(value): return -value

def count(end):
    while time.process_time() < end:
        sorted(range(3000), key=keyed)

compress(0.6)
count(1.0)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, __file__], check=True)
loaded = open("/proc/self/maps").read()
if len(sys.argv) > 1:
    open("loaded.txt", "w").write(loaded)
"""
TEST = "def test_sum(): assert sum(range(100_000)) > 0\n"


def run(*words: str, status: int = 0, **more: str) -> str:
    """Run `python WORDS` and return what it printed; ends this process if its status differs."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    if done.returncode != status or "Traceback" in done.stdout:
        sys.exit(f"python {' '.join(words)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def check(is_so: bool, what: str, shown: object = "") -> None:
    """Print what was tried; ends this process where it is not so."""
    if not is_so:
        sys.exit(f"not so: {what}\n{shown}")
    print(f"ok    {what}")


def uninstall() -> None:
    """Try that pip takes away all that it brought, and what was made of that since."""
    prefix = Path(sys.prefix)
    brought = {Path(str(path.locate())).resolve() for path in files("pyhybrid") or ()}
    before = set(prefix.rglob("*"))
    check(brought < {path.resolve() for path in before}, "all that was brought is there")
    before -= {path for path in before if path.resolve() in brought or is_ours(path)}
    run("-m", "pip", "uninstall", "--yes", "pyhybrid")
    left = [path for path in prefix.rglob("*") if path not in before and not is_compiled(path)]
    check(not left, "nothing is left of it", left)


def is_ours(path: Path) -> bool:
    """Return whether this is a folder that we brought, or in one."""
    return any(each.startswith("pyhybrid") for each in path.parts[len(Path(sys.prefix).parts) :])


def is_compiled(path: Path) -> bool:
    """Return whether this was compiled, by Python or by pytest, of a source that is there."""
    if path.name == "__pycache__":
        return any(path.parent.glob("*.py")) and any(path.iterdir())
    name = path.name.split(".cpython-")[0]
    return path.parent.name == "__pycache__" and (path.parents[1] / f"{name}.py").exists()


def main() -> None:
    """Try it all."""
    summary = run("-m", "pyhybrid", "--hz", "999", "workload.py", "child")
    check("samples" in summary and "compress" in summary, "a run prints its summary", summary)
    processes = run("-m", "pyhybrid", "report", "processes")
    check("2 times workload.py" in processes, "its child is in it", processes)
    loaded = Path("loaded.txt").read_text()
    check("/_native." in loaded, "the program was profiled in its process", loaded)
    ours = [line for line in loaded.splitlines() if "/pyhybrid.libs/" in line]
    check(not ours, "no library that the wheel brings is loaded into it", ours)
    tree = run("-m", "pyhybrid", "report", "tree", "--all-frames")
    wanted = ("compress (workload.py", "keyed (workload.py", "PyEval_EvalCode", "sort")
    check(all(each in tree for each in wanted), "the tree has Python and native functions", tree)
    asked = json.loads(run("-m", "pyhybrid", "ask"))
    check(asked["run"]["n_processes"] == 2, "ask answers in JSON", asked)
    for name in ("pprof", "speedscope", "callgrind"):
        run("-m", "pyhybrid", "export", "-f", name)
    run("-m", "pyhybrid", "page", "--no-open")
    check(any(Path().glob("*.html")), "the page is there", list(Path().iterdir()))
    plugin = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyhybrid", "test_speed.py")
    check("1 passed" in plugin, "pytest runs with the plugin", plugin)
    if "--uninstall" in sys.argv:
        uninstall()
    print("all is well: CPython", sys.version.split()[0], os.confstr("CS_GNU_LIBC_VERSION"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("workload.py").write_text(PROGRAM)
        Path("test_speed.py").write_text(TEST)
        main()

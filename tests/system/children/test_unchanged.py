"""Programs with children: they run as without us, with their profiles and without."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, Run, check_invariants, signalled_ns
from torch_support import TorchProcess

from pyhybrid.views.processes import processes_of

BURN = """
import time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""

FORK = r"""
import os, sys
burn(0.8)
children = []
for i in range(3):
    pid = os.fork()
    if not pid:
        burn(0.05)
        os.write(1, b"child\n")
        os._exit(i)
    children.append(pid)
print(sorted(os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children), flush=True)
burn(0.8)
"""

FALL_THROUGH = """
import os
pid = os.fork()
burn(0.1)
if pid:
    os.waitpid(pid, 0)
"""

MULTIPROCESSING = """
import multiprocessing, sys
def square(x):
    burn(0.01)
    return x * x
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(square, range(10)))
    burn(0.8)
"""

SPAWN = """
import os, subprocess, sys
print(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout)
print(subprocess.run("echo 2", shell=True, capture_output=True).stdout)
os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
burn(0.8)
"""

DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 4096)
        files = [os.open(os.path.join(sys.argv[1], f"f{i}"), os.O_RDWR | os.O_CREAT)
                 for i in range(600)]
        burn(0.3)
        os.write(files[0], b"done")
        os._exit(0)
    os._exit(0)
os.wait()
burn(0.8)
"""

LOADER = """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        burn(0.001)
        return torch.full((4,), float(i))
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=8, num_workers=2, multiprocessing_context="fork"
    )
    print(sum(batch.sum().item() for batch in loader))
    burn(0.8)
"""


def bare_output(folder: Path, *words: object) -> str:
    """What the program prints without us."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout


both = pytest.mark.parametrize("options", [(), ("--no-children",)], ids=["children", "alone"])


def compare(
    pyhybrid: Callable[..., Run],
    tmp_path: Path,
    program: str,
    *arguments: object,
    options: tuple[str, ...] = (),
    bare: Callable[..., str] = bare_output,
) -> Run:
    """Run it bare and profiled: the same output, one profile, the parent's part of it whole."""
    script = tmp_path / "program.py"
    script.write_text(BURN + program)
    expected = bare(tmp_path, script, *arguments)
    run = pyhybrid(*options, "--format", "folded", script, *arguments)
    assert sorted(run.result.stdout.splitlines()) == sorted(expected.splitlines())
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.folded", "out.pyhybrid"]
    profile = run.profile()
    check_invariants(profile)
    first = profile.processes[1]
    assert first.end_ns is not None
    main = next(t for t in profile.threads.values() if t.tid == first.pid)
    assert main.recorded and signalled_ns(profile, main) > 150_000_000
    return run


def children(run: Run) -> tuple[int | None, int | None]:
    process = run.profile().process
    return process.n_forked, process.n_spawned


def n_profiled(run: Run) -> int:
    return len(run.profile().processes) - 1


@pytest.mark.further
@pytest.mark.engine
@both
def test_fork(pyhybrid: Callable[..., Run], tmp_path: Path, options: tuple[str, ...]) -> None:
    run = compare(pyhybrid, tmp_path, FORK, options=options)
    assert children(run) == (3, 0)
    assert n_profiled(run) == (0 if options else 3)
    assert ("3 child processes not profiled" in run.result.stderr) == bool(options)


@pytest.mark.further
@both
def test_a_child_that_ends_like_its_parent(
    pyhybrid: Callable[..., Run], tmp_path: Path, options: tuple[str, ...]
) -> None:
    run = compare(pyhybrid, tmp_path, FALL_THROUGH + "burn(0.8)", options=options)
    assert run.result.stderr.count("wrote") == 1
    assert n_profiled(run) == (0 if options else 1)


@pytest.mark.further
@both
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(
    pyhybrid: Callable[..., Run], tmp_path: Path, method: str, options: tuple[str, ...]
) -> None:
    run = compare(pyhybrid, tmp_path, MULTIPROCESSING, method, options=options)
    # Two workers; spawned ones with a resource tracker, served ones with the server, too.
    assert children(run) == {"fork": (2, 0), "spawn": (0, 3), "forkserver": (0, 4)}[method]
    assert n_profiled(run) == (0 if options else 2)


@pytest.mark.further
@pytest.mark.engine
def test_a_fork_without_a_free_descriptor(pyhybrid: Callable[..., Run]) -> None:
    program = """
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        files = []
        try:
            while True:
                files.append(os.dup(0))
        except OSError:
            pass
        child = os.fork()
        if not child:
            os._exit(0)
        code = os.waitpid(child, 0)[1]
        for file in files:
            os.close(file)
        print(code)
    """
    run = pyhybrid("-q", "--format", "folded", "-c", textwrap.dedent(program))
    assert (run.result.stdout, run.result.stderr) == ("0\n", "")


@pytest.mark.further
@both
def test_spawned(pyhybrid: Callable[..., Run], tmp_path: Path, options: tuple[str, ...]) -> None:
    run = compare(pyhybrid, tmp_path, SPAWN, options=options)
    assert children(run) == (0, 3)
    assert n_profiled(run) == (0 if options else 1)  # of the others none is Python


BY_POSIX_SPAWN = getattr(subprocess, "_HAVE_POSIX_SPAWN_CLOSEFROM", False)
# (forked, spawned): each child once, and none that there was not.
STARTS = {
    "subprocess.run(['true'])": (0, 1),
    "subprocess.run(['true'], close_fds=False)": (0, 1),  # by posix_spawn
    "subprocess.run(['true'], preexec_fn=int)": (0, 1),  # by fork
    "os.popen('true').close()": (0, 1),
    "os.system('true')": (0, 1),
    "os.wait() if os.posix_spawnp('true', ['true'], {}) else 0": (0, 1),
    "os.spawnvp(os.P_WAIT, 'true', ['true'])": (1, 0),
    "os.posix_spawn('/no/such/file', ['x'], {})": (0, 0),
    "subprocess.run(['true'], user=-5)": (0, 0),
    # One that could not become it; where posix_spawn can close descriptors (3.13), none is seen.
    "subprocess.run(['/no/such/file'])": (0, int(not BY_POSIX_SPAWN)),
    "os.waitpid(pty.fork()[0] or os._exit(0), 0)": (1, 0),
}


@pytest.mark.version
def test_each_child_counts_once(pyhybrid: Callable[..., Run]) -> None:
    for start, counts in STARTS.items():
        program = f"""
            import os, pty, subprocess
            try:
                {start}
            except (OSError, ValueError):
                pass
        """
        options = "-q", "--mode", "trace", "--no-children", "-c"
        assert children(pyhybrid(*options, textwrap.dedent(program))) == counts, start


@pytest.mark.further
def test_a_daemon_that_closes_and_reuses_all_descriptors(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    import time

    folder = tmp_path / "files"
    folder.mkdir()
    script = tmp_path / "daemon.py"
    script.write_text(BURN + DAEMON)
    pyhybrid("--format", "folded", "-q", script, folder, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
    while (folder / "f0").read_bytes() != b"done" and time.monotonic() < deadline:
        time.sleep(0.01)
    sizes = {f.name: f.stat().st_size for f in folder.iterdir()}
    assert sizes.pop("f0") == 4
    assert len(sizes) == 599
    assert set(sizes.values()) == {0}


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.needs("torch")
@both
def test_data_loader(
    pyhybrid: Callable[..., Run],
    tmp_path: Path,
    torch_process: TorchProcess,
    options: tuple[str, ...],
) -> None:
    run = compare(pyhybrid, tmp_path, LOADER, options=options, bare=torch_process.run)
    assert children(run)[0] == 2
    if options:
        assert n_profiled(run) == 0
        return
    _, *workers = processes_of(run.profile())
    assert [each.role for each in workers] == ["loader worker"] * 2
    profile = run.profile()
    items = {n for n, frame in profile.frames.items() if frame.name == "Data.__getitem__"}
    rows = [row for row in profile.exact if profile.nodes.frame[row.node] in items]
    assert sum(row.calls for row in rows) == 64
    assert {profile.threads[row.thread].process for row in rows} == {each.id for each in workers}


def test_two_at_once_in_one_folder(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """The second one starts, and ends, while the first one runs."""
    code = (
        "import subprocess, sys\n"
        "inner = [sys.executable, '-P', '-m', 'pyhybrid', '-q', '-c', 'sum(range(10**7))']\n"
        "subprocess.run(inner, check=True)\n"
    )
    run = pyhybrid("-c", code)
    names = sorted(p.name for p in run.folder.iterdir())
    inner = next(n.split(".")[1] for n in names if n.count(".") == 2 and n.endswith(".pyhybrid"))
    assert set(names) == {
        *("out.pyhybrid", "out.folded", "perf.data"),
        *(f"out.{inner}.pyhybrid", f"out.{inner}.folded", f"perf.data.{inner}"),
    }
    assert run.profile().process.pid != run.profile(f"out.{inner}.pyhybrid").process.pid
    assert run.profile(f"out.{inner}.pyhybrid").process.pid == int(inner)


WORKERS = """
import multiprocessing, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work, args=(0.4,), name=f"worker-{i}") for i in range(2)]
    for child in children: child.start()
    for child in children: child.join()
"""


def test_what_children_took_is_in_the_summary(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """By their names, and as a finding where it is most of all CPU time."""
    (tmp_path / "workers.py").write_text(WORKERS)
    run = pyhybrid("--no-children", "workers.py")
    (line,) = [line for line in run.result.stderr.splitlines() if line.startswith("children ")]
    found = re.fullmatch(
        r"children 2 child processes not profiled, (\d\.\d\d) s of CPU time "
        r"\(worker-0, worker-1\)",
        line,
    )
    assert found, line
    assert float(found[1]) >= 0.78  # the kernel's ticks
    assert "is that of 2 child processes, which are not profiled" in run.result.stderr
    run = pyhybrid("workers.py")
    assert "\nchildren " not in run.result.stderr
    assert re.search(r"s  2 times worker \(worker-0 … worker-1\)", run.result.stderr)

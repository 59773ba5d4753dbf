"""What is in the way when profiling is to start: the program runs all the same."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, Run

from pyhybrid.tables.profile import Profile

PROGRAM = """\
import sys
print(sum(range(1000)), sys.argv[1:], sys.flags.dont_write_bytecode, sys.path[0], __name__)
files = [open(__file__) for _ in range(2)]
sys.stderr.write(f"{len(files)} files\\n")
sys.exit(5)
"""


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., str]:
    """compare(limits, *options) -> what we said; the program does as it does bare with `-m`."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(limits: dict[int, int], *words: str) -> subprocess.CompletedProcess[str]:
        def limit() -> None:
            # Without memory CPython itself may loop for ever.
            resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
            for which, value in limits.items():
                resource.setrlimit(which, (value, value))

        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            preexec_fn=limit,
            capture_output=True,
            text=True,
            check=False,
        )

    def compare(limits: dict[int, int], *options: str) -> str:
        for _ in range(40):  # where the interpreter just starts, chance decides whether it does
            bare = run(limits, "-BPm", "program", "x")
            ours = run(
                *(limits, "-BPm", "pyhybrid", "-q", "--format", "folded", *options),
                *("-m", "program", "x"),
            )
            if ours.returncode == bare.returncode:
                break
        said = "".join(x for x in ours.stderr.splitlines(True) if x.startswith("pyhybrid: "))
        if bare.returncode == 5:
            assert (ours.returncode, ours.stdout) == (5, bare.stdout), (limits, ours.stderr)
            assert ours.stderr.replace(said, "") == bare.stderr, limits
            assert said.count("\n") == (0 if (tmp_path / "out.pyhybrid").exists() else 1), said
        return said if bare.returncode == 5 else "fails without us, too"

    return compare


DESCRIPTORS = [4, 5, 8, 12, 31, 32, 40]
MB = 1 << 20


@pytest.mark.parametrize(
    "numbers",
    [
        DESCRIPTORS,
        pytest.param(
            [*range(3, 41)], marks=[pytest.mark.slow, pytest.mark.long("two runs for each number")]
        ),
    ],
    ids=len,
)
def test_few_descriptors(compare: Callable[..., str], tmp_path: Path, numbers: list[int]) -> None:
    for n in numbers:
        said = compare({resource.RLIMIT_NOFILE: n})
        profile = tmp_path / "out.pyhybrid"
        if n < 32:
            assert said.endswith(("the program runs without a profile\n", "without us, too")), n
        else:
            assert (said, profile.exists()) == ("", True), n
            profile.unlink()
    assert [path.name for path in tmp_path.glob("out*")] == ["out.folded"]


# ASan maps terabytes.
@pytest.mark.first_cases(1)
@pytest.mark.needs("plain_build")
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
@pytest.mark.parametrize(
    "steps",
    [4, pytest.param(32, marks=[pytest.mark.slow, pytest.mark.long("two runs for each step")])],
)
def test_little_memory(compare: Callable[..., str], tmp_path: Path, limit: str, steps: int) -> None:
    """From where the interpreter itself just starts."""
    which = getattr(resource, limit)
    size = 1 * MB
    while compare({which: size}) == "fails without us, too":
        size += MB
    for step in range(1, steps):
        compare({which: size - MB + MB * step // steps})
    for megabytes in (2, 32, 64, 512, 1024):
        compare({which: size + megabytes * MB})
    assert (tmp_path / "out.pyhybrid").exists()  # with the last of them
    assert not list(tmp_path.glob("*.part"))


def test_strict(compare: Callable[..., str], tmp_path: Path, pyhybrid: Callable[..., Run]) -> None:
    """Then it does not run at all."""
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)); "
    become = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", limit + become, "-P", "-m", "pyhybrid", "--strict"]
    done = subprocess.run(
        [*command, "-c", "print(1)"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyhybrid: max open files is 12 here")


@pytest.mark.engine
def test_an_engine_that_is_not_to_be_had(pyhybrid: Callable[..., Run]) -> None:
    """Another one drives the samples, unless --strict."""
    options = "--engine", "perf_event", "--format", "folded", "-c", "print(sum(range(10**6)))"
    strict = pyhybrid("--strict", *options, check=False)
    run = pyhybrid("-q", *options)
    assert run.result.stdout == "499999500000\n"
    if strict.result.returncode == 0:  # it is to be had
        assert run.result.stderr == ""
        assert run.profile().meta["engine"] == "perf_event"
    else:
        assert (strict.result.returncode, strict.result.stdout) == (1, "")
        assert run.result.stderr.endswith(": another engine drives the samples\n")
        assert run.profile().meta["mode"] == "hybrid"


@pytest.mark.engine
def test_a_folder_where_nothing_can_be_written(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """Also one that was asked for: the program runs, but for --strict."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    program = "-c", "print(1)"
    if os.geteuid() == 0:  # to root only what is no folder is closed
        closed.chmod(0o755)
        (closed / "out.pyhybrid").mkdir()
    (tmp_path / "file").touch()
    places = [closed / "out", tmp_path / "file" / "out", "/proc/out", "/proc/no/such/out"]
    for options in [(), *(("-o", each) for each in places)]:
        run = pyhybrid(*options, *program, cwd=closed)
        assert run.result.stdout == "1\n"
        (line,) = run.result.stderr.splitlines()
        assert line.endswith(": the program runs without a profile"), line
        strict = pyhybrid("--strict", *options, *program, cwd=closed, check=False)
        assert (strict.result.returncode, strict.result.stdout) == (1, "")
        assert (
            strict.result.stderr == line.removesuffix(": the program runs without a profile") + "\n"
        )


@pytest.mark.further
def test_a_folder_that_is_not_there(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """It is made; nothing of it is left where there is nothing to write."""
    program = "print(sum(range(10**5)))"
    (tmp_path / "pyproject.toml").write_text('[tool.pyhybrid]\noutput = "build/profile"\n')
    run = pyhybrid("-q", "--format", "folded", "-c", program)
    assert (run.result.stdout, run.result.stderr) == ("4999950000\n", "")
    assert sorted(os.listdir(tmp_path / "build")) == ["profile.folded", "profile.pyhybrid"]
    run = pyhybrid("-q", "--format", "folded", "-o", "a/b/c/", "-c", program)
    assert sorted(os.listdir(tmp_path / "a" / "b" / "c")) == ["out.folded", "out.pyhybrid"]
    pyhybrid("-q", "-o", "x/y/z", "-c", "not a program", check=False)
    assert not (tmp_path / "x").exists()


@pytest.mark.further
def test_a_name_that_is_no_file(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """In a folder that others use: nothing waits for who reads or writes there."""
    for name in ("out.pyhybrid.part", "pyproject.toml"):
        os.mkfifo(tmp_path / name)
    run = pyhybrid("-c", "print(1)", timeout=60)
    assert run.result.stdout == "1\n"
    assert run.result.stderr == (
        f"pyhybrid: cannot write {tmp_path}/out.pyhybrid.part: it is no regular file: "
        "the program runs without a profile\n"
    )
    assert sorted(os.listdir(tmp_path)) == ["out.pyhybrid.part", "pyproject.toml"]


# Without what both kinds of clocks need: perf_event_open and timer_create, on x86-64.
WITHOUT_CLOCKS = """
import ctypes, errno, os, struct, sys
def instruction(code, jump_true, jump_false, k):
    return struct.pack("HBBI", code, jump_true, jump_false, k)
filter = instruction(0x20, 0, 0, 0)  # the number of the system call
filter += instruction(0x15, 1, 0, 298) + instruction(0x15, 0, 1, 222)
filter += instruction(0x06, 0, 0, 0x50000 | errno.ENOSYS) + instruction(0x06, 0, 0, 0x7FFF0000)
text = ctypes.create_string_buffer(filter)
program = struct.pack("HxxxxxxP", len(filter) // 8, ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
assert not libc.prctl(22, 2, program), os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.version
def test_a_sandbox_without_clocks(tmp_path: Path) -> None:
    """Calls are counted, also where system calls are said not to be there."""
    ours = ["-P", "-m", "pyhybrid", "-q", "--format", "folded", "-c", "print(sum(range(10)))"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CLOCKS, *ours],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "45\n"
    (line,) = done.stderr.splitlines()
    assert line.endswith(": calls are counted, nothing is sampled"), line
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        assert profile.meta["mode"] == "trace"
        assert sum(row.calls for row in profile.exact) >= 1


@pytest.mark.further
@pytest.mark.needs("root")
@pytest.mark.parametrize("mode", ["hybrid", "none"])
def test_without_a_dev(tmp_path: Path, mode: str) -> None:
    """Not even /dev/null is there."""
    place = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev && exec "$@"', "sh"]
    live = ["--emit", "print"] if mode == "none" else []
    ours = ["-m", "pyhybrid", "-q", "--format", "folded", "--mode", mode, *live]
    done = subprocess.run(
        [*place, sys.executable, "-P", *ours, "-c", "print(sum(range(10)))"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "45" in done.stdout.splitlines()
    assert "pyhybrid: " not in done.stderr
    made = ["out.folded", "out.pyhybrid"] if mode == "hybrid" else []
    assert sorted(os.listdir(tmp_path)) == made


@pytest.mark.further
def test_runs_that_share_a_folder_and_a_number(tmp_path: Path) -> None:
    """In containers each is process 1; each has names of its own, also after another has ended."""
    if os.geteuid() != 0:
        pytest.skip("only root makes containers here")
    program = "print('ready', flush=True); input(); print('done')"
    contained = ["unshare", "-pf", "--mount-proc", sys.executable, "-P", "-m", "pyhybrid", "-q"]
    command = [*contained, "--format", "folded", "-c", program]

    def start() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    running = [start() for _ in range(3)]
    assert running[1].communicate("\n", timeout=PATIENCE_S) == ("done\n", "")
    running.append(start())
    for process in (*running[:1], *running[2:]):
        assert process.communicate("\n", timeout=PATIENCE_S) == ("done\n", "")
        assert process.returncode == 0
    names = ["out", "out.1", "out.1.2", "out.1.3"]
    made = sorted(f"{name}.{kind}" for name in names for kind in ("folded", "pyhybrid"))
    assert sorted(path.name for path in tmp_path.iterdir()) == made

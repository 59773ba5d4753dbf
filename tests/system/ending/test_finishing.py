"""The end of a run: whatever the program did to its process, the profile is made, or we say why."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, Run, paths, printed

from pyhybrid.assemble import open_profile
from pyhybrid.views.labels import short_time

OUTPUTS = ["out.folded", "out.pyhybrid", "perf.data"]

DEEDS = {
    "changes its folder": "import os; os.chdir('/')",
    "changes its umask": "import os; os.umask(0o777)",
    "clears its environment": "import os; os.environ.clear()",
    "changes sys.executable": "import sys; sys.executable = '/no/such/file'",
    "changes sys.path and argv": "import sys; sys.path.clear(); sys.argv.clear()",
    "ignores its children": "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "blocks all signals": (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    ),
    "forbids imports": (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        raise ImportError(name)\n"
        "sys.meta_path.insert(0, No())"
    ),
    "forgets its modules": "import sys; sys.modules.clear()",
    "redirects its streams": "import io, sys; sys.stdout = sys.stderr = io.StringIO()",
    "has a broken stderr": "import sys; sys.stderr = object()",
    "replaces what starts processes and waits for them": (
        "import os, subprocess, _posixsubprocess\n"
        "def no(*_, **__): 1 / 0\n"
        "names = 'posix_spawn posix_spawnp fork waitpid wait4 waitid wait kill execv execve'\n"
        "for name in names.split(): setattr(os, name, no)\n"
        "subprocess.Popen = _posixsubprocess.fork_exec = no"
    ),
    "replaces all functions of os and time": (
        "import os, time\n"
        "def no(*_, **__): 1 / 0\n"
        "for module in os, os.path, time:\n"
        "    for name, value in list(vars(module).items()):\n"
        "        if callable(value) and not isinstance(value, type): setattr(module, name, no)"
    ),
    "lowers its limits": (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
    ),
}


# ASan's library is there by the environment.
PLAIN = pytest.mark.needs("plain_build")


@pytest.mark.first_cases(2)
@pytest.mark.parametrize(
    "deed", [pytest.param(each, marks=PLAIN if "environ" in each else ()) for each in DEEDS]
)
def test_the_files_are_written_after_the_program(
    pyhybrid: Callable[..., Run], tmp_path: Path, deed: str
) -> None:
    run = pyhybrid("-c", DEEDS[deed] + "\nsum(range(10**6))", check=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS
    umask = os.umask(0o077)
    os.umask(umask)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert all(mode & 0o600 == 0o600 and not mode & umask for mode in modes)
    assert "999 Hz asked" in run.result.stderr
    assert "Traceback (most" not in run.result.stderr


@pytest.mark.further
@pytest.mark.needs("plain_build")
def test_a_finishing_process_that_cannot_start(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """Whether or not its interpreter has words for that, a line of ours names the `.part`."""
    program = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
    for end in ("", "; import os; os._exit(0)"):
        run = pyhybrid("-q", "-c", program + end)
        spool = tmp_path / "out.pyhybrid.part"
        *_, line = run.result.stderr.splitlines()
        assert line.startswith(f"pyhybrid: {spool} could not be finished: exit code ")
        assert line.endswith("; `python -m pyhybrid report` reads it by its name")
        assert spool.exists()


LIMITED = """
import resource, sys
def make(n):
    exec(f"def f{n}():\\n    return sum(i for i in range(300))\\nf{n}()", globals())
for n in range(300):
    make(n)
soft, hard = 1 << 16, resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, soft if sys.argv[1:] else hard))
for n in range(3000):
    make(n)
"""


@pytest.mark.further
def test_files_that_the_program_limits(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """What was written before is in the profile, or can be read."""
    spool = tmp_path / "out.pyhybrid.part"
    said = (
        f"pyhybrid: {spool} is not complete: File too large (the program's RLIMIT_FSIZE): "
        "the profile is of what came before"
    )
    run = pyhybrid("-q", "--format", "folded", "-c", LIMITED)
    assert run.result.stderr == f"{said}\n"
    assert sorted(os.listdir(tmp_path)) == ["out.folded", "out.pyhybrid"]
    assert run.profile().process.end_ns is None
    run = pyhybrid("-q", "-o", "other", "--format", "folded", "-c", LIMITED, "hard")
    first, last = run.result.stderr.splitlines()
    spool = tmp_path / "other.pyhybrid.part"
    assert first == said.replace("out.pyhybrid", "other.pyhybrid")
    assert last.startswith(f"pyhybrid: cannot write {tmp_path}/other.pyhybrid: ")
    assert last.endswith(f"; `python -m pyhybrid report {spool}` still reads what was recorded")
    assert pyhybrid("report", spool).result.stdout


# A forked child stops the finishing process when it sees it, deals with it, and lets it go on.
# That one has less of a processor than who looks for it, or it may have ended before on a busy one.
INTERFERE = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: None)
program = os.getpid()
def children():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat') as file, open(f'/proc/{pid}/cmdline') as command:
                if int(file.read().rpartition(')')[2].split()[1]) == program:
                    # Until it execs its parent's stands there.
                    if 'pyhybrid.finish' + '.finish' in command.read():
                        yield int(pid)
        except OSError:
            continue
def finisher():
    while not (found := list(children())):
        pass
    os.kill(found[0], signal.SIGSTOP)
    return found[0]
def program_waits():
    with open(f'/proc/{program}/stat') as stat, open(f'/proc/{program}/wchan') as place:
        sleeps = stat.read().rpartition(')')[2].split()[0] == 'S'
        return sleeps and place.read() in ('do_wait', '0')
sum(range(10**6))
if not os.fork():
    pid = finisher()
    while not program_waits():
        pass
    os.kill(program if 'program' in DEED else pid, getattr(signal, DEED.split()[0]))
    if DEED != 'SIGKILL':
        os.kill(pid, signal.SIGCONT)
    os._exit(0)
os.nice(10)
"""


@pytest.mark.further
@pytest.mark.engine
def test_a_late_signal_that_the_program_handled(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """The interpreter has put back the default by then: to die."""
    pyhybrid("-c", INTERFERE.replace("DEED", "'SIGALRM to the program'"))
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("deed", ["SIGKILL", "SIGINT", "SIGINT to the program"])
def test_an_interrupted_finish_keeps_the_old_profile_and_the_spool(
    pyhybrid: Callable[..., Run], tmp_path: Path, deed: str
) -> None:
    pyhybrid("-q", "-c", "pass")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    run = pyhybrid("-c", INTERFERE.replace("DEED", repr(deed)))
    lines = run.result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("pyhybrid: ")
    assert "out.pyhybrid.part" in lines[0]
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content
    report = pyhybrid("report", "out.pyhybrid.part")
    assert "999 Hz asked" in report.result.stdout


TIMERS = {"SIGALRM": "ITIMER_REAL", "SIGVTALRM": "ITIMER_VIRTUAL", "SIGPROF": "ITIMER_PROF"}


@pytest.mark.further
@pytest.mark.version
@pytest.mark.parametrize("number", TIMERS)
def test_a_timer_that_still_runs_at_the_end(
    pyhybrid: Callable[..., Run], tmp_path: Path, number: str
) -> None:
    """The interpreter has put back its signal's default by then; its end is longer by ours."""
    program = f"""
        import signal
        signal.signal(signal.{number}, lambda *_: None)
        signal.setitimer(signal.{TIMERS[number]}, 0.001, 0.001)
    """
    pyhybrid("-c", textwrap.dedent(program))
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS


@pytest.mark.further
def test_signals_that_come_until_the_program_is_gone(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    program = """
        import os, signal, time
        numbers = signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGRTMIN
        for number in numbers:
            signal.signal(number, lambda *_: None)
        program = os.getpid()
        if not os.fork():
            while os.getppid() == program:
                for number in numbers:
                    os.kill(program, number)
                time.sleep(0.001)
            os._exit(0)
        raise SystemExit(3)
    """
    # (Its child outlives it, and would leave a spool.)
    run = pyhybrid("--no-children", "-c", textwrap.dedent(program), check=False)
    assert run.result.returncode == 3, run.result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS


# The program's audit hook is called in the midst of what we do at its end.
SENDS_ITSELF = """
import os, signal, sys
def handler(*_):
    raise RuntimeError("from the program's handler")
def hook(event, arguments):
    if event == "os.posix_spawn":
        os.kill(os.getpid(), signal.NUMBER)
if "NUMBER" != "SIGINT":
    signal.signal(signal.NUMBER, handler)
sys.addaudithook(hook)
"""


@pytest.mark.first_cases(1)
@pytest.mark.version
@pytest.mark.parametrize("number", ["SIGUSR1", "SIGTERM", "SIGALRM"])
def test_handlers_do_not_run_in_our_code(
    pyhybrid: Callable[..., Run], tmp_path: Path, number: str
) -> None:
    run = pyhybrid("-c", SENDS_ITSELF.replace("NUMBER", number))
    assert "Traceback (most" not in run.result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS


@pytest.mark.further
def test_an_interrupt_while_we_stop(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    run = pyhybrid("-c", SENDS_ITSELF.replace("NUMBER", "SIGINT"))
    assert run.result.stderr.startswith("pyhybrid: interrupted; ")
    assert len(run.result.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.pyhybrid.part"]


ENDS = {
    "returns": ("pass", 0),
    "exits": ("import sys; sys.exit(3)", 3),
    "fails": ("1 / 0", 1),
    "is interrupted": ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -2),
    "ignores its children": ("import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)", 0),
    "runs its exit functions": ("import atexit, os; atexit._run_exitfuncs(); os._exit(4)", 4),
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("end", ENDS)
def test_the_command_returns_when_all_files_are_written(tmp_path: Path, end: str) -> None:
    program, code = ENDS[end]
    command = [sys.executable, "-P", "-m", "pyhybrid", "-c", "sum(range(10**6))\n" + program]
    with (tmp_path / "stderr").open("w") as stderr:  # a pipe's end would be waited for
        process = subprocess.Popen(command, cwd=tmp_path, stderr=stderr)
        assert process.wait(PATIENCE_S) == code
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*OUTPUTS, "stderr"])
    assert "999 Hz asked" in (tmp_path / "stderr").read_text()


@pytest.mark.engine
def test_the_program_ends_while_its_profile_is_finished(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """What it does last does not wait for us; the command returns when all files are written."""
    program = """
        import os, sys
        class Last:
            def __del__(self, listdir=os.listdir, write=os.write):
                write(1, " ".join(listdir()).encode())
        sys.last = Last()
    """
    run = pyhybrid("-c", textwrap.dedent(program))
    assert "out.pyhybrid.part" in run.result.stdout.split()
    assert "out.pyhybrid" not in run.result.stdout.split()
    assert sorted(path.name for path in tmp_path.iterdir()) == OUTPUTS


@pytest.mark.further
@pytest.mark.engine
def test_what_we_do_at_the_end_is_not_sampled(pyhybrid: Callable[..., Run]) -> None:
    """We read the list of mappings before the clocks are closed: tens of milliseconds, here."""
    program = """
        import mmap
        ways = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
        kept = [mmap.mmap(-1, mmap.PAGESIZE, prot=ways[i & 1]) for i in range(30_000)]
    """
    hz_and_mode = ("--hz", "4999", "--mode", "sample")
    profile = pyhybrid("-q", *hz_and_mode, "-c", textwrap.dedent(program)).profile()
    seen = {name for _, _, names in paths(profile) for name in names}
    assert "<module>" in seen
    assert not seen & {"Program._execute", "jit_files", "_jitdumps", "_read"}


@pytest.mark.further
def test_what_a_failing_program_printed_stands_before_our_summary(
    pyhybrid: Callable[..., Run],
) -> None:
    stderr = pyhybrid("-c", "1 / 0", check=False).result.stderr
    assert stderr.index("ZeroDivisionError: ") < stderr.index("999 Hz asked")


@pytest.mark.further
@pytest.mark.parametrize(
    "environment",
    [
        "{**os.environ, '': 'no name', 'N': 5, b'bytes': 'x', 'a=b': ''}",
        pytest.param("{}", marks=PLAIN),
    ],
)
def test_an_environment_that_cannot_be_passed_on(
    pyhybrid: Callable[..., Run], environment: str
) -> None:
    """`posix_spawn` refuses it; the program may have left anything in its place."""
    run = pyhybrid("--format", "folded", "-c", f"import os; os.environ = {environment}")
    assert run.profile().process.pid
    assert "999 Hz asked" in run.result.stderr


@pytest.mark.further
@pytest.mark.needs("root")
def test_a_program_that_changes_its_root_folder(
    pyhybrid: Callable[..., Run], tmp_path: Path
) -> None:
    """No interpreter is there to make the profile, whether or not pyhybrid is."""
    empty = tmp_path / "empty"
    empty.mkdir()
    run = pyhybrid("-q", "-c", f"import os; os.chroot({str(empty)!r}); os.chdir('/')")
    spool = tmp_path / "out.pyhybrid.part"
    assert run.result.stderr == (
        f"pyhybrid: {spool} could not be finished: {sys.executable}: No such file or directory; "
        "`python -m pyhybrid report` reads it by its name\n"
    )
    assert spool.exists()


@pytest.mark.further
@pytest.mark.parametrize("view", [("--json",), ("tree",), ()])
def test_a_report_on_a_closed_output(
    pyhybrid: Callable[..., Run], tmp_path: Path, view: tuple[str, ...]
) -> None:
    pyhybrid("-q", "--format", "folded", "-c", "sum(range(10**6))")
    command = f"exec {sys.executable} -P -m pyhybrid report {' '.join(view)} >&-"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "pyhybrid: standard output is closed\n")


@pytest.mark.further
@pytest.mark.parametrize("encoding", ["ascii:strict", "latin-1:strict", "utf-8:strict"])
def test_a_report_of_names_that_cannot_be_shown(
    pyhybrid: Callable[..., Run], tmp_path: Path, encoding: str
) -> None:
    """Neither the file's fault nor a reason to show nothing."""
    name = "\u4e2d" * 100  # longer than a column
    program = f"def {name}():\n for i in range(3): sum(range(10**6))\n{name}()"
    pyhybrid("-q", "--format", "folded", "-c", program, os.fsdecode(b"\xff"))
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for view in ([], ["tree"]):
        command = [sys.executable, "-P", "-m", "pyhybrid", "report", *view]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        text = done.stdout.decode(encoding.partition(":")[0])
        assert ("\u4e2d" in text) == (encoding == "utf-8:strict")
        assert ("\\u4e2d" in text) != (encoding == "utf-8:strict")


def test_a_report_that_cannot_be_written(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """`pyhybrid report | head -1`, and a full disk behind `>`."""
    pyhybrid("-q", "--format", "folded", "-c", "sum(range(10**6))")
    read, write = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    no_space = "pyhybrid: cannot write {}: No space left on device\n"
    for words, place in (
        (("report",), "on standard output"),
        (("report", "--json"), "on standard output"),
        (("export", "-f", "folded", "-o", "-"), "/dev/stdout"),
    ):
        command = [sys.executable, "-P", "-m", "pyhybrid", *words]
        for stdout, told in ((write, (128 + signal.SIGPIPE, "")), (full, (1, no_space))):
            done = subprocess.run(
                command, cwd=tmp_path, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (told[0], told[1].format(place))
    os.close(write)
    os.close(full)


@pytest.mark.further
def test_what_getopt_obeys(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    """The finishing process has the program's environment."""
    run = pyhybrid("--format", "folded", "-c", "pass", env={"POSIXLY_CORRECT": "1"})
    assert "python -c pass" in run.result.stderr
    assert sorted(os.listdir(tmp_path)) == ["out.folded", "out.pyhybrid"]


BURNS_AT_THE_END = """
import os, signal, time

class Last:
    clock, kill = time.process_time, os.kill
    arguments = ({arguments})
    def __del__(self):
        clock, began = type(self).clock, type(self).clock()
        while clock() - began < 0.3:
            pass
        if self.arguments:
            type(self).kill(*self.arguments)

last = Last()
"""


@pytest.mark.further
@pytest.mark.engine
def test_what_the_interpreter_s_end_took(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", BURNS_AT_THE_END.format(arguments=""))
    profile = run.profile()
    end_ns = profile.meta["end_cpu_ns"]
    assert 0.3e9 <= end_ns < 1e9
    assert (profile.process.cpu_ns or 0) < 0.3e9
    shown = f"[interpreter's end] {short_time(end_ns)} of CPU time"
    assert shown in run.result.stderr
    assert shown in printed(run.folder, "report")


WAITS_FOR_ALL = """
import os

class Last:
    wait = os.wait
    def __del__(self):
        try:
            while True: type(self).wait()
        except ChildProcessError:
            pass

last = Last()
"""


@pytest.mark.further
def test_a_program_whose_end_waits_for_all_its_children(pyhybrid: Callable[..., Run]) -> None:
    run = pyhybrid("-c", WAITS_FOR_ALL)
    assert "wrote    out.pyhybrid" in run.result.stderr
    assert "end_cpu_ns" not in run.profile().meta


@pytest.mark.further
def test_a_program_that_is_killed_at_its_end_has_a_profile(tmp_path: Path) -> None:
    program = BURNS_AT_THE_END.format(arguments="os.getpid(), signal.SIGKILL")
    command = [sys.executable, "-P", "-m", "pyhybrid", "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "wrote    out.pyhybrid" in done.stderr, done.stderr  # it held standard error open
    assert "[interpreter's end]" not in done.stderr
    with open_profile(str(tmp_path / "out.pyhybrid")) as profile:
        assert "end_cpu_ns" not in profile.meta

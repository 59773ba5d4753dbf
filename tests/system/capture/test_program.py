"""The program behaves as without us: each case runs bare and profiled, and all must be the same."""

from __future__ import annotations

import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import zipapp
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, Run, preloaded

import pyhybrid

Same = Callable[..., "subprocess.CompletedProcess[str]"]


def comparable(text: str) -> str:
    """Without addresses and thread identities; and without the hint that a script hides a module
    of the standard library, for which CPython 3.13 takes the first script it was asked to run."""
    text = re.sub(r" \(consider renaming [^\n]*precedence\)", "", text)
    return re.sub(r"0x[0-9a-f]+|started \d+|pid=\d+", "?", text)


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files below a folder, but for what the interpreter caches."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }


@pytest.fixture
def same(tmp_path: Path) -> Same:
    """same(*words, **options of subprocess.run): the bare run, after comparing the profiled one.

    Both run in the folder `work`, first the bare one, and what they leave there must be the same;
    what the profiler writes goes to the folder `profile`.  `beyond`
    is a line that the profiler alone must write on stderr.
    """
    (tmp_path / "work").mkdir()
    (tmp_path / "profile").mkdir()

    def run(
        *words: str,
        flags: tuple[str, ...] = (),
        hz: int = 2000,
        beyond: str = "",
        env: dict[str, str] = {},  # noqa: B006
        **options: object,
    ) -> subprocess.CompletedProcess[str]:
        profile = str(tmp_path / "profile" / "out")
        ours = ["-m", "pyhybrid", "-q", "--hz", str(hz), "--format", "folded", "-o", profile]
        results, left = [], []
        for extra in ([], ours):
            results.append(
                subprocess.run(
                    [sys.executable, *flags, *extra, *words],
                    cwd=tmp_path / "work",
                    env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80", **env},
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    **options,
                )
            )
            left.append(contents(tmp_path / "work"))
        bare, profiled = results
        if beyond:
            profiled.stderr, n = re.subn(beyond, "", profiled.stderr)
            assert n == 1
        assert comparable(profiled.stderr) == comparable(bare.stderr)
        assert comparable(profiled.stdout) == comparable(bare.stdout)
        assert profiled.returncode == bare.returncode
        assert left[1] == left[0]
        return bare

    return run


# Imported by `python -m` itself, whatever it runs.
RUNPY = {"runpy", "importlib", "types", "warnings"}


def imported(*words: str) -> set[str]:
    """Top-level modules."""
    command = [sys.executable, "-P", "-X", "importtime", *words]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in said.splitlines()[1:]}


def imported_by_us(folder: Path) -> set[str]:
    """Those of the standard library that a file may hide."""
    ours = imported("-m", "pyhybrid", "-q", "-o", str(folder / "x"), "-c", "pass")
    return ours - imported("-c", "pass") - set(sys.builtin_module_names) - RUNPY - {"pyhybrid"}


OWN_MODULES = """\
import sys
print(*sys.path, sep="\\n")
bare = {"pyhybrid", *sys.builtin_module_names}
print(sorted(name for name in sys.modules if name.partition(".")[0] not in bare))
for name in sys.argv[1:]:
    print(name, __import__(name).__file__)
"""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("how", ["script", "module", "command", "PYTHONPATH"])
def test_files_that_are_named_like_modules_of_ours(same: Same, tmp_path: Path, how: str) -> None:
    """Where the current folder has them, none of ours sees them; where the program's has, it does.

    What its framework is told by runs while it runs.
    """
    names = sorted(imported_by_us(tmp_path) | {"shutil", "array", "tomllib"})
    assert len(names) > 15, names
    work = tmp_path / "work"
    below = work / "below"
    layer = below / "torch" / "nn" / "modules"  # as ours of PyTorch are called
    layer.mkdir(parents=True)
    (layer / "module.py").write_text("class Module:\n    def _call_impl(self): pass\n")
    modules = "import torch.nn.modules.module, json\nprint(json.__file__)\n"
    for name in names:
        (work / f"{name}.py").write_text(f"print('{name} of the current folder')\n")
        (below / f"{name}.py").write_text("")
    (below / "program.py").write_text(OWN_MODULES + modules)
    (work / "program.py").write_text(OWN_MODULES)
    words = {
        "script": ["below/program.py", *names],
        "module": ["-m", "below.program", *names],
        "command": ["-c", OWN_MODULES, *names],
        "PYTHONPATH": ["program.py", *names],
    }
    folder = str(work) if how == "PYTHONPATH" else ""
    said = same(*words[how], env={"PYTHONPATH": folder}).stdout
    assert said.count(f"{below if how == 'script' else work}/") >= len(names)
    ours = sorted(path.name for path in (tmp_path / "profile").iterdir())
    assert ours == ["out.folded", "out.pyhybrid"]


@pytest.mark.further
def test_subcommands_where_files_are_named_like_modules(tmp_path: Path) -> None:
    names = imported_by_us(tmp_path) | {"sqlite3", "shutil", "subprocess", "threading"}
    for name in names:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the current folder')\n")
    beside = tmp_path / "beside"  # what lies beside the package comes after the standard library
    beside.mkdir()
    (beside / "pyhybrid").symlink_to(os.path.dirname(pyhybrid.__file__))
    (beside / "enum.py").write_text("raise SystemExit('of the folder of the package')\n")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "p.py").write_text("print(sum(range(10)))\n")
    for words in (
        ["-q", "--format", "folded", "p/p.py"],
        ["-q", "--format", "folded", "-o", "again", "p/p.py"],
        ["report"],
        ["export", "-f", "pprof"],
        ["diff", "out.pyhybrid", "out.pyhybrid"],
        ["config", "--show"],
        ["merge", "out.pyhybrid", "again.pyhybrid", "-o", "all.pyhybrid"],
        ["compare-cprofile", "p/p.py"],
        ["probes"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pyhybrid", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(beside)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        assert "folder" not in done.stderr, (words, done.stderr)
    assert (tmp_path / "all.pyhybrid").exists()


@pytest.fixture
def script(tmp_path: Path, same: Same) -> Same:
    """script(source, *arguments, **options): the same for the text of a script `main.py`."""

    def run(source: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        (tmp_path / "work" / "main.py").write_text(textwrap.dedent(source))
        return same("main.py", *arguments, **options)

    return run


# --- what the program sees ---------------------------------------------------------------------


WHOAMI = TARGETS / "whoami.py"


def a_script(work: Path) -> list[str]:
    shutil.copy(WHOAMI, work / "main.py")
    return ["main.py"]


def a_script_elsewhere(work: Path) -> list[str]:
    (work / "sub").mkdir()
    shutil.copy(WHOAMI, work / "sub" / "main.py")
    return ["./sub/../sub/main.py"]


def an_absolute_path(work: Path) -> list[str]:
    return [str(WHOAMI)]


def a_link(work: Path) -> list[str]:
    (work / "link.py").symlink_to(WHOAMI)
    return ["link.py"]


def a_name_without_suffix(work: Path) -> list[str]:
    shutil.copy(WHOAMI, work / "run me")
    return ["run me"]


def a_module(work: Path) -> list[str]:
    shutil.copy(WHOAMI, work / "main.py")
    return ["-m", "main"]


def a_package(work: Path) -> list[str]:
    (work / "package").mkdir()
    (work / "package" / "__init__.py").write_text("print('init', __name__)")
    shutil.copy(WHOAMI, work / "package" / "__main__.py")
    return ["-m", "package"]


def a_submodule(work: Path) -> list[str]:
    a_package(work)
    shutil.copy(WHOAMI, work / "package" / "sub.py")
    return ["-m", "package.sub"]


def code(work: Path) -> list[str]:
    return ["-c", WHOAMI.read_text()]


def a_folder(work: Path) -> list[str]:
    (work / "folder").mkdir()
    shutil.copy(WHOAMI, work / "folder" / "__main__.py")
    return ["folder"]


def an_archive(work: Path) -> list[str]:
    a_folder(work)
    zipapp.create_archive(work / "folder", work / "app.pyz")
    return ["app.pyz"]


def a_compiled_script(work: Path) -> list[str]:
    py_compile.compile(str(WHOAMI), str(work / "main.pyc"))
    return ["main.pyc"]


def a_compiled_folder(work: Path) -> list[str]:
    (work / "folder").mkdir()
    py_compile.compile(str(WHOAMI), str(work / "folder" / "__main__.pyc"))
    return ["folder"]


WAYS = [
    a_script,
    a_script_elsewhere,
    an_absolute_path,
    a_link,
    a_name_without_suffix,
    a_module,
    a_package,
    a_submodule,
    code,
    a_folder,
    an_archive,
    a_compiled_script,
    a_compiled_folder,
]


FLAGS = {"": (), "safe_path": ("-P",), "isolated": ("-I",)}
STARTED_BY = [
    pytest.param(
        way,
        flags,
        id=f"{name}-{way.__name__}",
        marks=pytest.mark.slow if flags and way not in (a_script, a_module) else (),
    )
    for name, flags in FLAGS.items()
    for way in WAYS
]


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(("way", "flags"), STARTED_BY)
def test_started_by(
    same: Same, tmp_path: Path, way: Callable[[Path], list[str]], flags: tuple[str, ...]
) -> None:
    words = [*way(tmp_path / "work"), "read", "--hz", "5", "-q", "-m", "x", "--", "-", ""]
    bare = same(*words, flags=flags, input="some\nlines")
    if flags and way in (a_module, a_package, a_submodule):
        assert bare.returncode == 1  # the current folder is not on the path
    else:
        assert bare.returncode == 0
        assert "stdin 'some\\nlines'" in bare.stdout


@pytest.mark.further
def test_started_from_stdin(same: Same) -> None:
    same("-", "a", "-b", input=WHOAMI.read_text())


@pytest.mark.first_cases(2)
@pytest.mark.version
@pytest.mark.parametrize(
    "flags",
    [("-O",), ("-X", "dev"), ("-W", "error::UserWarning"), ("-b",), ("-u",), ("-X", "utf8=0")],
    ids=" ".join,
)
def test_interpreter_options(same: Same, tmp_path: Path, flags: tuple[str, ...]) -> None:
    same(*a_script(tmp_path / "work"), flags=flags)


@pytest.mark.further
@pytest.mark.version
def test_source_encodings(same: Same, tmp_path: Path) -> None:
    (tmp_path / "work" / "latin.py").write_bytes(
        b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'), __file__)\n"
    )
    (tmp_path / "work" / "bom.py").write_bytes(b"\xef\xbb\xbfprint(ascii('\xc3\xa9'))\r\nprint(2)")
    same("latin.py")
    same("bom.py")


@pytest.mark.further
@pytest.mark.version
def test_annotations_and_futures(script: Same) -> None:
    """Neither our own `from __future__` imports nor our annotations reach the program."""
    script("x: print('evaluated') = 1\nprint(__annotations__)\nprint(1 / 2)")


@pytest.mark.further
@pytest.mark.version
def test_interactive_names_are_not_left(script: Same) -> None:
    script(
        """
        import builtins, sys
        print(sorted(set(dir(builtins))), sys.excepthook, sys.displayhook, sys.getprofile())
        print(sys.gettrace(), sys.getswitchinterval(), sys.getrecursionlimit())
        """
    )


@pytest.mark.further
def test_module_that_changes_argv_and_path(same: Same, tmp_path: Path) -> None:
    (tmp_path / "work" / "main.py").write_text(
        "import sys; sys.argv[:] = ['x']; sys.path.insert(0, '/nowhere')\n"
        "import __main__; __main__.late = 5; print(late)\n"
    )
    same("main.py", "a")


# --- how it ends ----------------------------------------------------------------------------------

ENDS = {
    "int": "raise SystemExit(7)",
    "large": "raise SystemExit(1234)",
    "negative": "raise SystemExit(-1)",
    "none": "raise SystemExit",
    "text": "import sys; sys.exit('a last word')",
    "object": "import sys; sys.exit(['a', 'list'])",
    "true": "raise SystemExit(True)",
    "exit": "exit(3)",
    "subclass": "class Mine(SystemExit): pass\nraise Mine(4)",
    "group": "raise BaseExceptionGroup('both', [SystemExit(3), ValueError(1)])",
    "uncaught": """
        def f(x):
            return 1 / x
        f(0)
        """,
    "chained": """
        def f():
            try:
                {}['key']
            except KeyError as error:
                raise ValueError('so') from error
        try:
            f()
        except ValueError:
            raise RuntimeError('then')
        """,
    "deep": """
        def f():
            return f()
        f()
        """,
    "notes": """
        error = ValueError('with'); error.add_note('a note'); raise error
        """,
    "own hook": """
        import sys
        def hook(kind, value, traceback):
            names = []
            while traceback:
                names.append(traceback.tb_frame.f_code.co_name)
                traceback = traceback.tb_next
            print(kind, value, names)
        sys.excepthook = hook
        def f():
            raise ValueError('for the hook')
        f()
        """,
    "hook exits": """
        import sys
        sys.excepthook = lambda *_: sys.exit(9)
        1 / 0
        """,
    "hook fails": """
        import sys
        def hook(*_):
            raise KeyError('in the hook')
        sys.excepthook = hook
        1 / 0
        """,
    "no hook": """
        import sys
        del sys.excepthook
        1 / 0
        """,
    "last exception": """
        import atexit, sys
        def show():
            print(repr(sys.last_exc), sys.last_type, sys.last_traceback.tb_frame.f_code.co_name)
        atexit.register(show)
        1 / 0
        """,
    "in a thread": """
        import threading
        def f():
            raise ValueError('in a thread')
        t = threading.Thread(target=f, name='worker')
        t.start()
        t.join()
        print('goes on')
        """,
    "exit in a thread": """
        import sys, threading
        t = threading.Thread(target=sys.exit, args=(3,))
        t.start()
        t.join()
        """,
    "in atexit": """
        import atexit
        def f():
            raise ValueError('in atexit')
        atexit.register(print, 'first registered, last run')
        atexit.register(f)
        print('end')
        """,
    "atexit is cleared": """
        import atexit
        print(atexit._ncallbacks() > 5)
        atexit.register(print, 'not seen')
        atexit._clear()
        """,
    "in a destructor": """
        class A:
            def __del__(self):
                print('deleted', flush=True)
                raise ValueError('in __del__')
        a = A()
        """,
    "globals at the end": """
        class A:
            def __init__(self, name):
                self.name = name
            def __del__(self):
                print('deleted', self.name, flush=True)
        a, b = A('a'), A('b')
        cycle = A('cycle')
        cycle.itself = cycle
        """,
    "syntax error": "x = 1\ndef f(:\n    pass\n",
    "indentation": "if 1:\n  x\n    y\n",
    "null byte": "x = '\0'\n",
    "import error": "import no_such_module",
    "unraisable": """
        import sys
        sys.unraisablehook = lambda u: print('hook', u.exc_value)
        class A:
            def __del__(self):
                1 / 0
        A()
        """,
    "interrupt": """
        import os, signal, time
        def f():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        f()
        """,
    "interrupt raised": "def f():\n    raise KeyboardInterrupt('by hand')\nf()",
    "interrupt caught": """
        import os, signal, time
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        except KeyboardInterrupt:
            print('caught')
        """,
    "os._exit": "import os; print('so far', flush=True); os._exit(3)",
    "abort": "import os; os.abort()",
    "segfault": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "hung up": "import os, signal; os.kill(os.getpid(), signal.SIGHUP)",
    "terminated, handled": """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    "SIGPROF unhandled": """
        import os, signal
        os.kill(os.getpid(), signal.SIGPROF)
        print('not reached')
        """,
    "SIGPROF handled": """
        import os, signal
        print(signal.signal(signal.SIGPROF, lambda *_: print('got it')))
        os.kill(os.getpid(), signal.SIGPROF)
        print(signal.getsignal(signal.SIGPROF) is not None)
        """,
    "SIGPROF ignored": """
        import os, signal
        print(signal.signal(signal.SIGPROF, signal.SIG_IGN))
        os.kill(os.getpid(), signal.SIGPROF)
        print(signal.signal(signal.SIGPROF, signal.SIG_DFL))
        """,
    "profiling timer of its own": """
        import signal
        n = 0
        def count(*_):
            global n
            n += 1
        signal.signal(signal.SIGPROF, count)
        signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
        while n < 5:
            sum(range(1000))
        print(signal.setitimer(signal.ITIMER_PROF, 0) > (0, 0))
        """,
    "stdout closed": "import sys; sys.stdout.close(); sys.stderr.write('still here')",
    "stderr closed": "import sys; print('out'); sys.stderr.close(); 1 / 0",
    "descriptors 1 and 2 closed": "import os; os.close(1); os.close(2)",
    "all standard descriptors closed": "import os; os.closerange(0, 3)",
    "files in their place": """
        import os
        os.closerange(0, 3)
        for name in ('a', 'b', 'c'):
            os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        class Last:
            def __del__(self):
                sizes = [os.fstat(fd).st_size for fd in range(3)]
                os.write(2, str(sizes).encode())
        last = Last()
        """,
    "stderr is None": "import sys; sys.stderr = None; 1 / 0",
    "stdout is full": """
        import os, sys
        full = os.open('/dev/full', os.O_WRONLY)
        os.dup2(full, 1)
        print('x')
        """,
    "a thread is left running": """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print('end')
        """,
    "a thread ends late": """
        import threading
        def late(main):
            main.join()
            print('after main', flush=True)
        threading.Thread(target=late, args=(threading.main_thread(),)).start()
        print('end of main', flush=True)
        """,
}

NOT_FINISHED = {"os._exit", "atexit is cleared"}  # the .part stays
NEVER_BEGUN = {"syntax error", "indentation", "null byte"}  # there is no profile of them


# ASan says more when it ends by a fault.
PLAIN = pytest.mark.needs("plain_build")


@pytest.mark.first_cases(4)
@pytest.mark.engine
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=PLAIN if each == "segfault" else ()) for each in ENDS]
)
def test_ends(script: Same, tmp_path: Path, name: str) -> None:
    # We see 10 ms later that the program took SIGPROF; until then it could get one of ours.
    hz = 1 if name.startswith("SIGPROF") else 2000
    done = script(ENDS[name], hz=hz)
    if done.returncode >= 0 and name not in NOT_FINISHED:
        assert (tmp_path / "profile" / "out.pyhybrid").exists() == (name not in NEVER_BEGUN)
        assert not (tmp_path / "profile" / "out.pyhybrid.part").exists()


# All ends of one way, and one end of all ways.
OTHER_ENDS = [
    pytest.param(way, end, marks=pytest.mark.slow if way != "code" and end != "uncaught" else ())
    for way in ("code", "module", "stdin", "folder")
    for end in ("uncaught", "syntax error", "interrupt", "text", "chained")
]


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("way", "end"), OTHER_ENDS)
def test_ends_of_other_kinds_of_programs(same: Same, tmp_path: Path, way: str, end: str) -> None:
    source = textwrap.dedent(ENDS[end])
    if way == "code":
        same("-c", source)
    elif way == "stdin":
        same("-", input=source)
    elif way == "module":
        (tmp_path / "work" / "main.py").write_text(source)
        same("-m", "main")
    else:
        (tmp_path / "work" / "folder").mkdir()
        (tmp_path / "work" / "folder" / "__main__.py").write_text(source)
        same("folder")


@pytest.mark.further
def test_a_script_from_a_pipe(tmp_path: Path) -> None:
    """`python -m pyhybrid <(generate)`: it can be opened only once."""
    read, write = os.pipe()
    os.write(write, b"print(__file__)\n")
    os.close(write)
    done = subprocess.run(
        [sys.executable, "-m", "pyhybrid", "-q", f"/dev/fd/{read}"],
        cwd=tmp_path,
        pass_fds=[read],
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(read)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"/dev/fd/{read}\n", "")


@pytest.mark.further
def test_unknown_modules(same: Same, tmp_path: Path) -> None:
    """The interpreter's own words: only the program knows what it can import."""
    (tmp_path / "work" / "empty").mkdir()
    (tmp_path / "work" / "empty" / "__init__.py").touch()
    same("-m", "no_such_module")
    same("-m", "no_such.module")
    same("-m", "empty")


# --- what it does meanwhile ---------------------------------------------------------------------

DEEDS = {
    "signals are as before": """
        import signal
        for number in sorted(signal.valid_signals()):
            if number != signal.SIGPROF:
                print(number, signal.getsignal(number))
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        print(open('/proc/self/status').read().split('SigBlk:')[1].split()[0])
        """,
    "interrupted system calls": """
        import os, threading, time
        r, w = os.pipe()
        def busy():
            end = time.thread_time() + 0.5
            while time.thread_time() < end:
                sum(range(100))
            os.write(w, b'done')
        threading.Thread(target=busy).start()
        print(os.read(r, 4))
        """,
    "forks": """
        import os, sys, warnings
        def fork(name):
            print(name, flush=True)
            pid = os.fork()
            if not pid:
                if not (grandchild := os.fork()):
                    print('grandchild', [f[1] for f in warnings.filters], flush=True)
                    os._exit(0)
                os.waitpid(grandchild, 0)
                os._exit(0)
            os.waitpid(pid, 0)
        fork('first')
        pid, fd = os.forkpty()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            fork('where warnings are errors')
            for _ in range(2):
                warnings.simplefilter('default')
                warnings.warn('shown once')
        """,
    "forks with a thread of its own": """
        import os, threading
        go = threading.Event()
        thread = threading.Thread(target=go.wait)
        for f in (os.fork, thread.start, os.fork, go.set, thread.join):
            pid = f()
            if pid == 0:
                os._exit(0)
            if pid:
                os.waitpid(pid, 0)
        """,
    "descriptors begin at the lowest": """
        import os
        print([os.open('/dev/null', os.O_RDONLY) for _ in range(5)])
        """,
    "umask, cwd, nice, affinity": """
        import os
        print(os.umask(0), os.nice(0), os.getcwd(), len(os.sched_getaffinity(0)))
        """,
    "timers and limits": """
        import resource, signal
        print(signal.getitimer(signal.ITIMER_REAL), signal.getitimer(signal.ITIMER_PROF))
        print([resource.getrlimit(n) for n in range(16)])
        """,
    "rename the program's folder": """
        import os
        os.mkdir('inner'); os.chdir('inner'); os.rmdir(os.getcwd())
        print('in a folder that is gone')
        """,
    "threads in numbers": """
        import threading
        print(threading.active_count(), threading.enumerate(), threading.main_thread().name)
        """,
    "garbage collection": """
        import gc
        # But for the one that limits.md names.
        theirs = [each for each in gc.callbacks if each.__name__ != 'pyhybrid_on_collection']
        print(gc.isenabled(), gc.get_threshold(), theirs)
        """,
    "children ignored": """
        import signal, subprocess
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print('end')
        """,
    "waits for any child": """
        import os
        try:
            os.wait()
        except ChildProcessError:
            print('none')
        """,
    "audit hooks that forbid": """
        import sys
        def hook(event, args):
            if event in ('subprocess.Popen', 'os.posix_spawn', 'import'):
                seen.add(event)
        seen = set()
        sys.addaudithook(hook)
        print('end')
        """,
}


@pytest.mark.first_cases(2)
@pytest.mark.engine
@pytest.mark.parametrize("source", DEEDS.values(), ids=DEEDS.keys())
def test_does(script: Same, source: str) -> None:
    script(source)


CLOSES_ALL = """
import os, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
burn(0.2)
limit = os.sysconf('SC_OPEN_MAX')
os.closerange(3, limit if limit > 0 else 1 << 20)
before = {fd: os.open(f'file{fd}', os.O_RDWR | os.O_CREAT | os.O_TRUNC) for fd in range(64)}
high = [os.dup2(os.open(f'high{fd}', os.O_RDWR | os.O_CREAT | os.O_TRUNC), fd)
        for fd in (256, 300, 512, 513, 514, 1024, limit // 2, limit // 2 + 1, limit // 2 + 2)
        if fd < limit]
burn(1.5)
names = sorted(name for name in os.listdir('.') if name.startswith(('file', 'high')))
print(len(names), [(name, os.path.getsize(name)) for name in names if os.path.getsize(name)])
for fd in high:
    os.write(fd, b'mine')
print({os.fstat(fd).st_size for fd in high})
"""


@pytest.mark.engine
def test_closes_all_descriptors(script: Same, tmp_path: Path) -> None:
    """As daemons do.  We go on in our own file, and never write into the program's."""
    done = script(CLOSES_ALL)
    assert done.stdout.splitlines()[0].endswith(" []")  # no file has grown
    with pyhybrid.load(tmp_path / "profile" / "out.pyhybrid") as profile:
        assert profile.meta["complete"]
        assert (profile.process.cpu_ns or 0) > 1.6e9  # of the whole run


EXEC_LOOP = """
import os, sys, time
n = int(sys.argv[1]) - 1
end = time.process_time() + 0.01
while time.process_time() < end:
    pass
if n:
    os.chdir('/')
    os.execv(sys.executable, [sys.executable, __file__, str(n)])
print('the last one', os.getcwd())
"""


MANY_TIMES = [pytest.mark.slow, pytest.mark.long("two runs each time")]


@pytest.mark.engine
@pytest.mark.parametrize("n_times", [6, pytest.param(20, marks=MANY_TIMES)])
def test_executes_another_program(script: Same, n_times: int) -> None:
    """A pending SIGPROF would kill the next program: its handler is gone."""
    for _ in range(n_times):
        assert script(EXEC_LOOP, "2", hz=20000).returncode == 0


@pytest.mark.engine
def test_exec_that_fails(script: Same) -> None:
    script(
        """
        import os
        for _ in range(3):
            try:
                os.execv('/no/such/program', ['x'])
            except OSError as error:
                print(error)
        """
    )


@pytest.mark.further
@pytest.mark.engine
@pytest.mark.parametrize("n_times", [2, pytest.param(10, marks=MANY_TIMES)])
def test_executes_from_a_thread(script: Same, n_times: int) -> None:
    for _ in range(n_times):
        script(
            """
            import os, sys, threading
            def spin():
                while True:
                    sum(range(100))
            for _ in range(3):
                threading.Thread(target=spin, daemon=True).start()
            sum(range(300_000))
            def go():
                os.execv(sys.executable, [sys.executable, '-c', 'print("there")'])
            threading.Thread(target=go).start()
            """,
            hz=20000,
        )


# Here an exec takes long to begin, as on a machine that stalls.
SLOW_EXEC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
typedef int exec(const char *path, char *const *arguments);
int execv(const char *path, char *const *arguments)
{
    usleep(300000);
    return ((exec *)dlsym(RTLD_NEXT, "execv"))(path, arguments);
}
"""


@pytest.mark.further
@pytest.mark.engine
def test_executes_after_a_while(pyhybrid: Callable[..., Run], tmp_path: Path) -> None:
    library = tmp_path / "slow_exec.so"
    source = tmp_path / "slow_exec.c"
    source.write_text(SLOW_EXEC)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    program = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])"
    for _ in range(5):
        run = pyhybrid("--hz", 20000, "-c", program, env=preloaded(library), check=False)
        assert (run.result.returncode, run.result.stdout) == (0, "1\n"), run.result


POOLS = """
import concurrent.futures, multiprocessing, pickle, sys

class Point:
    def __init__(self, x):
        self.x = x

def double(point):
    return Point(2 * point.x)

def lines(method):
    if method == 'threads':
        pool = concurrent.futures.ThreadPoolExecutor(2)
    else:
        context = multiprocessing.get_context(method)
        pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=context)
    with pool:
        return [p.x for p in pool.map(double, map(Point, range(50)))]

if __name__ == '__main__':
    print(Point.__module__, pickle.loads(pickle.dumps(Point(3))).x)
    print(lines(sys.argv[1]))
    if sys.argv[1] != 'threads':
        context = multiprocessing.get_context(sys.argv[1])
        with context.Pool(2) as pool:
            print([p.x for p in pool.map(double, map(Point, range(10)))])
        queue = context.Queue()
        child = context.Process(target=queue.put, args=(Point(5),), name='worker')
        child.start()
        print(queue.get().x, child.join(), child.exitcode)
"""


@pytest.mark.first_cases(1)
@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["threads", "fork", "spawn", "forkserver"])
@pytest.mark.parametrize("way", ["script", pytest.param("module", marks=pytest.mark.slow)])
def test_pools(same: Same, tmp_path: Path, way: str, method: str) -> None:
    (tmp_path / "work" / "main.py").write_text(POOLS)
    words = ["main.py"] if way == "script" else ["-m", "main"]
    assert same(*words, method, hz=999).returncode == 0


@pytest.mark.engine
def test_killed_by_its_own_signal_leaves_no_zombie_finisher(tmp_path: Path) -> None:
    """SIGINT at the terminal goes to the whole group: the files are written all the same."""
    (tmp_path / "main.py").write_text(
        "import os, signal, time\nos.killpg(0, signal.SIGINT)\ntime.sleep(30)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pyhybrid", "-q", "main.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=PATIENCE_S,
    )
    assert result.returncode == -signal.SIGINT
    assert (tmp_path / "out.pyhybrid").exists()
    assert not (tmp_path / "out.pyhybrid.part").exists()

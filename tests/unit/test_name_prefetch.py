"""finish/name_prefetch.py: a fork looks up names and source positions, the same as without."""

import os
import signal
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
from spool_writer import SpoolWriter, kernel, native, python

from pyhybrid.capture.machine import boot_id
from pyhybrid.errors import PyhybridError
from pyhybrid.finish import finish, forked_work, name_prefetch
from pyhybrid.symbols import mapped, resolve, source_positions
from pyhybrid.symbols.kernel import KernelSymbols

# Of pytest-xdist's threads, which wait.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

PROGRAM = """
__attribute__((always_inline)) static inline void inner(void) { __asm__ volatile("nop\\nnop"); }
void outer(void)
{
    inner();
}
"""
KALLSYMS = """\
ffffffff81000000 T _text
ffffffff81000300 T ksys_read
ffffffff81400000 T _etext
"""
BASE = 0x7F0000000000
STEPS = "names", "kernel", "positions"


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a function with another one inlined, that calls the kernel; and of a library that is not
    there any more."""
    folder = tmp_path_factory.mktemp("prefetch")
    library = folder / "libouter.so"
    (folder / "outer.c").write_text(PROGRAM)
    run("gcc", "-shared", "-fPIC", "-O2", "-g", "-Wl,--build-id=sha1", "-o", library,
        folder / "outer.c")  # fmt: skip
    build_id = run("readelf", "-n", library).split("Build ID:")[1].split()[0]
    symbols = (line.split() for line in run("nm", "--defined-only", library).splitlines())
    outer = next(int(address, 16) for address, _, name in symbols if name == "outer")
    writer = SpoolWriter()
    writer.meta(boot_id=boot_id())
    writer.module(1, str(library), BASE, build_id=bytes.fromhex(build_id))
    writer.module(2, str(folder / "gone.so"), 2 * BASE)
    writer.code(1, "work", "/x/job.py", 4)
    writer.thread(1, 1, "python", "main")
    path = python(1, 1), native(2, 0x10), native(1, outer + 1)
    rows = [writer.stack(*path), writer.stack(*path, kernel(0xFFFFFFFF81000310))]
    writer.stacks()
    writer.samples(1, rows)
    writer.counters(1, 2, 2, cpu_ns=2_000_000)
    writer.end()
    return writer.save(folder / "out.pyhybrid.part")


class Machine:
    """Where the spool is finished: it notes which process looks what up, and may end the fork."""

    def __init__(self, folder: Path, spool: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kill_at = ""
        self._folder, self._spool = folder, spool
        self._log, self._this = folder / "looked_up", os.getpid()
        (folder / "kallsyms").write_text(KALLSYMS)
        load, demangle = resolve.default_loader()
        open_file, _ = source_positions.default_reader()

        def noted_load(path: str, build_id: str | None) -> resolve.Symbols:
            self._note("names")
            return load(path, build_id)

        def noted_open(path: str, build_id: str | None) -> source_positions.DebugInfo:
            self._note("positions")
            return open_file(path, build_id)

        def noted_kernel() -> KernelSymbols:
            self._note("kernel")
            return KernelSymbols(str(folder / "kallsyms"))

        monkeypatch.setattr(mapped, "default_loader", lambda: (noted_load, demangle))
        monkeypatch.setattr(name_prefetch, "default_reader", lambda limit: (noted_open, demangle))
        monkeypatch.setattr(resolve, "KernelSymbols", noted_kernel)

    def _note(self, what: str) -> None:
        in_fork = os.getpid() != self._this
        with self._log.open("a") as file:
            file.write(f"{'fork' if in_fork else 'this'} {what}\n")
        if in_fork and what == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def finish(self, name: str, capsys: pytest.CaptureFixture[str]) -> tuple[bytes, str, str]:
        """The profile, the folded stacks, and the summary."""
        prefix = self._folder / name
        self._log.unlink(missing_ok=True)
        assert finish.main(["--keep", "--summary", "-f", "folded", self._spool, str(prefix)]) == 0
        made = (prefix.with_suffix(suffix) for suffix in (".pyhybrid", ".folded"))
        profile, folded = (each.read_bytes() for each in made)
        return profile, folded.decode(), capsys.readouterr().err.replace(name, "NAME")

    def looked_up(self) -> list[str]:
        """At the last time, in order, each once."""
        return list(dict.fromkeys(self._log.read_text().splitlines()))


@pytest.fixture
def machine(spool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(forked_work, "_may_fork", lambda: True)
    monkeypatch.setattr(finish, "WORTH_A_PROCESS_BYTES", 1)
    return Machine(tmp_path, spool, monkeypatch)


@pytest.fixture
def alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[bytes, str, str]:
    """What one process makes."""
    with monkeypatch.context() as patched:
        patched.setattr(forked_work, "_may_fork", lambda: False)
        made = machine.finish("alone", capsys)
    assert machine.looked_up() == [f"this {step}" for step in STEPS]
    assert "outer;inner_[i];ksys_read_[k] 1" in made[1]
    assert b"gone.so: no names: No such file" in made[0]
    return made


def test_a_fork_finds_them(
    machine: Machine, alone: tuple[bytes, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What it cannot open is asked again, for the note."""
    assert machine.finish("forks", capsys) == alone
    done = machine.looked_up()
    assert [each for each in done if each.startswith("fork")] == [f"fork {each}" for each in STEPS]


@pytest.mark.parametrize("step", STEPS)
def test_a_fork_that_is_killed(
    step: str,
    machine: Machine,
    alone: tuple[bytes, str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine.kill_at = step
    assert machine.finish("forks", capsys) == alone
    done, lost = machine.looked_up(), STEPS[STEPS.index(step) :]
    assert [each for each in done if each.startswith("fork")] == [
        f"fork {each}" for each in STEPS[: STEPS.index(step) + 1]
    ]
    assert {f"this {each}" for each in lost} <= set(done)


def test_a_fork_that_is_refused(
    machine: Machine,
    alone: tuple[bytes, str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fork() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", fork)
    assert machine.finish("forks", capsys) == alone
    assert machine.looked_up() == [f"this {step}" for step in STEPS]


def test_a_short_run_is_worth_no_fork(
    machine: Machine,
    alone: tuple[bytes, str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(finish, "WORTH_A_PROCESS_BYTES", 1 << 20)
    assert machine.finish("small", capsys) == alone
    assert machine.looked_up() == [f"this {step}" for step in STEPS]


def test_without_the_extension_it_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> NoReturn:
        raise PyhybridError("native names cannot be looked up: no module")

    monkeypatch.setattr(mapped, "default_loader", missing)
    _, folded, summary = machine.finish("forks", capsys)
    assert "libouter.so_[nameless]" in folded.replace(" ", "_")
    assert "native names cannot be looked up" in summary

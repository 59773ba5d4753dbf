"""The children of a run, which are profiled with it: a folder of their spools, beside the run's.

A child never finishes what it has recorded: it leaves a spool in the folder, and the run's
finishing process makes one profile of all (finish/all_processes.py).  A forked child goes on in a
session of its own; a started one finds the folder by a variable, and begins where its interpreter
does (started.py).

Imports are few and light, and nothing here raises or prints in a child: it is the program's.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import sys
from binascii import a2b_base64, b2a_base64
from posix import getpid, getppid
from time import monotonic_ns, process_time_ns, time

from pyhybrid.base.light import suppress
from pyhybrid.capture.output_lock import Descriptor
from pyhybrid.errors import PyhybridError

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

FOLDER, PART = ".parts", ".part"  # the run's spool and this are PREFIX.pyhybrid and what follows
VARIABLE = "PYHYBRID_RUN"  # what started children are to do: Parts.run
MULTIPROCESSING = "multiprocessing"  # what a process that it spawns or serves runs
OWN_THREAD = "pyhybrid"  # the name of threads of ours
UNWANTED = "not chosen"  # why one is left out: --children names others
LEFT_OUT, TAKEN = "left-out", "taken"  # files in the folder, beside the spools
RENEWED_S = 1.0  # how long what the folder takes is believed

# What launchers give a process: its rank, that on its node, and how many there are.  The first one
# counts of which rank and size are set: srun may start torchrun, a job of Slurm's mpirun.
RANK_VARIABLES = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),  # torchrun, accelerate, DeepSpeed, Ray Train
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),  # MPICH, Intel MPI, PALS
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE"),  # jsrun
    ("FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"),  # flux run
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),  # srun; a batch script has no size
)
RECORDER = "recorder"  # of meta data: whose windows these are (capture/flight_recorder.py)
RANK_KEYS = "rank", "local_rank", "world_size"  # of the profile's meta data


class Parts:
    """Hold the folder of the spools of a run's children, beside the run's `spool` (`of_run`): the
    first of them makes it."""

    def __init__(self, spool: str, most_bytes: int) -> None:
        self.of_run, self._most_bytes = spool, most_bytes
        self.path = folder_beside(spool)

    def set_aside(self) -> None:
        """Set aside what children of a killed run have left there: it is FOLDER.old.  Raises
        OSError."""
        with suppress(FileNotFoundError):
            os.stat(self.path)
            old = f"{self.path}.old"
            with suppress(FileNotFoundError):
                for name in os.listdir(old):
                    os.unlink(os.path.join(old, name))
                os.rmdir(old)
            os.rename(self.path, old)

    def run(self, facts: dict[str, Any]) -> str:
        """Return the value of the variable: this, and what the run has found out."""
        text = marshal.dumps((self.of_run, self._most_bytes, facts))
        return f"{_version()}:{b2a_base64(text, newline=False).decode()}"

    def claim(self, pid: int | None = None) -> PartClaim:
        """Return a new spool for this process, or for another one.

        Raises OSError, PyhybridError where it has none: the run has ended, or there is no room.
        """
        os.stat(self.of_run)
        with suppress(FileExistsError):
            os.mkdir(self.path, 0o777)
        if self._most_bytes and self._taken_bytes() > self._most_bytes:
            self.leave_out("disk")
            raise PyhybridError("the children's spools take all that they may")
        return PartClaim(os.path.join(self.path, f"{pid or getpid()}-{monotonic_ns()}{PART}"))

    def leave_out(self, why: str) -> None:
        """Note that this process is not profiled."""
        line = f"{why}\t{' '.join(sys.orig_argv)}".replace("\n", " ")[:500]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with suppress(OSError):
            os.stat(self.of_run)
            with suppress(FileExistsError):
                os.mkdir(self.path, 0o777)
            file = os.open(os.path.join(self.path, LEFT_OUT), flags, 0o666)
            os.write(file, f"{line}\n".encode("utf-8", "replace"))
            os.close(file)

    def _taken_bytes(self) -> int:
        """Return what they take, as of a second ago at most: a file of that is all processes'."""
        path, now = os.path.join(self.path, TAKEN), time()
        with suppress(OSError):
            status = os.stat(path)
            if 0 <= now - status.st_mtime < RENEWED_S:
                return status.st_size  # (it is sparse)
        with suppress(OSError):
            with os.scandir(self.path) as entries:
                taken = sum(e.stat().st_size for e in entries if e.name.endswith(PART))
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.ftruncate(file, taken)
            os.utime(file)
            os.close(file)
            return taken
        return 0


class PartClaim:
    """Claim a child's spool, as output_lock.Claim claims a run's."""

    prefix = suffix = ""

    def __init__(self, spool: str) -> None:
        self.spool = spool
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(spool, flags, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._lock = Descriptor(file)

    @property
    def descriptor(self) -> int:
        """Return the file's, which has the lock; -1 once the program has closed it."""
        return self._lock.number

    def keep(self) -> None:
        """Move it out of the program's way.  Raises OSError."""
        self._lock.move()

    def close(self) -> None:
        """Close it: from now on whoever makes the profile may take the spool."""
        self._lock.close()

    def give_up(self) -> None:
        """Leave nothing."""
        with suppress(OSError):
            os.unlink(self.spool)
        self.close()


def _version() -> str:
    """Return what tells interpreters apart whose code is not alike."""
    return f"{sys.hexversion:x}-{sys.implementation.cache_tag}"


def named_run(text: str) -> tuple[Parts, dict[str, Any]] | None:
    """Return the folder and the run's facts, of the variable's value; None: it is that of another
    interpreter.  Raises whatever a wrong one leads to."""
    version, _, encoded = text.partition(":")
    if version != _version():
        return None
    spool, most_bytes, facts = marshal.loads(a2b_base64(encoded))
    return Parts(spool, most_bytes), facts


def folder_beside(spool: str) -> str:
    """Return the folder of the children of the run that has this spool."""
    return spool.removesuffix(PART) + FOLDER


# Options of the interpreter whose value is the next word.
_WITH_VALUES = ("-W", "-X", "--check-hash-based-pycs")


def program_of(argv: Sequence[str], executable: str | None = None) -> str:
    """Return the script or module of a command."""
    words = list(argv[1:])
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words = words[1 + (words[0] in _WITH_VALUES) :]
    if words[:1] == ["-m"] and len(words) > 1:
        return words[1]
    if words[:1] == ["-c"]:
        return MULTIPROCESSING if "multiprocessing.spawn" in "".join(words[1:2]) else "-c"
    return os.path.basename(words[0] if words else executable or "?")


def rank_of_several() -> int | None:
    """Return this process's rank among others that a launcher started; None: there are none."""
    known = ranks()
    return known["rank"] if known.get("world_size", 1) > 1 else None


def ranks(variables: Mapping[str, str] | None = None) -> dict[str, int]:
    """Return what a launcher gave this process, or one with these variables, by RANK_KEYS; empty:
    nothing."""
    if variables is None:
        variables = os.environ
    found = dict[str, int]()
    for names in RANK_VARIABLES:
        values = zip(RANK_KEYS, map(variables.get, names), strict=True)
        known = {key: int(text) for key, text in values if text and _is_number(text)}
        if {"rank", "world_size"} <= known.keys() and found.items() <= known.items():
            found = known  # or the same with the local one (srun gives MPICH's programs no other)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def identity(how: str) -> dict[str, Any]:
    """Return what a process is among those of its run, as meta data: `how` it began."""
    known: dict[str, Any] = {"how": how, "ppid": getppid(), "before_ns": process_time_ns()}
    known |= ranks()
    name = forked_name() if how == "fork" else ""
    return {**known, "name": name} if name else known


def forked_name() -> str:
    """Return the name of multiprocessing's that this child, which begins, will have; "": none."""
    with suppress(Exception):  # of whatever the program has put there
        frame: Any = sys._getframe()
        while frame is not None:
            code = frame.f_code
            if code.co_name == "_launch" and code.co_filename.endswith("popen_fork.py"):
                return str(frame.f_locals["process_obj"].name)
            frame = frame.f_back
    return ""


def await_name(write: Callable[[str], object]) -> None:
    """Call it with the name of multiprocessing's that a process of a fork server will have."""
    from multiprocessing import process, util

    class Named:
        """Is called for after multiprocessing has begun here."""

    named = Named()
    _kept.append(named)  # it is called while the object is there
    util.register_after_fork(named, lambda _: write(process.current_process().name))


_kept: list[object] = []


def current_name() -> str:
    """Return the name that multiprocessing has for this process; "": it has none."""
    module = sys.modules.get("multiprocessing.process")
    with suppress(Exception):
        process = module.current_process() if module else None
        if process is not None and process._parent_pid is not None:
            return str(process.name)
    return ""

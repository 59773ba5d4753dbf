"""Of a merged profile some processes: which are meant, and what they recorded of themselves."""

import json
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pyhybrid.errors import PyhybridError
from pyhybrid.merge import merged_meta
from pyhybrid.tables import Process
from pyhybrid.tables.profile import Profile

N_SHOWN = 8


def chosen_processes(profile: Profile, patterns: Sequence[str]) -> dict[int, Process]:
    """Return those of these names, which may be patterns of the shell; without any all of them.

    Raises PyhybridError for one that names none.
    """
    if not patterns:
        return profile.processes
    names = {key: set(_names(profile, process)) for key, process in profile.processes.items()}
    chosen = set()
    for pattern in patterns:
        of_pattern = {
            key for key, known in names.items() if any(fnmatchcase(n, pattern) for n in known)
        }
        if not of_pattern:
            there = [f"{each.pid} ({_program(each)})" for each in profile.processes.values()]
            shown = ", ".join(there[:N_SHOWN]) + (", ..." if len(there) > N_SHOWN else "")
            raise PyhybridError(f"{profile.path}: no process {pattern!r}; there are: {shown}")
        chosen |= of_pattern
    return {key: process for key, process in profile.processes.items() if key in chosen}


def _names(profile: Profile, process: Process) -> Iterator[str]:
    """Yield what a process is known by: pid, program, name in the kernel, command."""
    yield str(process.pid)
    yield _program(process)
    yield os.path.basename(process.executable or "")
    yield " ".join(process.argv)
    for thread in profile.threads.values():
        if thread.process == process.id and thread.tid == process.pid:
            yield thread.comm


def _program(process: Process) -> str:
    """Return its script or module."""
    words = process.argv[1:]
    if words[:1] == ["-m"] and len(words) > 1:
        return words[1]
    return os.path.basename(words[0] if words else process.executable or "?")


def meta_of(profile: Profile, processes: Sequence[int]) -> dict[str, Any]:
    """Return what these processes of a merged profile recorded of themselves."""
    metas: dict[int, dict[str, Any]] = {number: {} for number in processes}
    for number, key, value in profile.query("SELECT process, key, value FROM process_meta"):
        if number in metas:
            metas[number][key] = json.loads(value)
    return merged_meta([profile.meta | facts for facts in metas.values()])

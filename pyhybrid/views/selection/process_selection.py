"""Of a merged profile some processes: which are meant, and what they recorded of themselves."""

import json
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pyhybrid.capture.children import program_of
from pyhybrid.errors import PyhybridError
from pyhybrid.merge import merged_meta
from pyhybrid.tables import Process
from pyhybrid.tables.profile import Profile
from pyhybrid.views.processes import RANK, ProcessFigures, processes_of

N_SHOWN = 8


def chosen_processes(profile: Profile, patterns: Sequence[str]) -> dict[int, Process]:
    """Return those of these names, which may be patterns of the shell; without any all of them.

    Raises PyhybridError for one that names none.
    """
    if not patterns:
        return profile.processes
    names = {each.id: set(_names(profile, each)) - {""} for each in processes_of(profile)}
    chosen = set()
    for pattern in patterns:
        of_pattern = {
            key for key, known in names.items() if any(fnmatchcase(n, pattern) for n in known)
        }
        if not of_pattern:
            there = [f"{each.pid} ({each.name})" for each in processes_of(profile)]
            shown = ", ".join(there[:N_SHOWN]) + (", ..." if len(there) > N_SHOWN else "")
            raise PyhybridError(f"{profile.path}: no process {pattern!r}; there are: {shown}")
        chosen |= of_pattern
    return {key: process for key, process in profile.processes.items() if key in chosen}


def _names(profile: Profile, process: ProcessFigures) -> Iterator[str]:
    """Yield what a process is known by: pid, name, role, rank, program, command, the kernel's."""
    yield str(process.pid)
    yield process.name
    yield process.role
    yield "" if process.rank is None else f"{RANK}{process.rank}"
    row = profile.processes[process.id]
    yield program_of(row.argv, row.executable)
    yield os.path.basename(row.executable or "")
    yield " ".join(row.argv)
    for thread in profile.threads.values():
        if thread.process == process.id and thread.tid == process.pid:
            yield thread.comm


def meta_of(profile: Profile, processes: Sequence[int]) -> dict[str, Any]:
    """Return what these processes of a merged profile recorded of themselves."""
    metas: dict[int, dict[str, Any]] = {number: {} for number in processes}
    for number, key, value in profile.query("SELECT process, key, value FROM process_meta"):
        if number in metas:
            metas[number][key] = json.loads(value)
    return merged_meta([profile.meta | facts for facts in metas.values()])

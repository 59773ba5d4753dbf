"""The exact half as a file of the standard library's pstats, for snakeviz, gprof2dot and others.

Format: `marshal` of {(file, line, name): (primitive calls, calls, self s, total s, callers)},
callers {(file, line, name): (calls, primitive calls, self s, total s)} (CPython Lib/cProfile.py,
`snapshot_stats`).  As in cProfile each turn of a generator is a call, and a caller's figures are
those of the function when called by it; a C function (--c-calls) is ('~', 0, its name in Python).
Other than there, names are qualified, and it is a turn as well when an exception is thrown through
a generator to the one that it waits for.
"""

import marshal
from typing import BinaryIO

from pyhybrid.exporters import Exporter
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.imports import note_of_sums
from pyhybrid.views.calls.function_calls import ROOT, Tally, traced_calls

Key = tuple[str, int, str]
Figures = tuple[int, int, float, float]


class PStats(Exporter):
    """Write calls and times of the program's functions, all threads together."""

    name = "pstats"
    help = "exact calls and times for `python -m pstats`, snakeviz, gprof2dot"
    suffix = ".pstats"
    is_text = False
    min_time_ns = 0  # functions with a total below are part of their callers

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it; raises PyhybridError where nothing was traced."""
        marshal.dump(self.stats(profile), file)
        return note_of_sums(profile)

    def stats(
        self, profile: Profile
    ) -> dict[Key, tuple[int, int, float, float, dict[Key, Figures]]]:
        """Return what is written.  Frames that are the same to pstats are one function."""
        c_names = profile.c_names
        keys = {f.id: _key(f, c_names.get(f.id, f.name)) for f in profile.frames.values()}
        functions: dict[Key, Figures] = {}
        callers: dict[Key, dict[Key, Figures]] = {}
        for frame, function in traced_calls(profile, self.min_time_ns).items():
            key = keys[frame]
            _add(functions, key, function)
            by = callers.setdefault(key, {})
            for caller, tally in function.callers.items():
                if caller != ROOT:
                    _add(by, keys[caller], tally)
        return {
            key: (primitive, calls, self_s, total_s, callers[key])
            for key, (calls, primitive, self_s, total_s) in functions.items()
        }


def _key(frame: Frame, name: str) -> Key:
    """Return it as pstats knows a function; `~` is the file of what has none."""
    return _text(frame.file or "~"), frame.line or 0, _text(name)


def _text(name: str) -> str:
    """Return it printable: readers write the names to streams that refuse lone surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()


def _add(figures: dict[Key, Figures], key: Key, tally: Tally) -> None:
    calls, primitive, self_s, total_s = figures.get(key, (0, 0, 0.0, 0.0))
    figures[key] = (
        calls + tally.turns,
        primitive + tally.outer_turns,
        self_s + tally.self_ns / 1e9,
        total_s + tally.total_ns / 1e9,
    )

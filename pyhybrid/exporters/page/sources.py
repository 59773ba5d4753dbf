"""The source text that the page has: the program's own files, and of libraries what is hot."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pyhybrid.base.name_patterns import is_librarys
from pyhybrid.report.source_text import Source, Sources
from pyhybrid.tables.profile import Profile
from pyhybrid.views.lines.python_lines import function_lines

AROUND = 12  # lines before and after a hot one of a library
HOT = 0.001  # share of the samples, from which on a library's line is
MAX_LINES = 20_000  # of a file
MAX_CHARACTERS = 2_000_000  # of all


def sources(
    profile: Profile, by_line: Counter[tuple[str, int]], others: Mapping[str, str]
) -> tuple[list[Any], list[str]]:
    """What the page knows of each file, and its text, those with most samples first.

    Of a file: path, note, is it a library's, and [first, last] of the runs of lines that its text
    has.  `others`: the text of what has no file.
    """
    files = Sources(profile.meta)
    least = HOT * sum(row.weight_ns for row in profile.sampled) / profile.period_ns
    weights: Counter[str] = Counter()
    hot: defaultdict[str, set[int]] = defaultdict(set)
    for (file, line), n in by_line.items():
        weights[file] = max(weights[file], n)
        if n >= least:
            hot[file].add(line)
    recorded = {each.file for each in function_lines(profile)}
    known, texts, room = [], [], MAX_CHARACTERS
    for file in [*recorded, *(file for file, _ in weights.most_common() if file not in recorded)]:
        wanted: Iterable[int] = range(1, MAX_LINES)
        is_foreign = file not in others and is_librarys(file)
        if file not in recorded and is_foreign:
            wanted = {at for line in hot[file] for at in range(line - AROUND, line + AROUND + 1)}
        if not wanted:
            continue
        if file in others:
            source = Source(dict(enumerate(others[file].split("\n"), 1)), "")
        else:
            source = files.lines(file, wanted)
        text = "\n".join(source.lines[line] for line in sorted(source.lines))
        if source.lines and len(text) <= room:
            room -= len(text)
            what = {"file": file, "note": source.note, "library": is_foreign}
            known.append({**what, "runs": _runs(source.lines)})
            texts.append(text)
    return known, texts


def _runs(lines: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for line in sorted(lines):
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs

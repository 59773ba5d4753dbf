"""Readers of what `perf script` prints: stackcollapse, and importers that go by its lines.

Two stackcollapses are stock: FlameGraph's stackcollapse-perf.pl, where it is on PATH (or
$STACKCOLLAPSE), and perf's own, `perf script report stackcollapse`.  Between their stacks and
ours lie, by design: names of Python functions (perf has no parentheses and whole paths), blanks
in threads' names, versions of symbols (`clock_gettime@@GLIBC_2.17`), other names of one address,
names that are no symbols' (a stripped interpreter's functions, by the methods they are), and the
frames that folded stacks leave out (exporters/folded.py), which are in perf.data.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from perf_support import (
    CLOCK_ONLY,
    frames_of,
    perf,
    perf_name,
    sampled,
)

from pyhybrid.base.pseudo_frames import INTERPRETER
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.imports import imports_of
from pyhybrid.views.labels import Labels

pytestmark = pytest.mark.needs("perf")

STACKCOLLAPSE = os.environ.get("STACKCOLLAPSE") or shutil.which("stackcollapse-perf.pl")


BY_SYMBOL = ("symtab", "dynsym", "debug file", "kallsyms")


def comparable(name: str) -> str:
    """A native function's name without what perf and we write differently.

    (An ordinary user's perf does not find the vdso's names.)
    """
    if name.startswith(("[", "__vdso_")) or "!" in name or name.endswith("@plt"):
        return "unnamed"
    return name.split("@")[0].removeprefix("__GI_").split("(")[0]


def is_own(frame: Frame) -> bool:
    return frame.kind not in ("native", "kernel")


def native_name(frame: Frame) -> str:
    """What of a native function's name perf has: nothing where no symbol says it."""
    return comparable(frame.name) if frame.source in BY_SYMBOL else "unnamed"


def perfs_thread(name: str) -> str:
    """stackcollapse-perf.pl takes the first number after a blank for the tid."""
    return re.sub(r" \d+( .*)?$", "", name).replace(" ", "_")


def folded_of_paths(profile: Profile) -> tuple[dict[tuple[str, ...], str], set[str]]:
    """What our exporter writes of each sampled path, by the thread and the names that perf has;
    and those that an import statement ran."""
    tree, labels = FoldedTree.of(profile), Labels(profile).of_frame
    folded, imported, where = {}, set(), imports_of(profile).where
    for row in profile.sampled:
        thread = profile.threads[row.thread].name
        frames = frames_of(profile, row.stack)[::-1]
        path = [perf_name(f) if is_own(f) else native_name(f) for f in frames]
        names = [labels[f] for f in tree.path(tree.of_node[profile.stacks.node[row.stack]])]
        names = names or [INTERPRETER]
        key = (perfs_thread(thread), *path)
        folded[key] = ";".join((thread, *(n.replace(";", ":") for n in names)))
        if where[profile.stacks.node[row.stack]]:
            imported.add(folded[key])
    return folded, imported


def perfs_own(folder: Path) -> str:
    return perf(folder, "script", "report", "stackcollapse", "--no-inline", *CLOCK_ONLY)


def flamegraphs(folder: Path) -> str:
    text = perf(folder, "script", "--no-inline")
    command = ["perl", str(STACKCOLLAPSE)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("collapse", [perfs_own, *([flamegraphs] if STACKCOLLAPSE else [])])
def test_stackcollapse(
    perfed: Path, profile: Profile, tmp_path: Path, collapse: Callable[[Path], str]
) -> None:
    """The same stacks and counts as `pyhybrid export -f folded` writes."""
    folded_of, imported = folded_of_paths(profile)
    own = {perf_name(frame) for frame in profile.frames.values() if is_own(frame)}
    unit = profile.period_ns if collapse is flamegraphs else 1  # perf's own counts samples
    found: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for line in collapse(perfed).splitlines():
        stack, count = line.rsplit(" ", 1)
        thread, *names = stack.split(";")
        path = (
            perfs_thread(thread.replace("_", " ")),
            *(n if n in own else comparable(n) for n in names),
        )
        target = found if path in folded_of else unknown
        target[folded_of.get(path, ";".join(path))] += int(count) // unit
    exporter = Folded()
    exporter.full_names = True
    export_to(exporter, profile, str(tmp_path / "out.folded"))
    lines = (line.rsplit(" ", 1) for line in (tmp_path / "out.folded").read_text().splitlines())
    ours = Counter({stack: int(count) for stack, count in lines})
    assert unknown.total() <= 0.02 * ours.total(), unknown
    # What imports run is one frame there: on a busy machine it may be any part of the whole.
    apart = [stack for stack in found if stack not in ours]
    assert set(apart) <= imported, set(apart) - imported
    if collapse is perfs_own:  # without weights
        assert found.total() + unknown.total() == sum(row.samples for row in profile.sampled)
        found = Counter({stack: ours[stack] for stack in found})
    missing = Counter({stack: n for stack, n in (ours - found).items() if "[import " not in stack})
    assert missing.total() <= 0.02 * ours.total(), missing


def read_head(line: str) -> tuple[str, int, str]:
    """Thread, tid and time: the last number with a colon is the time, the last one before it
    (behind the pid and a slash, if that is printed) is the tid, and all before that the name."""
    words = line.split(" ")
    (time,) = [n for n, word in enumerate(words) if re.fullmatch(r"[0-9]+\.[0-9]+:", word)][-1:]
    tid = [n for n in range(time) if re.fullmatch("([0-9]+/)?[0-9]+", words[n])][-1]
    name = " ".join(words[:tid]).strip()
    return name, int(words[tid].split("/")[-1]), words[time].removesuffix(":")


def read_frame(line: str) -> tuple[str, str]:
    """Symbol without offset and file: what stands behind the address, and in the last
    parentheses, where it may not have blanks."""
    address, text = line.split(maxsplit=1)
    assert re.fullmatch("[0-9a-f]+", address), line
    symbol, _, file = text.rpartition(" (")
    assert file.endswith(")"), line
    assert " " not in file, line
    return re.sub(r"\+0x[0-9a-f]+$", "", symbol), file[:-1]


@pytest.mark.further
@pytest.mark.parametrize("fields", [(), ("-F", "+pid")])
def test_importers(perfed: Path, profile: Profile, fields: tuple[str, ...]) -> None:
    """As Firefox Profiler's importer documents what it reads (linux-perf.js there).

    Hotspot has no importer of this text, but reads perf.data itself.
    """
    expected, names = sampled(profile), {t.tid: t.name for t in profile.threads.values()}
    seen: Counter[str] = Counter()
    text = perf(perfed, "script", "--no-inline", *CLOCK_ONLY, *fields)
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    assert len(blocks) == len(expected)
    for head, *lines in blocks:
        thread, tid, time = read_head(head)
        assert names[tid] == thread
        _, frames = expected[tid, time]
        assert len(lines) == len(frames)
        for line, ours in zip(lines, frames, strict=True):
            symbol, file = read_frame(line)
            if is_own(ours):
                assert symbol == perf_name(ours)
                assert not symbol.startswith("(")  # these lines are taken for no frames
                seen[symbol] += 1
            in_kernel = "kallsyms" in file or file.endswith(".ko") or file.startswith("[kernel")
            assert in_kernel == (ours.kind == "kernel" and ours.symbol is not None), line
    assert any(symbol.startswith("py::Odd.work [of [k]] <x>: y:/") for symbol in seen)
    assert seen["[an epoch [of 2]]"]

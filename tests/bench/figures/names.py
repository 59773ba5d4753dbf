"""How many native frames of a PyTorch training have a name, and whether it is the right one.

One run's spool is finished several times: with all files as they are installed, with a libtorch_cpu
and a libtorch_python that are stripped to `.dynsym`, and without libc's debug package.  The samples
are the same; only the files differ in which names are sought.
"""

from __future__ import annotations

import subprocess
import tempfile
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from elf_functions import Function, functions
from method import Figure, profiled, row, run

from figures.training import TRAIN
from pyhybrid._symbolize import ElfSymbols, demangle
from pyhybrid.assemble import open_profile
from pyhybrid.report.quality import NAMED, quality_report
from pyhybrid.symbols.resolve import Loader
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile

KEPT_SPOOL = str(Path(__file__).parents[1] / "workloads" / "kept_spool.py")
HZ = "999"
STRIPPED = ("libtorch_cpu.so", "libtorch_python.so")
TRAINING = ("libtorch", "libc10", "libgomp", "libpython", "python3")  # how their files begin
STARTS = {"clone3", "start_thread", "libc_start_call_main"}  # of threads and of the process
N_HOTTEST = 50
EARLIER = 64  # symbols: how far before those that start last one is sought that holds an address
BY_OBJECT = ("exported data", "method table")  # names that are no symbol of the function

Variant = dict[str, Any]


class Module(NamedTuple):
    path: str
    build_id: str | None


def strip_copies(folder: Path, profile: Profile) -> dict[str, str]:
    """Stripped copies of the libraries in STRIPPED, by the path of the original."""
    copies = {}
    for path in {module.path for module in profile.modules.values()}:
        if Path(path).name in STRIPPED:
            copies[path] = str(folder / Path(path).name)
            subprocess.run(["strip", "--strip-all", "-o", copies[path], path], check=True)
    if len(copies) != len(STRIPPED):
        raise FileNotFoundError(f"{STRIPPED}: not loaded by {TRAIN}")
    return copies


def instead(copies: dict[str, str]) -> Loader:
    """The loader that reads copies; a stripped file has no debug package."""

    def load(path: str, build_id: str | None) -> ElfSymbols:
        if path in copies:
            return ElfSymbols(copies[path], build_id, "")
        return ElfSymbols(path, build_id)

    return load


def without_debug_files(path: str, build_id: str | None) -> ElfSymbols:
    return ElfSymbols(path, build_id, "")


class Truth:
    """The functions of each file by readelf, read when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sorted: dict[Module, list[Function]] = {}

    def at(self, module: Module, start: int) -> list[Function]:
        """The functions that begin there."""
        known = self._functions(module)
        first = bisect_left(known, start, key=lambda each: each.start)
        return known[first : bisect_right(known, start, key=lambda each: each.start)]

    def around(self, module: Module, address: int) -> list[Function]:
        """The functions that hold the address; one without a size ends where the next begins."""
        known = self._functions(module)
        end = bisect_right(known, address, key=lambda each: each.start)
        last = known[end - 1].start if end else 0
        first = bisect_left(known, last, key=lambda each: each.start)
        return [
            each
            for each in known[max(0, first - EARLIER) : end]
            if each.start + each.size > address or (each.start == last and not each.size)
        ]

    def _functions(self, module: Module) -> list[Function]:
        if module not in self._sorted:
            path, build_id = module
            self._sorted[module] = sorted(functions(Path(path), build_id, self._folder))
        return self._sorted[module]


def module_of(profile: Profile, frame: Frame) -> Module | None:
    module = profile.modules.get(frame.module or 0)
    return Module(module.path, module.build_id) if module else None


def frame_weights(profile: Profile) -> Counter[int]:
    """By frame: the weight of the samples, once for each time that it stands in their stack."""
    nodes = profile.nodes
    weights = [0] * len(nodes.parent)
    for sampled in profile.sampled:
        weights[profile.stacks.node[sampled.stack]] += sampled.weight_ns
    found: Counter[int] = Counter()
    for node in range(len(weights) - 1, 0, -1):
        weights[nodes.parent[node]] += weights[node]
        found[nodes.frame[node]] += weights[node]
    return found


def share(profile: Profile, chosen: Callable[[Frame, str], bool]) -> float:
    """In % of the weight of the chosen frames (of a file of this name): those that have a name."""
    named = total = 0
    for number, weight in frame_weights(profile).items():
        frame = profile.frames[number]
        if frame.kind != "native" or not frame.module:
            continue
        if chosen(frame, Path(profile.modules[frame.module].path).name):
            total += weight
            named += weight if frame.source in NAMED else 0
    return 100 * named / total


def of_library(*beginnings: str) -> Callable[[Frame, str], bool]:
    return lambda frame, library: library.startswith(beginnings)


def is_wrong(frame: Frame, module: Module, address: int, truth: Truth) -> bool:
    """Whether no function of the frame's name holds this address of its file.

    A name by an object cannot be compared: there some function must begin where the frame's does,
    if one is known to hold the address at all.
    """
    there = truth.around(module, address)
    if frame.source in BY_OBJECT:
        return bool(there) and all(each.start != frame.address for each in there)
    name = (frame.symbol or "").lstrip("_")
    return all(each.name.lstrip("_") != name for each in there)


def wrong_names(profile: Profile, truth: Truth) -> list[str]:
    """The names of distinct addresses that were sampled, where they are wrong."""
    nodes, stacks = profile.nodes, profile.stacks
    places = {
        (nodes.frame[node], address)
        for node, address in zip(stacks.node, stacks.address, strict=True)
        if node and address is not None
    }
    wrong = []
    for number, address in places:
        frame = profile.frames[number]
        module = module_of(profile, frame)
        if not module or not module.path.startswith("/") or frame.source not in NAMED:
            continue
        place = address - profile.modules[frame.module or 0].base
        if is_wrong(frame, module, place, truth):
            wrong.append(f"{frame.name} ({module.path}+{place:#x})")
    return wrong


def hottest(profile: Profile, library: str, truth: Truth) -> list[str]:
    """Of the hottest functions of a library: the real names of those that got none."""
    nameless, seen = [], 0
    for number, _ in frame_weights(profile).most_common():
        frame = profile.frames[number]
        module = module_of(profile, frame)
        if not module or Path(module.path).name != library or seen == N_HOTTEST:
            continue
        seen += 1
        if frame.source not in NAMED and frame.address is not None:
            symbols = truth.at(module, frame.address)
            nameless.append(demangle(symbols[0].name) if symbols else frame.name)
    return nameless


def installed(spool: str, truth: Truth) -> Variant:
    with open_profile(spool) as profile:
        sources = next(
            each.by_source for each in quality_report(profile).modules if each.module == "libc.so.6"
        )
        return {
            "all": share(profile, of_library("")),
            "training": share(profile, of_library(*TRAINING)),
            "libtorch_cpu": share(profile, of_library("libtorch_cpu")),
            "libtorch_python": share(profile, of_library("libtorch_python")),
            "libgomp": share(profile, of_library("libgomp")),
            "libpython": share(profile, of_library("libpython", "python3")),
            "libc": share(profile, of_library("libc.so")),
            "libc has its debug package": "debug file" in sources,
            "wrong": wrong_names(profile, truth),
        }


def stripped(spool: str, copies: dict[str, str], truth: Truth) -> Variant:
    with open_profile(spool, (instead(copies), demangle)) as profile:
        return {
            "libtorch_cpu": share(profile, of_library("libtorch_cpu")),
            "libtorch_python": share(profile, of_library("libtorch_python")),
            "nameless": hottest(profile, "libtorch_python.so", truth),
            "wrong": wrong_names(profile, truth),
        }


def without_debug_package(spool: str, truth: Truth) -> Variant:
    def starts(frame: Frame, library: str) -> bool:
        module = module_of(profile, frame)
        if not library.startswith("libc.so") or not module or frame.address is None:
            return False
        return any(each.name.lstrip("_") in STARTS for each in truth.at(module, frame.address))

    with open_profile(spool, (without_debug_files, demangle)) as profile:
        return {
            "libc": share(profile, of_library("libc.so")),
            "starts": share(profile, starts),
            "wrong": wrong_names(profile, truth),
        }


def one_round(folder: Path) -> dict[str, Variant]:
    spool = folder / "kept.part"
    spool.unlink(missing_ok=True)
    options = ["--mode", "sample", "--hz", HZ, "--format", "folded"]
    run(profiled(KEPT_SPOOL, str(spool), TRAIN, "--epochs", "1", options=options), folder)
    truth = Truth(folder)
    with open_profile(str(spool)) as profile:
        copies = strip_copies(folder, profile)
    return {
        "installed": installed(str(spool), truth),
        "stripped": stripped(str(spool), copies, truth),
        "without_debug_package": without_debug_package(str(spool), truth),
    }


def measure(pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        rounds = [one_round(Path(name)) for _ in range(min(pairs, 3))]

    def shares(variant: str, what: str) -> list[float]:
        return [float(each[variant][what]) for each in rounds]

    def counts(variant: str, what: str) -> list[float]:
        return [float(len(each[variant][what])) for each in rounds]

    has_package = all(shares("installed", "libc has its debug package"))
    plain, bare_libc = "installed", "without_debug_package"
    rows = [
        row("torch, gomp and libpython", "%", shares(plain, "training"), ">= 99.5"),
        row("libtorch_cpu", "%", shares(plain, "libtorch_cpu")),
        row("libtorch_python", "%", shares(plain, "libtorch_python")),
        row("libgomp", "%", shares(plain, "libgomp")),
        row("libpython", "%", shares(plain, "libpython")),
        row("all libraries", "%", shares(plain, "all")),
        row("libtorch_cpu, stripped", "%", shares("stripped", "libtorch_cpu")),
        row("libtorch_python, stripped", "%", shares("stripped", "libtorch_python"), ">= 60"),
        row(
            f"of its {N_HOTTEST} hottest functions, without a name",
            "",
            counts("stripped", "nameless"),
        ),
        row("libc without its debug package", "%", shares(bare_libc, "libc")),
        row("its starts of process and threads", "%", shares(bare_libc, "starts"), ">= 100"),
        row("wrong names", "", counts(plain, "wrong"), "<= 0"),
        row("wrong names, stripped", "", counts("stripped", "wrong"), "<= 0"),
        row("wrong names, without debug package", "", counts(bare_libc, "wrong"), "<= 0"),
    ]
    if has_package:
        rows.insert(9, row("libc with its debug package", "%", shares(plain, "libc"), ">= 100"))
    return [Figure("names", "Native frames of examples/train.py with a name", rows, rounds)]

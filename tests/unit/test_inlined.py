"""Inlined functions as frames: where a chain is put in, where not, and what stays as it was."""

import errno
import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, NoReturn

import pytest
from spool_writer import SpoolWriter, c_call, native, python

from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.folded import Folded
from pyhybrid.report.line_listing import print_lines
from pyhybrid.report.tree import tree_lines
from pyhybrid.symbols.resolve import Symbol
from pyhybrid.symbols.source_positions import DebugFiles, Position, SourceFunction
from pyhybrid.tables import Place
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.inlined import with_inlined
from pyhybrid.views.labels import Labels
from pyhybrid.views.lines.native_lines import native_lines
from pyhybrid.views.selection.frames_of_kind import NATIVE_ONLY, PYTHON_ONLY
from pyhybrid.views.selection.sample_selection import Choice, choose

FAST, OTHER, PLAIN = "/opt/libfast.so", "/opt/libother.so", "/opt/libplain.so"
PYTHON = "/opt/libpython3.12.so"
BASE, BASE_AGAIN = 0x7F0000000000, 0x7F8000000000
OUTER = SourceFunction("_Zouter", "/src/fast.cc", 10)
HELPER = SourceFunction("_Zhelper", "/src/fast.h", 5)
INNER = SourceFunction("_Zinner", "/src/fast.h", 20)
INVOKE = SourceFunction("_Zstd::_Function_handler<int (int)>::_M_invoke", "functional", 90)
DECREF = SourceFunction("Py_DECREF", "/usr/include/python3.12/object.h", 700)

SYMBOLS: dict[str, list[Symbol]] = {
    FAST: [
        ("_Zouter", 0x100, 0x100, "symtab"),
        ("_Zstd::_Function_handler<int (int)>::_M_invoke", 0x400, 0x100, "symtab"),
    ],
    OTHER: [("other", 0x100, 0x100, "symtab")],
    PLAIN: [("plain", 0x100, 0x100, "symtab")],
    PYTHON: [("cfunction_call", 0x100, 0x100, "symtab")],
}
POSITIONS: dict[str, dict[int, Position]] = {
    FAST: {
        0x100: ("/src/fast.cc", 10, [(INNER, "/src/fast.cc", 10)], OUTER),
        0x110: ("/src/fast.cc", 11, [], OUTER),
        0x120: (
            "/src/fast.h",
            21,
            [(INNER, "/src/fast.h", 6), (HELPER, "/src/fast.cc", 12)],
            OUTER,
        ),
        0x130: ("/src/fast.h", 7, [(HELPER, "/src/fast.cc", 13)], OUTER),
        0x140: ("/src/fast.h", 7, [(HELPER, "/src/fast.cc", 14), (OUTER, "?", 1)], OUTER),
        0x150: ("/usr/include/python3.12/object.h", 701, [(DECREF, "/src/fast.cc", 15)], OUTER),
        0x410: ("/src/fast.h", 7, [(HELPER, "functional", 91)], INVOKE),
        0x420: ("functional", 95, [], INVOKE),
        0x510: ("/src/fast.cc", 51, [], SourceFunction("_Zfive", "/src/fast.cc", 50)),
        0x310: ("/src/fast.cc", 31, [], SourceFunction("_Znameless", "/src/fast.cc", 30)),
    },
    OTHER: {},
}


class FakeSymbols:
    """Stands for `_symbolize.ElfSymbols`, over the table above."""

    def __init__(self, path: str, build_id: str | None) -> None:
        self._symbols = SYMBOLS[path]

    def resolve(self, addresses: list[int]) -> list[Symbol | None]:
        return [
            next((s for s in self._symbols if s[1] <= address < s[1] + s[2]), None)
            for address in addresses
        ]


class FakeDebugInfo:
    """Stands for `_symbolize.DwarfLines`, over the table above."""

    asked: ClassVar[Counter[str]] = Counter()
    opened: ClassVar[list[str]] = []

    def __init__(self, path: str, build_id: str | None) -> None:
        self.opened.append(path)
        if path not in POSITIONS:
            raise OSError(errno.ENODATA, "No data available", path)
        self._path = path

    def resolve(self, addresses: list[int]) -> list[Position | None]:
        self.asked[self._path] += 1
        return [POSITIONS[self._path].get(address) for address in addresses]


def demangle(name: str) -> str:
    return name.removeprefix("_Z") + "(int)" * name.startswith("_Z")


READER = (FakeDebugInfo, demangle)
MAIN, CALLED = python(1, 0), python(2, 0)


def at(address: int, module: int = 1) -> int:
    return native(module, address)


def spool(*stacks: tuple[int, ...], mode: str = "sample") -> SpoolWriter:
    """One sample of each stack."""
    writer = SpoolWriter()
    writer.meta(mode=mode)
    for number, path, base in (
        *((1, FAST, BASE), (2, OTHER, BASE + 0x10000000), (3, PLAIN, BASE + 0x20000000)),
        *((4, FAST, BASE_AGAIN), (5, PYTHON, BASE + 0x30000000)),
    ):
        writer.module(number, path, base)
    writer.code(1, "main", "a.py", 1)
    writer.code(2, "called", "a.py", 9)
    writer.thread(1, 4242, "python", "T")
    ids = [writer.stack(*words) for words in stacks]
    writer.functions({at(0x310): at(0x300)})
    writer.stacks()
    if ids:
        writer.samples(1, ids)
    writer.counters(1, len(ids), len(ids))
    if mode == "sample":
        writer.end()
    return writer


Opened = Callable[[SpoolWriter], Profile]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    profiles = []

    def profile_of(writer: SpoolWriter) -> Profile:
        symbols = (FakeSymbols, demangle)
        profiles.append(open_profile(writer.save(tmp_path / "x.part"), symbols))
        return profiles[-1]

    yield profile_of
    for profile in profiles:
        profile.close()


def folded(profile: Profile) -> list[str]:
    labels = Labels(profile, full_names=False).of_frame
    lines = Folded().lines(profile, FoldedTree(profile), labels)
    return [line.removeprefix("T;").replace(" (a.py:1)", "").replace(" (a.py:9)", "")
            for line in lines]  # fmt: skip


def expanded(profile: Profile) -> Profile:
    in_source, notes = with_inlined(profile, reader=READER)
    assert notes == []
    assert in_source is not profile
    return in_source


def test_a_chain_stands_for_an_address(opened: Opened) -> None:
    stacks = [(MAIN, at(0x110)), (MAIN, at(0x120)), (MAIN, at(0x130)), (MAIN, at(0x130))]
    profile = opened(spool(*stacks))
    assert folded(profile) == ["main;outer 4"]
    assert folded(expanded(profile)) == [
        "main;outer 1",
        "main;outer;helper_[i] 2",
        "main;outer;helper_[i];inner_[i] 1",
    ]
    assert folded(profile) == ["main;outer 4"]  # as it was


def test_what_an_inlined_function_calls_is_below_it(opened: Opened) -> None:
    below = (at(0x110, module=3), CALLED, at(0x130))
    profile = opened(spool((MAIN, at(0x120), *below), (MAIN, at(0x110), *below)))
    assert folded(expanded(profile)) == [
        "main;outer;helper_[i];inner_[i];plain;called;outer;helper_[i] 1",
        "main;outer;plain;called;outer;helper_[i] 1",
    ]


def test_the_tables_stay_trees(opened: Opened) -> None:
    profile = opened(spool((MAIN, at(0x120), CALLED, at(0x130)), (MAIN, at(0x110), CALLED)))
    in_source = expanded(profile)
    n = len(profile.nodes.parent)
    assert in_source.nodes.parent[:n] == profile.nodes.parent
    assert in_source.nodes.frame[:n] == profile.nodes.frame
    assert all(parent < node for node, parent in enumerate(in_source.nodes.parent) if node)
    assert in_source.stacks.address == profile.stacks.address
    assert in_source.sampled == profile.sampled


def test_a_function_start_is_no_place(opened: Opened) -> None:
    """The exact half's paths have functions only."""
    profile = opened(spool((MAIN, at(0x100), CALLED), (MAIN, at(0x120))))
    assert folded(expanded(profile)) == [
        "main;outer;called 1",
        "main;outer;helper_[i];inner_[i] 1",
    ]


OF_HELPER, OF_INNER = "main;outer;helper_[i];called", "main;outer;helper_[i];inner_[i];called"


@pytest.mark.parametrize(
    ("sampled", "counted", "above"),
    [
        ([0x120], [0x120], [OF_INNER]),
        ([0x130], [0x130], [OF_HELPER]),
        ([0x110], [0x110], ["main;outer;called"]),
        ([0x120], [0x120, 0x130], ["main;outer;called"]),
        ([0x120, 0x130], [0x120, 0x130], ["main;outer;called"]),
        ([0x120], [0x100], ["main;outer;called"]),  # a recursion's: it has functions alone
    ],
)
def test_both_halves_keep_one_path(
    opened: Opened, sampled: list[int], counted: list[int], above: list[str]
) -> None:
    """Above a function that was counted there is a chain where all its calls came from there."""
    writer = spool(*((MAIN, at(each), CALLED, at(0x130)) for each in sampled), mode="hybrid")
    writer.clock(1000, 500)
    writer.exact_thread(1, 4242)
    nodes = [(1 + 2 * i + j, word) for i, each in enumerate(counted)
             for j, word in enumerate((at(each), CALLED))]  # fmt: skip
    nodes = [(1 if n % 2 else n, word) for n, word in nodes]
    writer.exact_nodes(1, 1, (0, MAIN), *nodes)
    calls = ({"node": 3 + 2 * i, "calls": 5, "ticks": 8} for i in range(len(counted)))
    writer.exact_counts(1, {"node": 1, "calls": 1, "ticks": 9}, *calls)
    writer.clock(4001000, 2000500)
    writer.end()
    profile = expanded(opened(writer))
    assert folded(profile) == [f"{path};outer;helper_[i] {len(sampled)}" for path in above]
    (line,) = (line for line in tree_lines(profile) if "called" in line)
    assert line.split()[2:5] == [str(5 * len(counted)), "100.0%", "called"]


def test_a_node_that_is_not_below_the_row_above(opened: Opened) -> None:
    """A C function whose calls were counted is a child of its Python caller."""
    rows = (MAIN, at(0x120), CALLED, at(0x110, module=5), at(0x110, module=3))
    writer = spool(rows, mode="hybrid")
    writer.exact_thread(1, 4242)
    writer.exact_nodes(1, 1, (0, MAIN), (1, at(0x100)), (2, CALLED), (3, c_call(3, 0x100)))
    writer.exact_counts(1, *({"node": node, "calls": 1, "ticks": 9} for node in (1, 3, 4)))
    writer.end()
    in_a_window, _ = choose(opened(writer), Choice(begin_ns=1))
    in_source = expanded(in_a_window)
    path = FoldedTree(in_source).path(FoldedTree(in_source).of_node[in_source.stacks.node[-1]])
    names = [in_source.frames[frame].name for frame in path]
    assert names == ["main", "outer(int)", "helper(int)", "inner(int)", "called", "plain"]
    node = in_source.stacks.node[-1]
    assert in_source.frames[in_source.nodes.frame[in_source.nodes.parent[node]]].name == "called"


def test_a_library_that_was_loaded_twice(opened: Opened) -> None:
    profile = opened(spool((MAIN, at(0x130)), (MAIN, at(0x130, module=4))))
    assert folded(expanded(profile)) == ["main;outer;helper_[i] 2"]


def test_a_part_of_a_function_is_not_inlined_into_it(opened: Opened) -> None:
    in_source = expanded(opened(spool((MAIN, at(0x140)))))
    assert folded(in_source) == ["main;outer;helper_[i] 1"]
    ((outer, helper),) = in_source.places.values()
    assert outer[1:] == ("/src/fast.cc", 14)
    assert helper == Place(helper.frame, "/src/fast.h", 7)


def test_what_pythons_headers_inline_is_folded(opened: Opened) -> None:
    in_source = expanded(opened(spool((MAIN, at(0x150)))))
    assert folded(in_source) == ["main;outer 1"]
    assert any(frame.name == "Py_DECREF" for frame in in_source.frames.values())


def test_what_a_wrapper_inlines_stays(opened: Opened) -> None:
    profile = opened(spool((MAIN, at(0x410))))
    assert folded(profile) == ["main 1"]
    assert folded(expanded(profile)) == ["main;helper_[i] 1"]


def test_a_function_without_a_symbol_gets_its_name(opened: Opened) -> None:
    profile = opened(spool((MAIN, at(0x310))))
    assert folded(profile) == ["main;libfast.so [nameless] 1"]
    assert folded(expanded(profile)) == ["main;nameless 1"]


def test_what_has_no_known_start_has_no_name(opened: Opened) -> None:
    """All such addresses of a library are one frame, with debug information or without."""
    profile = opened(spool((MAIN, at(0x510)), (MAIN, at(0x610))))
    assert folded(expanded(profile)) == ["main;libfast.so [nameless] 2"]


def test_files_are_asked_once_and_only_those_that_were_hit(opened: Opened) -> None:
    stacks = [(MAIN, at(0x110)), (MAIN, at(0x120), at(0x110, 3)), (MAIN, at(0x110), at(0x130))]
    FakeDebugInfo.asked.clear()
    expanded(opened(spool(*stacks)))
    assert FakeDebugInfo.asked == {FAST: 1}
    profile = opened(spool((MAIN, at(0x110, module=3)), (MAIN,)))
    assert with_inlined(profile, reader=READER) == (profile, [])
    assert FakeDebugInfo.asked == {FAST: 1}


def test_no_file_is_opened_that_no_row_needs(opened: Opened) -> None:
    FakeDebugInfo.opened.clear()
    expanded(opened(spool((MAIN, at(0x100, module=3), CALLED, at(0x110), MAIN))))
    assert FakeDebugInfo.opened == [FAST]
    traced = spool(mode="trace")
    traced.exact_thread(1, 4242)
    traced.exact_nodes(1, 1, (0, MAIN), (1, at(0x100)), (2, CALLED))
    traced.exact_counts(1, {"node": 3, "calls": 1, "ticks": 9})
    traced.end()
    profile = opened(traced)
    assert with_inlined(profile, reader=READER) == (profile, [])
    assert FakeDebugInfo.opened == [FAST]


def test_selections(opened: Opened) -> None:
    profile = opened(spool((MAIN, at(0x120), CALLED, at(0x130)), (MAIN, at(0x110), CALLED)))
    native_only, _ = choose(profile, Choice(frames=NATIVE_ONLY))
    in_the_end, _ = choose(expanded(profile), Choice(frames=NATIVE_ONLY))
    assert (
        folded(expanded(native_only))
        == folded(in_the_end)
        == ["outer 1", "outer;helper_[i];inner_[i];outer;helper_[i] 1"]
    )
    python_only, _ = choose(profile, Choice(frames=PYTHON_ONLY))
    assert with_inlined(python_only, reader=READER) == (python_only, [])


def test_lines(opened: Opened) -> None:
    recursive = (MAIN, at(0x120), CALLED, at(0x120))
    profile = expanded(opened(spool(recursive, (MAIN, at(0x130)), (MAIN, at(0x110)), (MAIN,))))
    found = {
        (each.name, each.file): [(x.line, x.self_share, x.total_share) for x in each.lines]
        for each in native_lines(profile)
    }
    assert found == {
        ("outer", "/src/fast.cc"): [(11, 0.25, 0.25), (12, 0, 0.25), (13, 0, 0.25)],
        ("helper_[i]", "/src/fast.h"): [(6, 0, 0.25), (7, 0.25, 0.25)],
        ("inner_[i]", "/src/fast.h"): [(21, 0.25, 0.25)],
    }


def test_samples_in_what_is_folded_are_on_the_callers_line(opened: Opened) -> None:
    in_plumbing = (MAIN, at(0x110), at(0x110, module=5))
    in_wrapper = (MAIN, at(0x130), at(0x420))
    of_python = (MAIN, at(0x110), CALLED, at(0x110, module=5))
    stacks = ((MAIN, at(0x150)), in_plumbing, in_wrapper, of_python)
    functions = native_lines(expanded(opened(spool(*stacks))))
    found = {(each.name, x.line): x.self_share for each in functions for x in each.lines}
    assert found == {
        ("outer", 11): 0.25,
        ("outer", 13): 0,
        ("outer", 15): 0.25,
        ("helper_[i]", 7): 0.25,
    }


def test_too_few_samples_for_a_listing(opened: Opened) -> None:
    without_lines = (MAIN, at(0x110, module=3))
    profile = opened(spool((MAIN, at(0x110)), *[without_lines] * 200))
    with pytest.raises(PyhybridError, match=r"has 0\.5% of the samples as its own"):
        print_lines(expanded(profile), io.StringIO())
    with pytest.raises(PyhybridError, match="no native code with debug information was sampled"):
        print_lines(profile, io.StringIO())


def test_the_listing_of_lines(opened: Opened, tmp_path: Path) -> None:
    source = tmp_path / "fast.cc"
    source.write_text("".join(f"text {number}\n" for number in range(1, 31)))
    outer = SourceFunction("_Zouter", str(source), 3)

    class InFile(FakeDebugInfo):
        def resolve(self, addresses: list[int]) -> list[Position | None]:
            lines = {0x110: 4, 0x120: 12, 0x130: 13}
            return [(str(source), lines[address], [], outer) for address in addresses]

    stacks = [(MAIN, at(address)) for address in (0x110, 0x120, 0x130, 0x130)]
    profile, _ = with_inlined(opened(spool(*stacks)), reader=(InFile, demangle))
    out = io.StringIO()
    print_lines(profile, out)
    assert out.getvalue().splitlines() == [
        "no lines were recorded (--lines -t NAME): these are lines of native code",
        "",
        f"outer ({source})  100.0% of the samples; source has changed since: lines may have moved",
        "  line    self   total  source",
        "     2                  text 2",
        "     3                  text 3",
        "     4   25.0%   25.0%  text 4",
        "     5                  text 5",
        "     6                  text 6",
        "     …",
        "    10                  text 10",
        "    11                  text 11",
        "    12   25.0%   25.0%  text 12",
        "    13   50.0%   50.0%  text 13",
        "    14                  text 14",
        "    15                  text 15",
    ]


def test_libraries_of_another_build_are_one_note() -> None:
    """Read on another machine, most of a profile's are."""

    def another(_path: str, _build_id: str | None) -> NoReturn:
        raise LookupError

    files, said = DebugFiles({}, another), []
    for name in "abc":
        library = SimpleNamespace(path=f"/lib/{name}.so", build_id="1f", base=0x1000, load_ns=0)
        assert files.find(library, [0x1010]) == {}
        said.append(files.notes)
    assert said == [
        ["/lib/a.so is another build than the one that ran: no source lines"],
        ["/lib/a.so and 1 more are other builds than those that ran: no source lines"],
        ["/lib/a.so and 2 more are other builds than those that ran: no source lines"],
    ]

"""Names of code in no module: perf maps and jitdumps made by hand, and what becomes of them."""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
from itertools import pairwise
from mmap import MAP_PRIVATE, PROT_EXEC, PROT_READ, mmap
from pathlib import Path

import pytest
from example_profile import PID, example, fake_symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from large_inputs import CODE, many_functions
from spool_writer import SpoolWriter, native, python
from steps import steps

from pyhybrid.assemble import open_profile
from pyhybrid.capture.jit_files import jit_files
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.perf.addresses import PAGE, REGIONS
from pyhybrid.exporters.perf.names_map import MAX_EARLIER, PerfMap
from pyhybrid.report.quality import quality_report
from pyhybrid.symbols.jit import JITDUMP, MAX_NAME, Generated, JitFunctions, read_trusted
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree

LOAD, MOVE, DEBUG_INFO, CLOSE, UNWINDING_INFO = range(5)


def of_map(data: bytes) -> JitFunctions:
    functions = JitFunctions()
    functions.add_perf_map(data)
    return functions


class Dump:
    """A jitdump in the making."""

    def __init__(self, order: str = "<", pid: int = 4242, version: int = 1) -> None:
        self.order = order
        head = (0x4A695444, version, 40, 62, 0, pid, 123, 0)
        self.data = bytearray(struct.pack(order + "6IQQ", *head))

    def record(self, kind: int, body: bytes, size: int | None = None) -> None:
        size = 16 + len(body) if size is None else size
        self.data += struct.pack(self.order + "IIQ", kind, size, 99) + body

    def load(self, start: int, size: int, name: bytes, index: int = 0) -> None:
        head = struct.pack(self.order + "IIQQQQ", 1, 1, start, start, size, index)
        self.record(LOAD, head + name + b"\0" + b"\x90" * size)

    def move(self, old: int, new: int, size: int, index: int) -> None:
        self.record(MOVE, struct.pack(self.order + "IIQQQQQ", 1, 1, new, old, new, size, index))

    def read(self) -> JitFunctions:
        functions = JitFunctions()
        functions.add_jitdump(bytes(self.data))
        return functions


def test_lines_of_a_perf_map() -> None:
    functions = of_map(
        b"1000 20 plain\n0x2000 0X10 with 0x\n3000 8 a name (of  words); <1>\r\n"
        b"4000 8 caf\xc3\xa9 \xff\n5000 8 bell\x07\n6000 8 last"
    )
    assert functions.functions() == [
        ("plain", 0x1000, 0x20),
        ("with 0x", 0x2000, 0x10),
        ("a name (of  words); <1>", 0x3000, 8),
        ("café \\xff", 0x4000, 8),
        ("bell\\x07", 0x5000, 8),
        ("last", 0x6000, 8),
    ]
    assert functions.resolve(0x1000) == functions.resolve(0x101F) == ("plain", 0x1000, 0x20)
    assert functions.resolve(0xFFF) is None
    assert functions.resolve(0x1020) is None
    assert functions.source(0x1000) == "jit map"
    assert functions.source(0x1020) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"1000",
        b"1000 10",
        b"1000 10 ",
        b"xyz 10 name",
        b"1000 name",
        b"-1 10 name",
        b"1000 0 empty",
        b"1000 ffffffffffffffff huge",
        b"ffffffffffffff00 10 of the kernel",
        b"11111111111111111 10 long",
        b"1000 10 [jit]",
        b"\0" * 100,
    ],
)
def test_damaged_lines_are_skipped(line: bytes) -> None:
    functions = of_map(b"1000 10 before\n" + line + b"\n2000 10 after\n")
    assert [name for name, *_ in functions.functions()] == ["before", "after"]


def test_memory_is_used_again() -> None:
    """What was told later ends what it overlaps, and that had ended what came before it."""
    functions = of_map(b"1000 100 a\n1000 20 b\n1080 10 c\n10a0 10 d\n1090 20 e\n2000 10 f\n")
    assert functions.functions() == [
        ("b", 0x1000, 0x20),
        ("c", 0x1080, 0x10),
        ("e", 0x1090, 0x20),
        ("f", 0x2000, 0x10),
    ]
    assert functions.resolve(0x1050) is None
    functions.add_perf_map(b"1010 1 g\n")
    assert functions.resolve(0x1010) == ("g", 0x1010, 1)
    assert functions.resolve(0x1000) is None


ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=30)


@given(ranges)
def test_overlaps_by_the_definition(entries: list[tuple[int, int]]) -> None:
    functions = JitFunctions()
    for number, (start, size) in enumerate(entries):
        functions.add(start, size, str(number).encode(), JITDUMP)
    left = {
        (str(i), start, size)
        for i, (start, size) in enumerate(entries)
        if all(s + n <= start or start + size <= s for s, n in entries[i + 1 :])
    }
    assert functions.functions() == sorted(left, key=lambda each: each[1])
    for address in range(80):
        covers = [each for each in left if each[1] <= address < each[1] + each[2]]
        assert functions.resolve(address) == (covers[0] if covers else None)


@pytest.mark.parametrize("order", ["<", ">"])
def test_jitdump(order: str) -> None:
    dump = Dump(order)
    dump.load(CODE, 0x40, b"first", 1)
    dump.record(DEBUG_INFO, bytes(64))
    dump.load(CODE + 0x100, 0x40, b"moves", 2)
    dump.record(UNWINDING_INFO, bytes(32))
    dump.record(77, b"of the future")
    dump.load(CODE + 0x20, 0x40, b"second", 3)
    dump.move(CODE + 0x100, CODE + 0x200, 0x40, 2)
    dump.move(CODE, CODE + 0x300, 0x40, 12345)  # of nothing
    dump.record(CLOSE, b"")
    assert dump.read().functions() == [
        ("second", CODE + 0x20, 0x40),
        ("moves", CODE + 0x100, 0x40),  # where it ran until then
        ("moves", CODE + 0x200, 0x40),
    ]
    assert dump.read().source(CODE + 0x20) == "jitdump"


def test_sizes_of_a_jitdump_are_not_trusted() -> None:
    dump = Dump()
    dump.load(CODE, 0x40, b"good", 1)
    body = struct.pack("<IIQQQQ", 1, 1, 0, CODE + 0x10, 1 << 40, 2) + b"huge\0" + bytes(16)
    dump.record(LOAD, body)
    dump.record(LOAD, body[:30])  # no room for its fields
    dump.record(LOAD, body[:40] + b"no end")
    dump.record(MOVE, bytes(10))
    dump.load(CODE + 0x100, 0x40, b"n" * 10_000, 3)
    whole = dump.read().functions()
    assert whole == [("good", CODE, 0x40), ("n" * MAX_NAME, CODE + 0x100, 0x40)]
    for size in (0, 15, 1 << 31):
        torn = Dump()
        torn.load(CODE, 0x40, b"good", 1)
        torn.record(LOAD, bytes(64), size)
        torn.load(CODE, 0x40, b"beyond", 1)
        assert torn.read().functions() == [("good", CODE, 0x40)]


def test_every_torn_end_of_a_jitdump() -> None:
    dump = Dump()
    dump.load(CODE, 0x10, b"first", 1)
    boundary = len(dump.data)
    dump.load(CODE + 0x10, 0x10, b"second", 2)
    for end in range(40, len(dump.data)):
        functions = JitFunctions()
        functions.add_jitdump(bytes(dump.data[:end]))
        assert len(functions.functions()) == (end >= boundary)


@pytest.mark.parametrize(
    "data", [b"", b"JiTD", bytes(100), b"not a jitdump" * 10, bytes(Dump(version=2).data)]
)
def test_no_jitdump(data: bytes) -> None:
    with pytest.raises(ValueError, match="jitdump"):
        JitFunctions().add_jitdump(data)


def test_jitdump_of_another_process() -> None:
    with pytest.raises(ValueError, match=r"of another process \(1\)"):
        JitFunctions().add_jitdump(bytes(Dump(pid=1).data), 2)


def valid_map() -> bytes:
    return b"".join(b"%x %x name %d\n" % (CODE + 64 * i, 64 + i % 3, i) for i in range(30))


def valid_dump() -> bytes:
    dump = Dump()
    for i in range(20):
        dump.load(CODE + 64 * i, 64 + i % 3, b"name %d" % i, i)
        dump.record(DEBUG_INFO, bytes(i))
        dump.move(CODE + 64 * i, CODE + 32 * i, 64, i)
    return bytes(dump.data)


def mutated(data: bytes) -> st.SearchStrategy[bytes]:
    """`data` with some bytes overwritten, then cut off."""
    changes = st.lists(st.tuples(st.integers(0, len(data) - 1), st.binary(max_size=9)), max_size=8)

    def apply(given: tuple[list[tuple[int, bytes]], int]) -> bytes:
        text = bytearray(data)
        for at, new in given[0]:
            text[at : at + len(new)] = new
        return bytes(text[: given[1]])

    return st.tuples(changes, st.integers(0, len(data) + 9)).map(apply)


anything = st.one_of(
    st.binary(max_size=2000),
    st.binary(max_size=500).map(lambda data: valid_dump()[:40] + data),
    st.text("0123456789abcdefx \t\r\n-", max_size=500).map(str.encode),
    mutated(valid_map()),
    mutated(valid_dump()),
)


@pytest.mark.exhaustive
@settings(max_examples=500)
@given(anything, st.integers(0, 1 << 47))
def test_damage_never_raises(data: bytes, address: int) -> None:
    functions = of_map(data)
    try:
        functions.add_jitdump(data)
    except ValueError:
        assert struct.unpack("<II", data[:8].ljust(8, b"\0")) != (0x4A695444, 1) or len(data) < 40
    table = functions.functions()
    assert all(a + n <= b for (_, a, n), (_, b, _) in pairwise(table))
    for name, start, size in table:
        assert functions.resolve(start) == functions.resolve(start + size - 1)
        assert functions.resolve(start) == (name, start, size)
        name.encode()  # no surrogates
    functions.resolve(address)


@pytest.mark.parametrize("size", [64, 100])  # bytes: apart, or overlapping
def test_a_function_among_many_is_no_more_work(size: int) -> None:
    def work(n: int) -> tuple[int, int]:
        numbers = list(range(n))
        random.Random(1).shuffle(numbers)
        data = many_functions(numbers, size)
        functions = JitFunctions()

        def make() -> None:
            functions.add_perf_map(data)
            functions.resolve(CODE)  # makes the table

        return steps(make), steps(lambda: [functions.resolve(CODE + 64 * i) for i in numbers[:900]])

    made_of_few, found_in_few = work(1_000)
    made_of_many, found_in_many = work(20_000)
    assert 10 * made_of_few < made_of_many < 21 * made_of_few
    assert found_in_many < 1.1 * found_in_few


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "data",
    [bytes(3_000_000), b"\n" * 3_000_000, b" " * 3_000_000, b"1 1 " * 750_000, b"0x" * 1_500_000],
)
@pytest.mark.first_cases(2)
def test_garbage_takes_no_memory_and_ends(data: bytes) -> None:
    """Looked at again from each of its bytes it would take hours."""
    tracemalloc.start()
    of_map(data).resolve(1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(data) + (1 << 20)


def test_only_regular_files_of_ours_are_read(tmp_path: Path) -> None:
    path, link, fifo = tmp_path / "map", tmp_path / "link", tmp_path / "fifo"
    path.write_bytes(b"x")
    link.symlink_to(path)
    os.mkfifo(fifo)
    assert read_trusted(str(path), {os.geteuid()}) == b"x"
    with pytest.raises(OSError, match="symbolic"):
        read_trusted(str(link), {os.geteuid()})
    for other in (fifo, tmp_path):
        with pytest.raises(ValueError, match="not a regular file"):
            read_trusted(str(other), {os.geteuid()})
    with pytest.raises(ValueError, match="belongs to another user"):
        read_trusted(str(path), {os.geteuid() + 1})


def jit_profile(tmp_path: Path, **meta: object) -> Profile:
    """f() calls two JIT functions and code without a name; one function on two addresses."""
    writer = SpoolWriter()
    writer.meta(**meta)
    writer.code(1, "f", "/f.py", 1)
    writer.thread(1, 1, "python")
    addresses = [CODE + 4, CODE + 8, CODE + 0x104, CODE + 0x800]
    stacks = [writer.stack(python(1, 1), native(0, address)) for address in addresses]
    writer.stacks()
    writer.samples(1, stacks)
    return open_profile(writer.save(tmp_path / "x.part"), fake_symbols())


def native_rows(profile: Profile) -> list[tuple[object, ...]]:
    return [
        (f.name, f.module, f.address, f.size, f.symbol, f.source)
        for f in profile.frames.values()
        if f.kind == "native"
    ]


def files(tmp_path: Path) -> dict[str, object]:
    """A map of the first function, a jitdump of the second one; meta that tells of them."""
    perf_map, jitdump, dump = tmp_path / "perf.map", tmp_path / "jit.dump", Dump()
    perf_map.write_text(f"{CODE:x} 40 _ZN2at4_ops3add4callE\n{CODE + 0x900:x} 10 not (hit)\n")
    dump.load(CODE + 0x100, 0x20, b"kernel(1)", 1)
    jitdump.write_bytes(dump.data)
    return {"perf_map": str(perf_map), "jitdumps": [str(jitdump)]}


def test_words_in_no_module_get_names(tmp_path: Path) -> None:
    with jit_profile(tmp_path, **files(tmp_path)) as profile:
        add = "at::_ops::add::call(at::Tensor const&, c10::Scalar const&)"
        assert native_rows(profile) == [
            (add, None, CODE, 0x40, "_ZN2at4_ops3add4callE", "jit map"),
            ("kernel(1)", None, CODE + 0x100, 0x20, "kernel(1)", "jitdump"),
            ("[jit]", None, None, None, None, "none"),
        ]
        assert set(profile.stacks.address) >= {CODE + 4, CODE + 8, CODE + 0x104, CODE + 0x800}
        assert profile.meta["notes"] == []
        (module,) = quality_report(profile).modules
        assert module.by_source == {"jit map": 0.5, "jitdump": 0.25, "none": 0.25}
        assert module.named == 0.75
        export_to(Folded(), profile, str(tmp_path / "out.folded"))
        folded = (tmp_path / "out.folded").read_text()
        assert "kernel" in folded


def test_files_that_cannot_be_read_are_notes(tmp_path: Path) -> None:
    bad, gone = tmp_path / "jit-1.dump", tmp_path / "gone"
    bad.write_bytes(b"no dump")
    with jit_profile(tmp_path, perf_map=str(gone), jitdumps=[str(bad)]) as profile:
        assert [name for name, *_ in native_rows(profile)] == ["[jit]"]
        assert profile.meta["notes"] == [
            f"{gone}: no names of JIT code: No such file or directory",
            f"{bad}: no names of JIT code: not a jitdump",
        ]


def test_files_are_not_read_without_need(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta(perf_map=str(tmp_path / "gone"))
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert profile.meta["notes"] == []


def test_trampolines_are_plumbing(tmp_path: Path) -> None:
    """CPython's own (-X perf) say nothing that the Python frames do not."""
    path = tmp_path / "perf.map"
    path.write_text(f"{CODE:x} 1000 py::f:/f.py\n")
    with jit_profile(tmp_path, perf_map=str(path)) as profile:
        assert [profile.frames[f].name for f in FoldedTree.of(profile).frame[1:]] == ["f"]


def lines_of(path: Path) -> list[tuple[int, int, str]]:
    return lines_of_map(path.read_text().splitlines())


def lines_of_map(lines: list[str]) -> list[tuple[int, int, str]]:
    fields = [line.split(" ", 2) for line in lines]
    return [(int(start, 16), int(size, 16), name) for start, size, name in fields]


def test_the_exported_map_keeps_the_runtime_s_lines(tmp_path: Path) -> None:
    meta = files(tmp_path)
    path = Path(str(meta["perf_map"]))
    with jit_profile(tmp_path, **meta) as profile:
        assert export_to(PerfMap(), profile, str(path)).notes == []
        first = path.read_text()
        lines = lines_of(path)
        assert all(a + n <= b for (a, n, _), (b, *_) in pairwise(lines))
        in_page = [line for line in lines if CODE <= line[0] < CODE + PAGE]
        assert in_page == [
            (CODE, 0x40, "at::_ops::add::call[at::Tensor const&, c10::Scalar const&]"),
            (CODE + 0x40, 0xC0, "[jit]"),
            (CODE + 0x100, 0x20, "kernel[1]"),
            (CODE + 0x120, 0x7E0, "[jit]"),
            (CODE + 0x900, 0x10, "not [hit]"),
            (CODE + 0x910, 0x6F0, "[jit]"),
        ]
        export_to(PerfMap(), profile, str(path))
        assert path.read_text() == first
        other = tmp_path / "other.map"
        export_to(PerfMap(), profile, str(other))
        assert "not [hit]" not in other.read_text()


@pytest.mark.exhaustive
def test_the_exported_map_keeps_earlier_runs_of_the_process(tmp_path: Path) -> None:
    """Not without end: a service may profile itself every minute."""
    path = tmp_path / "perf.map"
    path.touch()
    runs: list[set[tuple[int, int, str]]] = []
    for start_ns in range(1000, 1003):
        with jit_profile(tmp_path, perf_map=str(path), start_ns=start_ns) as profile:
            own = set(lines_of_map(PerfMap().lines(profile)))
            if start_ns == 1002:
                many = (f"{REGIONS.stop - 16 * (n + 1):x} 10 old" for n in range(MAX_EARLIER))
                path.write_text(path.read_text() + "".join(f"{line}\n" for line in many))
            export_to(PerfMap(), profile, str(path))
        runs.append({line for line in own if REGIONS.start <= line[0] < REGIONS.stop})
        kept = {line for line in lines_of(path) if REGIONS.start <= line[0] < REGIONS.stop}
        assert kept == (runs[0] | runs[-1] if start_ns < 1002 else runs[-1])


def test_no_runtime_wrote_names(tmp_path: Path) -> None:
    writer = example()
    with open_profile(writer.save(tmp_path / "x.part"), fake_symbols()) as profile:
        assert profile.process.pid == PID
        assert (0x7E0000000000, PAGE, "[jit]") in [
            (int(a, 16), int(n, 16), name)
            for a, n, name in (line.split(" ", 2) for line in PerfMap().lines(profile))
        ]


def test_the_files_of_this_process(tmp_path: Path) -> None:
    """A jitdump is known by its marker, a mapping as code, wherever it is, and if it is deleted."""
    folder = tmp_path / "a folder\n"
    folder.mkdir()
    dump, data = folder / f"jit-{os.getpid()}.dump", folder / "data"
    dump.write_bytes(bytes(4096))
    data.write_bytes(bytes(4096))
    assert jit_files()["jitdumps"] == []
    with (
        open(dump, "rb") as file,
        open(data, "rb") as other,
        mmap(file.fileno(), 4096, MAP_PRIVATE, PROT_READ | PROT_EXEC),
        mmap(other.fileno(), 4096, MAP_PRIVATE, PROT_READ | PROT_EXEC),
    ):
        assert jit_files()["jitdumps"] == [str(dump)]
        dump.unlink()
        assert jit_files()["jitdumps"] == [str(dump)]
    assert jit_files()["jitdumps"] == []


def test_a_perf_map_older_than_the_process_is_none() -> None:
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    assert jit_files()["perf_map"] is None
    path.write_text("")
    try:
        assert jit_files()["perf_map"] == str(path)
        os.utime(path, (1e9, 1e9))
        assert jit_files()["perf_map"] is None
    finally:
        path.unlink()


def test_a_program_that_forbids_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(os, "lstat", refuse)
    monkeypatch.setattr(os, "open", refuse)
    assert jit_files() == {"perf_map": None, "jitdumps": []}


# Kernels and graphs of a framework's compiler are named by the Python files that it wrote.

NAME = "c" + "abcde" * 10
TEXT = 'extern "C"  void  kernel(float* out)\n{\n    out[0] = 1;\n}\n'
OTHER = TEXT.replace("1", "2")
WRAPPER = f"""# AOT ID: ['3_backward']
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()

cpp_fused_add_gelu_0 = async_compile.cpp_pybinding(['float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
{TEXT}''')


cpp_fused_sum_1 = async_compile.cpp_pybinding(['float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
{OTHER}''')

class Runner:
    def call(self, args):
        # Topologically Sorted Source Nodes: [x, y], Original ATen: [aten.view, aten.mm]
        # Source Nodes: [], Original ATen: [aten.mm, aten.gelu, aten.sum, aten.add]
        pass
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """With a graph of two kernels, as inductor writes them."""
    (tmp_path / "aa").mkdir()
    (tmp_path / "bc").mkdir()
    (tmp_path / "aa" / f"{NAME}.py").write_text(WRAPPER)
    text = f"\n#include <torch/csrc/inductor/cpp_prefix.h>\n{OTHER}\n// Python bindings\n"
    (tmp_path / "bc" / f"{NAME}.main.cpp").write_text(text)
    return tmp_path


def found(cache: Path) -> Generated:
    return Generated(str(cache), [str(cache / "aa" / f"{NAME}.py"), "train.py"])


def test_names(cache: Path) -> None:
    names, library = found(cache), str(cache / "bc" / f"{NAME}.main.so")
    assert names.native_name(library, "kernel") == "cpp_fused_sum_1 [inductor]"
    assert names.native_name(library, "kernel._omp_fn.0") == "cpp_fused_sum_1._omp_fn.0 [inductor]"
    assert names.native_name(library, "kernel_py") is None
    assert names.native_name(str(cache / "bc" / "lib.so"), "kernel") is None
    wrapper = str(cache / "aa" / f"{NAME}.py")
    told = "Runner.call [inductor 3_backward: mm, gelu, sum, …]"
    assert names.python_name(wrapper, "Runner.call") == told
    assert names.python_name(wrapper, "<module>") == "<module>"
    assert names.python_name("train.py", "call") == "call"


def test_what_is_not_there_names_nothing(cache: Path) -> None:
    library = str(cache / "bc" / f"{NAME}.main.so")
    assert Generated(str(cache), []).native_name(library, "kernel") is None
    (cache / "aa" / f"{NAME}.py").unlink()
    assert found(cache).native_name(library, "kernel") is None
    os.mkfifo(cache / "aa" / f"{NAME}.py")  # nobody writes into it
    assert found(cache).native_name(library, "kernel") is None
    assert found(cache).python_name(str(cache / "aa" / f"{NAME}.py"), "call") == "call"

"""What runs only because of the profiler is one frame, in no view: by names, and by structure."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from spool_writer import SpoolWriter, native, pseudo, python, region

from pyhybrid.assemble import open_profile, own_work
from pyhybrid.report import run_parts
from pyhybrid.symbols.resolve import Symbol
from pyhybrid.tables.profile import Profile
from pyhybrid.views.labels import Labels

INTERPRETER, OURS, LIBC, TOOL = 1, 2, 3, 4
FOLDER = own_work.OWN_FOLDER
NAMES = {
    INTERPRETER: ["_Py_call_instrumentation_arg", "call_instrumentation_vector", "cfunction_call"],
    OURS: ["shadow_on_yield", "write_whole", "region_enter"],
}
ARG, VECTOR, CALL = (native(INTERPRETER, at) for at in (0x10, 0x110, 0x210))
PY_LONG = native(INTERPRETER, 0x810)
YIELDED, WRITES, ENTERS = (native(OURS, at) for at in (0x10, 0x110, 0x210))
WRITE, MALLOC, C_TOOL = native(LIBC, 0x10), native(LIBC, 0x110), native(TOOL, 0x10)
MAIN, GEN, TOOLS, OUR_PYTHON = (python(code, 1) for code in range(1, 5))


class Names:
    """The functions of NAMES at every 256 bytes; `nameless`: those of the interpreter have none."""

    nameless = False

    def __init__(self, path: str, build_id: str | None) -> None:
        libraries = {"python3.12": INTERPRETER, "_native.cpython-312.so": OURS}
        module = libraries.get(path.rpartition("/")[2], 0)
        self._names = [] if self.nameless and module == INTERPRETER else NAMES.get(module, [])

    def resolve(self, addresses: list[int]) -> list[Symbol | None]:
        return [
            (self._names[at >> 8], at & -256, 256, "symtab") if at >> 8 < len(self._names) else None
            for at in addresses
        ]


class Nameless(Names):
    nameless = True


def paths(
    tmp_path: Path, stacks: list[list[int]], names: type[Names] = Names, **meta: object
) -> list[str]:
    """The paths of a profile of one sample of each stack, as a view has them, sorted."""
    with written(tmp_path, stacks, names, **meta) as profile:
        labels = Labels(profile, full_names=False).of_frame
        found = []
        for row in profile.sampled:
            node, path = profile.stacks.node[row.stack], list[str]()
            while node:
                path.insert(0, labels[profile.nodes.frame[node]].partition(" (")[0])
                node = profile.nodes.parent[node]
            found += [";".join(path)] * row.samples
        assert profile.own_weight_ns == (len(stacks) - len(found)) * profile.period_ns
        return sorted(found)


def written(tmp_path: Path, stacks: list[list[int]], names: type[Names], **meta: object) -> Profile:
    writer = SpoolWriter()
    writer.meta(mode="hybrid", **meta)
    writer.module(INTERPRETER, "/opt/bin/python3.12", 0x10000)
    writer.module(OURS, "/opt/site-packages/pyhybrid/_native.cpython-312.so", 0x30000)
    writer.module(LIBC, "/lib/libc.so.6", 0x50000)
    writer.module(TOOL, "/opt/site-packages/coverage/tracer.so", 0x70000)
    words = {word for stack in stacks for word in stack if word < 1 << 61}
    writer.functions({word: word & ~0xFF for word in words})
    for code, (name, file) in enumerate(
        (
            ("main", "/x/job.py"),
            ("gen", "/x/job.py"),
            ("tool", "/x/tool.py"),
            ("watched", f"{FOLDER}frameworks/hooks.py"),
        ),
        1,
    ):
        writer.code(code, name, file, 1)
    writer.thread(1, 1, "python")
    writer.exact_thread(1, 1)
    writer.exact_nodes(1, 1, (0, MAIN))
    rows = [writer.stack(*words) for words in stacks]
    writer.stacks()
    writer.samples(1, rows)
    return open_profile(writer.save(tmp_path / "x.part"), (names, str))


INSTRUMENTED = "main;gen;_Py_call_instrumentation_arg;call_instrumentation_vector"
EVENT = [MAIN, GEN, ARG, VECTOR]


@pytest.mark.parametrize(
    "stack",
    [
        [pseudo(7)],
        [*EVENT, YIELDED],
        [*EVENT, YIELDED, MALLOC],
        [*EVENT, YIELDED, OUR_PYTHON],
        [*EVENT, YIELDED, CALL, OUR_PYTHON, CALL, TOOLS],
        EVENT,
        [*EVENT, PY_LONG],
        [MAIN, GEN, ARG],
        [MAIN, CALL, ENTERS],
        [MAIN, region(1), CALL, ENTERS],
    ],
)
@pytest.mark.parametrize("names", [Names, Nameless])
def test_ours(tmp_path: Path, stack: list[int], names: type[Names]) -> None:
    others = [[MAIN, GEN], [MAIN, CALL]]
    assert len(paths(tmp_path, [stack, [*EVENT, YIELDED], *others], names)) == len(others)


CALLED = "main;cfunction_call;"


@pytest.mark.parametrize(
    ("stack", "path"),
    [
        ([MAIN, CALL, WRITES, CALL], f"{CALLED}write_whole;cfunction_call"),
        ([*EVENT, CALL, TOOLS], f"{INSTRUMENTED};cfunction_call;tool"),
        ([MAIN, CALL, ENTERS, CALL, TOOLS], f"{CALLED}region_enter;cfunction_call;tool"),
    ],
)
def test_not_ours(tmp_path: Path, stack: list[int], path: str) -> None:
    assert paths(tmp_path, [stack, [*EVENT, YIELDED]]) == [path]


def test_with_another_tool_the_instrumentation_is_not_ours_alone(tmp_path: Path) -> None:
    stacks = [[*EVENT, C_TOOL], EVENT, [*EVENT, YIELDED, MALLOC]]
    expected = [INSTRUMENTED, f"{INSTRUMENTED};tracer.so [nameless]"]
    assert paths(tmp_path, stacks, other_tools=True) == expected


def test_without_the_exact_half_instrumentation_is_not_ours(tmp_path: Path) -> None:
    writer = SpoolWriter()
    writer.meta()
    writer.module(INTERPRETER, "/opt/bin/python3.12", 0x10000)
    writer.code(1, "main", "/x/job.py", 1)
    writer.thread(1, 1, "python")
    row = writer.stack(MAIN, ARG)
    writer.stacks()
    writer.samples(1, [row])
    with open_profile(writer.save(tmp_path / "x.part"), (Names, str)) as profile:
        assert len(profile.sampled) == 1 and not profile.own_weight_ns


@pytest.mark.parametrize("parts_ms", [0, 30])
def test_what_counting_took_is_without_what_profilers_in_the_run_did(
    tmp_path: Path, parts_ms: int
) -> None:
    """Samples met both as [pyhybrid]."""
    told = {"call_cost_ns": 1.0, "parts_cpu_ns": parts_ms * 10**6}
    with written(tmp_path, [[pseudo(7)]] * 100, Names, **told) as profile:
        calls: Any = SimpleNamespace(turns=1, c_calls=None)
        took_ns = run_parts._counting_ns(profile, calls)
        assert took_ns == profile.own_weight_ns - parts_ms * 10**6 > 0

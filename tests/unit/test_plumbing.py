"""The rules of plumbing.toml, and folding by them: sums stay, and folding twice is folding once."""

import os
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from example_profile import PATHS, PYTHON, TORCH, fake_symbols
from hypothesis import given
from hypothesis import strategies as st
from spool_writer import SpoolWriter, c_call, native, python

from pyhybrid.assemble import open_profile
from pyhybrid.cli.report_views import Tree
from pyhybrid.exporters.folded import Folded
from pyhybrid.report.tree import tree_lines
from pyhybrid.symbols import plumbing
from pyhybrid.symbols.plumbing import is_interpreter, is_plumbing, is_wrapper
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.labels import Labels, shorten_native

LIBC = 9
MAIN, WORK = python(1, 1), python(2, 1)
EVAL, SORTED = native(PYTHON, 0x810), native(PYTHON, 0x510)
ADD, STUB = native(TORCH, 0x1010), native(TORCH, 0x2010)
DISPATCH, REDISPATCH = native(TORCH, 0x6010), native(TORCH, 0x6110)
INVOKES = [native(TORCH, 0x7010), native(TORCH, 0x7110)]
NAMELESS = [native(TORCH, at) for at in (0x3010, 0x4010, 0x4110)]
NAMELESS_PYTHON, NAMELESS_LIBC = native(PYTHON, 0x9010), native(LIBC, 0x10)
JIT = [native(0, 0x7E0000000040), native(0, 0x7E0000000080)]
WORDS = [
    *(MAIN, WORK, EVAL, SORTED, ADD, STUB, DISPATCH, REDISPATCH),
    *(*NAMELESS, NAMELESS_PYTHON, NAMELESS_LIBC, *JIT, *INVOKES),
]


def written(*stacks: list[int]) -> SpoolWriter:
    """A spool with one sample of each stack."""
    writer = SpoolWriter()
    writer.meta()
    writer.module(PYTHON, PATHS[PYTHON], 0x10000)
    writer.module(TORCH, PATHS[TORCH], 0x20000)
    writer.module(LIBC, "/lib/libc.so.6", 0x40000)
    writer.functions({word: word & ~0xFF for word in (*NAMELESS, NAMELESS_PYTHON)})
    writer.code(1, "main", "/x/job.py", 1)
    writer.code(2, "work", "/x/job.py", 2)
    writer.thread(1, 1, "python")
    rows = [writer.stack(*words) for words in stacks]
    writer.stacks()
    writer.samples(1, rows)
    return writer


def opened(writer: SpoolWriter, folder: Path) -> Profile:
    """As a profile."""
    return open_profile(writer.save(folder / "x.part"), fake_symbols())


def folded(profile: Profile, all_frames: bool = False) -> list[str]:
    """Its folded stacks."""
    labels = Labels(profile, full_names=False, all_frames=all_frames).of_frame
    return Folded().lines(profile, FoldedTree.of(profile, all_frames), labels)


STACKS = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=1, max_size=12
)


@pytest.mark.exhaustive
@given(STACKS)
def test_sums_stay(stacks: list[list[int]]) -> None:
    with TemporaryDirectory() as folder, opened(written(*stacks), Path(folder)) as profile:
        for all_frames in (False, True):
            weights = [int(line.rpartition(" ")[2]) for line in folded(profile, all_frames)]
            assert sum(weights) == len(stacks)


@pytest.mark.exhaustive
@given(STACKS)
def test_with_all_frames_the_tree_is_the_profile_s(stacks: list[list[int]]) -> None:
    with TemporaryDirectory() as folder, opened(written(*stacks), Path(folder)) as profile:
        tree, nodes = FoldedTree.of(profile, all_frames=True), profile.nodes
        assert (tree.parent, tree.frame) == (nodes.parent, nodes.frame)
        assert list(tree.of_node) == list(range(len(nodes.parent)))


@cache
def words() -> dict[tuple[str, int | None], int]:
    """The words by their frames' names and addresses."""
    known = {}
    with TemporaryDirectory() as folder:
        for word in WORDS:
            with opened(written([MAIN, word]), Path(folder)) as profile:
                frame = profile.frames[profile.nodes.frame[-1]]
                known[frame.name, frame.address] = word
    return known


@pytest.mark.exhaustive
@given(STACKS)
def test_folding_again_changes_nothing(stacks: list[list[int]]) -> None:
    again = []
    with TemporaryDirectory() as folder:
        with opened(written(*stacks), Path(folder)) as profile:
            once, tree = folded(profile), FoldedTree.of(profile)
            for row in profile.sampled:
                path = tree.path(tree.of_node[profile.stacks.node[row.stack]])
                frames = [profile.frames[frame] for frame in path]
                stack = [words()[frame.name, frame.address] for frame in frames]
                again += [stack or [EVAL]] * row.samples
        with opened(written(*again), Path(folder)) as profile:
            assert folded(profile) == once


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ([MAIN, EVAL, ADD, DISPATCH, REDISPATCH, WORK], "at::_ops::add::call;work (/x/job.py:2)"),
        ([MAIN, ADD, DISPATCH], "at::_ops::add::call"),  # its own time is its caller's
        ([MAIN, *NAMELESS, STUB], "libtorch_cpu.so [nameless];at::native::add_stub: odd name"),
        ([MAIN, NAMELESS[0], DISPATCH, NAMELESS[1]], "libtorch_cpu.so [nameless]"),
        (
            [MAIN, NAMELESS[1], NAMELESS_PYTHON, NAMELESS[1]],
            "libtorch_cpu.so [nameless];libpython3.12.so.1.0 [nameless];libtorch_cpu.so [nameless]",
        ),
        ([MAIN, NAMELESS_PYTHON, WORK], "work (/x/job.py:2)"),
        ([MAIN, NAMELESS_PYTHON, ADD], "at::_ops::add::call"),
        ([MAIN, NAMELESS_PYTHON], "libpython3.12.so.1.0 [nameless]"),
        (
            [MAIN, NAMELESS_PYTHON, NAMELESS_LIBC],
            "libpython3.12.so.1.0 [nameless];libc.so.6 [nameless]",
        ),
        ([MAIN, *JIT, ADD], "[jit];at::_ops::add::call"),
        ([NAMELESS_LIBC, MAIN, NAMELESS_LIBC, NAMELESS_LIBC], "libc.so.6 [nameless]"),
    ],
)  # fmt: skip
def test_folding(tmp_path: Path, stack: list[int], line: str) -> None:
    with opened(written(stack), tmp_path) as profile:
        assert folded(profile) == [f"python;main (/x/job.py:1);{line} 1"]


def test_an_interpreter_without_symbols_is_plumbing_where_it_calls(tmp_path: Path) -> None:
    """What it does itself is not hidden, also where it calls Python at other times."""
    stacks = [
        [MAIN, NAMELESS_PYTHON, WORK, NAMELESS_PYTHON],
        [MAIN, NAMELESS_PYTHON, NAMELESS_LIBC],
    ]
    with opened(written(*stacks), tmp_path) as profile:
        assert folded(profile) == [
            "python;main (/x/job.py:1);libc.so.6 [nameless] 1",
            "python;main (/x/job.py:1);work (/x/job.py:2);libpython3.12.so.1.0 [nameless] 1",
        ]


def test_paths_that_differ_in_addresses_alone_are_one(tmp_path: Path) -> None:
    stacks = [[MAIN, each, ADD] for each in NAMELESS]
    with opened(written(*stacks), tmp_path) as profile:
        (line,) = folded(profile)
        assert line == "python;main (/x/job.py:1);libtorch_cpu.so [nameless];at::_ops::add::call 3"
        everything = folded(profile, all_frames=True)
    assert [line.split(";")[2] for line in everything] == [
        *("libtorch_cpu.so!+0x3000", "libtorch_cpu.so!+0x4000", "libtorch_cpu.so!+0x4100")
    ]


def test_what_calls_a_lambda_is_one_with_its_name(tmp_path: Path) -> None:
    with opened(written([MAIN, *INVOKES, STUB], [MAIN, INVOKES[1]]), tmp_path) as profile:
        main = "python;main (/x/job.py:1);f::{lambda}"
        assert sorted(folded(profile)) == [f"{main} 1", f"{main};at::native::add_stub: odd name 1"]
        assert any("f::{lambda};f::{lambda};" in line for line in folded(profile, all_frames=True))


def test_the_tree_shows_all_frames_and_full_names_on_demand(tmp_path: Path) -> None:
    stack = [MAIN, EVAL, ADD, DISPATCH, STUB]
    with opened(written(stack), tmp_path) as profile:
        short = [line.split("%", 1)[-1].strip() for line in tree_lines(profile)]
        assert short[-1] == "at::_ops::add::call > at::native::add_stub; odd\nname"
        lines = [line.split("%", 1)[-1].strip() for line in tree_lines(profile, 0, True, True)]
    assert lines[2:4] == [
        "_PyEval_EvalFrameDefault.cold",
        "at::_ops::add::call(at::Tensor const&, c10::Scalar const&)",
    ]
    assert lines[4] == "at::Tensor c10::Dispatcher::call<at::Tensor>(int) const"


def test_a_wrapper_whose_calls_are_counted_stays(tmp_path: Path) -> None:
    writer = written([MAIN, DISPATCH, STUB])
    writer.meta(mode="hybrid", c_calls=True)
    writer.exact_thread(1, 1)
    writer.exact_nodes(1, 1, (0, MAIN), (1, c_call(TORCH, 0x6000)))
    writer.exact_counts(1, {"node": 2, "calls": 4, "ticks": 700})
    with opened(writer, tmp_path) as profile:
        (line,) = folded(profile)
    assert line.startswith("python;main (/x/job.py:1);c10::Dispatcher::call;")


@pytest.mark.parametrize(
    ("name", "folds"),
    [
        ("c10::Dispatcher::call", True),
        ("c10::Dispatcher::callBoxed", True),
        ("c10::Dispatcher::registerImpl", False),
        ("c10::impl::wrap_kernel_functor_unboxed_::call", True),
        ("c10::impl::make_boxed_from_unboxed_functor::call", True),
        ("at::_ops::addmm::redispatch", True),
        ("at::_ops::addmm::call", False),
        ("at::_ops::addmm::redispatch@plt", True),
        ("at::_ops::addmm::call@plt", False),
        ("at::redispatch::addmm", True),
        ("torch::autograd::VariableType::{anonymous}::addmm", False),
        ("at::{anonymous}::wrapper_CPU_addmm", False),
        ("torch::autograd::TypeError_to_NotImplemented_", True),
        ("torch::autograd::THPVariable_add", False),
        ("pybind11::cpp_function::dispatcher", True),
        ("pybind11::cpp_function::initialize::{lambda#1}::_FUN", False),
        ("std::_Function_handler::_M_invoke", True),
        ("std::__invoke_impl", True),
        ("std::sort", False),
        ("core::ops::function::FnOnce::call_once::{shim:vtable#0}", True),
        ("<k::f::{closure#0} as core::ops::function::FnOnce>::call_once", True),
        ("<k::F as k::Shape>::call_once", False),
    ],
)
def test_wrappers(name: str, folds: bool) -> None:
    assert is_wrapper(name) == folds


def test_wrappers_are_known_by_short_names() -> None:
    name = (
        "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_"
        "<c10::CompileTimeFunctionPointer<at::Tensor (at::Tensor const&), &at::f>, at::Tensor> >"
        "::call(c10::OperatorKernel*, c10::DispatchKeySet, at::Tensor const&)"
    )
    assert is_wrapper(shorten_native(name))
    assert not is_plumbing("libtorch_cpu.so", name)


def test_a_stub_is_what_it_jumps_to() -> None:
    assert is_plumbing("libpython3.13.so.1.0", "_PyEval_EvalFrameDefault@plt")
    assert not is_plumbing("libpython3.13.so.1.0", "PyObject_Repr@plt")


def test_every_rule_says_where_it_holds() -> None:
    path = Path(plumbing.__file__).parent / "plumbing.toml"
    rules = tomllib.loads(path.read_text())["rule"]
    assert {frozenset(rule) for rule in rules} == {
        frozenset(("module", "symbols")),
        frozenset(("module", "python_names")),
        frozenset(("names",)),
    }
    patterns = [
        (rule.get("module"), each)
        for rule in rules
        for key in ("symbols", "python_names", "names")
        for each in rule.get(key, ())
    ]
    assert [pattern for pattern, n in Counter(patterns).items() if n > 1] == []


@pytest.mark.parametrize(
    ("path", "is_it"),
    [
        ("/usr/bin/python", True),
        ("/usr/bin/python3.13t", True),
        ("/usr/lib/libpython3.12.so.1.0", True),
        ("/usr/lib/libpython3.14d.so.1.0", True),
        ("/torch/lib/libtorch_python.so", False),
        ("/usr/lib/libboost_python312.so.1.83.0", False),
        ("/usr/bin/ipython_kernel", False),
    ],
)
def test_the_interpreter(path: str, is_it: bool) -> None:
    assert is_interpreter(path) == is_it
    assert is_plumbing(os.path.basename(path), "PyObject_CallMethod") == is_it


def test_report_takes_the_options() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    Tree().prepare_parser(parser)
    args = parser.parse_args(["--all-frames", "--full-names"])
    assert args.all_frames
    assert args.full_names

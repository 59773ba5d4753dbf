"""Kernels and graphs of a framework's compiler are named by the Python files that it wrote."""

import os
from pathlib import Path

import pytest

from pyhybrid.symbols.generated import Generated

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

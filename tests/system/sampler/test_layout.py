"""Built for an interpreter whose structs differ in one field, the sampler refuses.

A wheel meets patch releases that were not there when it was built.  Here the interpreter is as it
is, and the headers differ: each field that is followed is in turn moved by eight bytes, with all
behind it, or, alone, trades places with one that nobody follows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support import PATIENCE_S, TARGETS, made_once

pytestmark = [pytest.mark.version, pytest.mark.once, pytest.mark.needs("plain_build")]

INCLUDE = Path(sysconfig.get_path("include"))
NEW = sys.version_info >= (3, 13)
FRAME = ("internal/pycore_interpframe_structs.h", "internal/pycore_frame.h")
CODE = ("cpython/code.h",)
STATE = ("cpython/pystate.h",)
GIL = ("internal/pycore_interp_structs.h", "internal/pycore_gil.h")
CEVAL = ("internal/pycore_interp_structs.h", "internal/pycore_ceval_state.h")
# How the struct begins, and the field.
MOVED = [
    (FRAME, "_PyInterpreterFrame {", "f_executable" if NEW else "f_code"),
    (FRAME, "_PyInterpreterFrame {", "previous"),
    (FRAME, "_PyInterpreterFrame {", "instr_ptr" if NEW else "prev_instr"),
    (FRAME, "_PyInterpreterFrame {", "owner"),
    (FRAME, "_PyInterpreterFrame {", "localsplus"),
    (CODE, "_PyCode_DEF(SIZE) {", "co_firstlineno"),
    (CODE, "_PyCode_DEF(SIZE) {", "co_filename"),
    (CODE, "_PyCode_DEF(SIZE) {", "co_qualname"),
    (CODE, "_PyCode_DEF(SIZE) {", "co_linetable"),
    (CODE, "_PyCode_DEF(SIZE) {", "co_code_adaptive"),
    (STATE, "struct _ts {", "interp"),
    (STATE, "struct _ts {", "current_frame" if NEW else "cframe"),
    (STATE, "struct _ts {", "datastack_chunk"),
    (STATE, "struct _stack_chunk {", "size"),
    (GIL, "struct _gil_runtime_state {", "last_holder"),
    (GIL, "struct _gil_runtime_state {", "locked"),
    (CEVAL, "struct _ceval_state {", "gil"),
]
MOVED += [] if NEW else [(STATE, "struct _ts {", "root_cframe")]
TRADED = [
    *((FRAME, "_PyInterpreterFrame {", name, "f_builtins") for name in ("f_globals", "previous")),
    (FRAME, "_PyInterpreterFrame {", "f_executable" if NEW else "f_code", "f_builtins"),
    (FRAME, "_PyInterpreterFrame {", "instr_ptr" if NEW else "prev_instr", "f_builtins"),
    *(
        (CODE, "_PyCode_DEF(SIZE) {", name, "co_weakreflist")
        for name in ("co_filename", "co_name", "co_qualname", "co_linetable")
    ),
    *(
        (CODE, "_PyCode_DEF(SIZE) {", name, "co_nfreevars")
        for name in ("co_firstlineno", "co_argcount", "co_kwonlyargcount", "co_nlocalsplus")
    ),
    (CODE, "_PyCode_DEF(SIZE) {", "co_stacksize", "co_nfreevars"),
    (CODE, "_PyCode_DEF(SIZE) {", "co_flags", "co_nfreevars"),
    (CODE, "_PyCode_DEF(SIZE) {", "_co_firsttraceable", "co_nfreevars"),
    *(
        (STATE, "struct _ts {", name, "dict")
        for name in ("interp", "current_frame" if NEW else "cframe", "datastack_chunk")
    ),
    *(
        (STATE, "struct _ts {", name, "tracing")
        for name in ("py_recursion_limit", "py_recursion_remaining", "c_recursion_remaining")
    ),
]
if sys.version_info >= (3, 14):
    TRADED = [each for each in TRADED if each[2] != "c_recursion_remaining"]
PROGRAM = """
import ctypes, sys

library = ctypes.PyDLL(sys.argv[1])
library.layout_wrong.restype = ctypes.c_char_p

def outer(value): return inner(value, 2)
def inner(one, two): return library.layout_wrong()

print(outer(1))
"""


def field(text: str, struct: str, name: str) -> re.Match[str]:
    """The line that declares it."""
    at = text.index(struct)
    # With the macro's backslash, where it is one.
    found = re.compile(rf"^[ ]+[\w ]*[\w*][ *]*\*?{name}(\[[^\n;]*\])?(:1)?;", re.M).search(
        text, at
    )
    assert found, (struct, name)
    return found


def answer(folder: Path, include: Path) -> str:
    """What a library built with these headers says."""
    library = folder / "layout.so"
    words = [TARGETS / "frame_steps.py", "build", library, TARGETS / "layout.c", include]
    subprocess.run([sys.executable, *map(str, words)], check=True, timeout=PATIENCE_S)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, library],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        shutil.copytree(INCLUDE, folder / "include")

    return made_once(tmp_path_factory, "layout_headers", make) / "include"


@pytest.mark.further
def test_the_right_headers(tmp_path: Path, headers: Path) -> None:
    assert answer(tmp_path, headers) == "None"


def file_of(headers: Path, include: Path, files: tuple[str, ...], struct: str) -> Path:
    """Copies the headers, and finds the one that has the struct."""
    shutil.copytree(headers, include)
    there = (include / name for name in files)
    return next(each for each in there if each.exists() and struct in each.read_text())


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("moved", MOVED, ids=lambda moved: moved[-1])
def test_a_field_elsewhere(tmp_path: Path, headers: Path, moved: tuple) -> None:
    files, struct, name = moved
    file = file_of(headers, tmp_path / "include", files, struct)
    text = file.read_text()
    found = field(text, struct, name)
    end = " \\\n" if struct.startswith("_PyCode_DEF") else "\n"
    file.write_text(
        f"{text[: found.start()]}    void *moved_by_a_test;{end}{text[found.start() :]}"
    )
    assert "pyhybrid was built for" in answer(tmp_path, tmp_path / "include")


@pytest.mark.further
@pytest.mark.parametrize("traded", TRADED, ids=lambda traded: traded[2])
def test_a_field_alone_elsewhere(tmp_path: Path, headers: Path, traded: tuple) -> None:
    files, struct, *names = traded
    file = file_of(headers, tmp_path / "include", files, struct)
    text = file.read_text()
    first, second = sorted((field(text, struct, name) for name in names), key=re.Match.start)
    file.write_text(
        text[: first.start()]
        + second.group()
        + text[first.end() : second.start()]
        + first.group()
        + text[second.end() :]
    )
    assert "pyhybrid was built for" in answer(tmp_path, tmp_path / "include")


CHANGES_ITS_OFFSETS = """
import ctypes, struct
runtime = (ctypes.c_char * 4096).in_dll(ctypes.pythonapi, "_PyRuntime")
assert runtime[:8] == b"xdebugpy"
NUMBERS = 3 + 3 + {interpreter}  # its head, the runtime's, and of the interpreter's before
# The thread state's `size`, `prev`, `next`, `interp` and `current_frame`.
at = NUMBERS * 8 + 4 * 8
(offset,) = struct.unpack_from("Q", runtime, at)
struct.pack_into("Q", runtime, at, offset + 8)
"""


@pytest.mark.skipif(not NEW, reason="published from CPython 3.13 on")
@pytest.mark.parametrize("mode", ["hybrid", "trace"])
def test_the_program_runs_all_the_same(tmp_path: Path, mode: str) -> None:
    """Where the interpreter publishes other offsets than we have one line says why."""
    text = CHANGES_ITS_OFFSETS.format(interpreter=16 if sys.version_info >= (3, 14) else 13)
    (tmp_path / "sitecustomize.py").write_text(text)
    (tmp_path / "program.py").write_text("print('it ran')\n")
    words = [sys.executable, "-m", "pyhybrid", "--mode", mode, "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert "differs from the one that pyhybrid was built for" in line
    assert line.endswith("the program runs without a profile")
    assert not list(tmp_path.glob("out*"))

"""Interpreter plumbing: native frames that carry no information to a reader of a call path.

They lie between an eval loop and the C function that it calls, or start a thread; one call site
has a longer and a shorter chain of them before and after specialization.  Views and folded stacks
leave them out, so that such paths are one; the profile file and perf.data keep them.  What informs
stays: `builtin_sorted`, `list_sort`, `slot_tp_init` (someone's `__init__`), `gc_collect_main`.

This is data: a rule is (pattern of the module's file name, patterns of symbols), in the notation of
the shell (fnmatch).  Symbols are compared without the compiler's suffixes (`.cold`, `.lto_priv.0`).
"""

import os
import re
from fnmatch import translate
from functools import cache
from glob import escape

PYTHON = "*python*"  # libpython3.12.so.1.0, python3.13
KERNEL_MODULE = "[kernel]"
LIBC = "*"  # thread starts also stand in libpthread, and in statically linked programs

# Distributions strip libc of the names of thread and program starts: its nameless functions are
# plumbing where they are the outermost of a stack.
NAMELESS_STARTS = ("libc.so*", "libc-*.so*", "libpthread[-.]*")

# What a stripped interpreter's method tables call its plumbing.
METHODS = frozenset(
    (
        *("type.__call__", "method.__call__", "builtin_function_or_method.__call__"),
        *("method_descriptor.__call__", "classmethod_descriptor.__call__"),
        *("wrapper_descriptor.__call__", "method-wrapper.__call__", "builtins.__import__"),
    )
)

# Python functions between an `import` and the code of the module; `_find_and_load` stays for all.
IMPORT_FILES = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
IMPORT_KEPT = "_find_and_load"

# The way into the kernel; the system call's own function (`ksys_read`) and page faults stay.
KERNEL_ENTRIES = (
    "entry_SYSCALL_*",
    "do_syscall_64",
    "x64_sys_call",
    "asm_*",
    "ret_from_fork*",
)

RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        PYTHON,
        (
            # the eval loop, and the way into it
            "_PyEval_EvalFrameDefault",
            "_PyEval_EvalFrame",
            "_PyEval_Vector",
            "_PyFunction_Vectorcall",
            "PyEval_EvalCode",
            "PyEval_EvalCodeEx",
            "_PyEvalFramePushAndInit*",
            "_PyEvalFrameClearAndPop",
            "_TAIL_CALL_*",
            # calls of objects
            "_PyObject_*Call*",
            "PyObject_*Call*",
            "_PyObject_Vectorcall*",
            "PyObject_Vectorcall*",
            "_PyVectorcall_*",
            "PyVectorcall_Call",
            "_PyStack_*",
            "_Py_Check*Result*",
            "_PyCFunction_*Call*",
            "PyCFunction_Call",
            "PyCFunction_GetFlags",
            "cfunction_vectorcall_*",
            "cfunction_call",
            "cfunction_call_*",
            "method_vectorcall*",
            "method_call",
            "classmethoddescr_call",
            "methoddescr_call",
            "wrapperdescr_*call*",
            "wrapper_call",
            "wrap_*",
            "vectorcall_*",
            "object_vacall",
            "object_recursion_call",
            "slot_tp_call",
            "type_call",
            "do_call_core",
            # import statements
            "import_name",
            "PyImport_ImportModuleLevelObject",
            "import_find_and_load",
            "builtin___import__",
            "call_function",
            "lookup_maybe_method",
            "vectorcall_maybe",
            "vectorcall_method",
            # the program's start
            "run_eval_code_obj",
            "run_mod",
            "pyrun_file",
            "pyrun_*",
            "_PyRun_*",
            "PyRun_*",
            "pymain_*",
            "Py_BytesMain",
            "Py_RunMain",
            "Py_Main",
            "main",
            # a thread's start
            "thread_run",
            "pythread_wrapper",
        ),
    ),
    (
        LIBC,
        (
            "_start",
            "__libc_start_main*",
            "__libc_start_call_main",
            "start_thread",
            "clone",
            "clone3",
            "__clone",
            "__clone3",
            "__GI___clone",
            "__GI___clone3",
            "thread_start",
        ),
    ),
    (escape(KERNEL_MODULE), KERNEL_ENTRIES),
)


@cache
def _rules() -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    return [
        (re.compile(translate(module)), re.compile("|".join(map(translate, symbols))))
        for module, symbols in RULES
    ]


def is_interpreter(path: str) -> bool:
    """Is the module CPython itself?"""
    return re.match(translate(PYTHON), os.path.basename(path)) is not None


@cache
def starts_threads(file: str) -> bool:
    """Is it, by its name, a C library: its nameless functions may start threads and programs?"""
    return re.match("|".join(map(translate, NAMELESS_STARTS)), file) is not None


def is_trampoline(symbol: str | None) -> bool:
    """Is code in no module, by its name, CPython's own trampoline into the eval loop (-X perf)?"""
    return symbol is not None and symbol.startswith("py::")


def is_plumbing(file: str, symbol: str | None, python_name: str | None = None) -> bool:
    """Is it, by the name of the module's file (without folder) and by the symbol?

    `python_name` counts where there is no symbol.
    """
    if symbol is None:
        return python_name in METHODS and is_interpreter(file)
    symbol = symbol.split(".")[0]
    return any(m.match(file) and s.match(symbol) for m, s in _rules())

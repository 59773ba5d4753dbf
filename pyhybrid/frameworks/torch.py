"""PyTorch: modules of a model, backward work, phases of a step, compiles.

All names are in torch.toml.  Imports nothing of the framework's, and runs nothing of the program's.
"""

import json
import os
import sys
import tomllib
from collections import deque
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from pyhybrid.clock_pair import clock_pair

_PACKAGE = "torch"


@cache
def tables() -> dict[str, dict[str, Any]]:
    """All of torch.toml."""
    return tomllib.loads((Path(__file__).parent / "torch.toml").read_text())


def gpu() -> dict[str, Any]:
    """The table [gpu]."""
    return tables()["gpu"]


def modules() -> dict[str, Any]:
    """The table [modules]."""
    return tables()["modules"]


def steps() -> dict[str, Any]:
    """The table [steps]."""
    return tables()["steps"]


def method_of(loaded: ModuleType) -> CodeType | None:
    """That through which modules are called, of the Python module that has their class."""
    names = modules()
    method = vars(vars(loaded).get(names["class"], object)).get(names["method"])
    code = getattr(method, "__code__", None)
    return code if isinstance(code, CodeType) else None


def method_in(code: CodeType) -> CodeType | None:
    """The same, in the code of that Python module before it has run."""
    for name in (modules()["class"], modules()["method"]):
        nested = (each for each in code.co_consts if isinstance(each, CodeType))
        found = next((each for each in nested if each.co_name == name), None)
        if found is None:
            return None
        code = found
    return code


def tell(native: ModuleType, method: CodeType | None) -> None:
    """Tell `native` of it: from now on modules that are called are frames; else the profile says
    why not."""
    names = modules()
    if method is not None:
        wrappers = tuple(map(tuple, names["wrappers"]))
        try:
            native.tell_instances(method, names["direct"], names["children"], wrappers)
        except RuntimeError as error:
            native.write_meta(json.dumps({"modules_off": str(error)}).encode())


def tell_compilers(native: ModuleType) -> None:
    """Tell `native` of the compilers: from now on what they call is not counted."""
    names = (name.replace(":", ".") for name in tables()["compile"]["compilers"])
    native.tell_opaque((frozenset(names), ()))


def told() -> dict[str, Any]:
    """The compiles of which the framework has a record, if it has compiled anything."""
    names = tables()["compile"]
    module = sys.modules.get(names["records_module"])
    records = vars(module).get(names["records"]) if module else None
    if type(records) is not deque or not records:
        return {}
    monotonic_ns, unix_ns = clock_pair()
    since_ns = unix_ns - monotonic_ns
    facts = [_facts(vars(record), names, since_ns) for record in list(records)]
    return {"compiles": facts, "compiles_full": len(records) == records.maxlen}


def _facts(record: dict[str, Any], names: dict[str, Any], since_ns: int) -> dict[str, Any]:
    """Of one record its numbers and texts; moments as this machine's monotonic time."""
    fields = {ours: record.get(theirs) for ours, theirs in names["fields"].items()}
    facts = {key: value for key, value in fields.items() if type(value) in (int, str, bool)}
    moments = {f"{key}_ns": record.get(theirs) for key, theirs in names["moments_us"].items()}
    return facts | {
        key: value * 1000 - since_ns for key, value in moments.items() if type(value) is int
    }


def package_that_runs() -> CodeType | None:
    """The code of the package's own module, where that is being imported on this thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == _PACKAGE and frame.f_code.co_name == "<module>":
            return frame.f_code
        frame = frame.f_back
    return None


def link_backward(native: ModuleType) -> None:
    """From now on each autograd node is linked to the call that made it; else the profile says why
    not."""
    try:
        reason = _link(vars(sys.modules[_PACKAGE]))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        native.write_meta(json.dumps({"backward_off": reason}).encode())


def _link(torch: dict[str, Any]) -> str | None:
    """None, or why nodes cannot be linked.  It is proven by some that are made here."""
    from pyhybrid import _torch

    names = tables()["backward"]
    path = Path(torch["__file__"]).parent / names["library"]
    if missing := _torch.look(str(path)):
        return f"libtorch has no {missing}"
    numbers = []
    try:
        with torch["enable_grad"]():
            one = torch["ones"]((), device="cpu", requires_grad=True)
            gradient = torch["ones"]((), device="cpu")
            with torch["autograd"].profiler.record_function("pyhybrid"):
                pass
            for _ in range(names["nodes"]):
                node = (one * one).grad_fn
                _torch.made()
                numbers.append(node._sequence_nr())
                node(gradient)
    finally:
        reason = _torch.link(tuple(numbers))
    return f"not proven: {reason}" if reason else None


def is_plumbing(file: str, name: str) -> bool:
    """Is a Python function one between a module and its `forward`?"""
    names = modules()
    return name in names["plumbing"] and file.endswith(names["plumbing_file"])


def generated() -> dict[str, Any]:
    """The table [generated]."""
    return tables()["generated"]


def operators() -> dict[str, Any]:
    """The table [operators]."""
    return tables()["operators"]


def tell_steps(native: ModuleType, above: str, others: Iterable[str] = ()) -> None:
    """Tell `native` of the functions that are phases, and of `others`; `above`: the folder that
    PyTorch's is in."""
    table = steps()
    functions: dict[str, tuple[tuple[str, bool], ...]] = {}
    for phase, names in {**table["phases"], "": others}.items():
        for name in names:
            file, _, function = name.rpartition(":")
            calls_back = phase == table["ends"]
            functions[function] = (*functions.get(function, ()), (file, calls_back))
    library = os.path.join(os.path.dirname(os.__file__), "")
    packages = tuple(f"{library}{each}-packages{os.sep}" for each in ("site", "dist"))
    native.watch_calls(functions, (f"{above}/torch/",), (library,), packages)


def phase_of(file: str, name: str) -> str | None:
    """The phase that a Python function is; None: it is none."""
    return next((p for end, p in _phases().get(name, ()) if file.endswith(end)), None)


@cache
def _phases() -> dict[str, list[tuple[str, str]]]:
    """Of each name the ends of files, and the phases."""
    phases: dict[str, list[tuple[str, str]]] = {}
    for phase, names in steps()["phases"].items():
        for name in names:
            file, _, function = name.rpartition(":")
            phases.setdefault(function, []).append((file, phase))
    return phases


def is_compiler(file: str, name: str) -> bool:
    """Is a Python function one whose callees are not counted?"""
    for compiler in tables()["compile"]["compilers"]:
        module, _, qualname = compiler.partition(":")
        if name == qualname and file.endswith(f"/{module.replace('.', '/')}.py"):
            return True
    return False

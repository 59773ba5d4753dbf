"""PyTorch: the modules of a model, and the phases of a step.  All names are in torch.toml.

Imports nothing of the framework's, and runs nothing of the program's.
"""

import os
import tomllib
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / "torch.toml").read_text())


def modules() -> dict[str, Any]:
    """The table [modules]."""
    return _tables()["modules"]


def steps() -> dict[str, Any]:
    """The table [steps]."""
    return _tables()["steps"]


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
    """Tell `native` of it: from now on modules that are called are frames."""
    names = modules()
    if method is not None:
        wrappers = tuple(map(tuple, names["wrappers"]))
        native.tell_instances(method, names["direct"], names["children"], wrappers)


def is_plumbing(file: str, name: str) -> bool:
    """Is a Python function one between a module and its `forward`?"""
    names = modules()
    return name in names["plumbing"] and file.endswith(names["plumbing_file"])


def tell_steps(native: ModuleType, above: str) -> None:
    """Tell `native` of the functions that are phases; `above`: the folder that PyTorch's is in."""
    table = steps()
    functions: dict[str, tuple[tuple[str, bool], ...]] = {}
    for phase, names in table["phases"].items():
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

"""PyTorch: the modules of a model, as frames of their own.  All names are in torch.toml.

Imports nothing of the framework's, and runs nothing of the program's.
"""

import tomllib
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


@cache
def modules() -> dict[str, Any]:
    """The table [modules]."""
    text = (Path(__file__).parent / "torch.toml").read_text()
    table: dict[str, Any] = tomllib.loads(text)["modules"]
    return table


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

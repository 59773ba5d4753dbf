"""PyTorch: modules of a model, backward work, phases of a step, compiles.

All names are in torch.toml.  Imports nothing of the framework's, and runs nothing of the program's.
"""

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable
from functools import cache
from types import CodeType, FrameType, ModuleType
from typing import Any

from pyhybrid.base.clock_pair import MONOTONIC
from pyhybrid.base.files import table_beside

_PACKAGE = "torch"
_imported_in = 0  # the process in which that was seen
FOLDER = f"/{_PACKAGE}/"  # of its files


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Return all of torch.toml."""
    return table_beside(__file__, "torch")


def gpu() -> dict[str, Any]:
    """Return the table [gpu]."""
    return tables()["gpu"]


def memory() -> dict[str, Any]:
    """Return the table [memory]."""
    return tables()["memory"]


def modules() -> dict[str, Any]:
    """Return the table [modules]."""
    return tables()["modules"]


def hooks() -> dict[str, Any]:
    """Return the table [hooks]."""
    return tables()["hooks"]


def steps() -> dict[str, Any]:
    """Return the table [steps]."""
    return tables()["steps"]


def method_of(loaded: ModuleType) -> CodeType | None:
    """Return that through which modules are called, of the Python module that has their class."""
    names = modules()
    method = vars(vars(loaded).get(names["class"], object)).get(names["method"])
    code = getattr(method, "__code__", None)
    return code if isinstance(code, CodeType) else None


def method_in(code: CodeType) -> CodeType | None:
    """Return the same, in the code of that Python module before it has run."""
    for name in (modules()["class"], modules()["method"]):
        nested = (each for each in code.co_consts if isinstance(each, CodeType))
        found = next((each for each in nested if each.co_name == name), None)
        if found is None:
            return None
        code = found
    return code


def register_modules(native: ModuleType, method: CodeType | None) -> None:
    """Register it with `native`: from now on modules that are called are frames; else the profile
    has why not."""
    names = modules()
    if method is not None:
        wrappers = tuple(map(tuple, names["wrappers"]))
        others = tuple(names["lists"]), tuple(names["named_inside"])
        try:
            native.tell_instances(method, names["direct"], names["children"], wrappers, *others)
        except RuntimeError as error:
            native.write_meta(json.dumps({"modules_off": str(error)}).encode())


def register_compilers(native: ModuleType) -> None:
    """Register the compilers with `native`: from now on what they call is not counted."""
    names = (name.replace(":", ".") for name in tables()["compile"]["compilers"])
    native.tell_opaque((frozenset(names), ()))


def phases() -> dict[str, list[str]]:
    """Return the functions that are each phase of a step: the end of the file's name, and the
    qualified name.  What compiles is one."""
    modules = (each.partition(":") for each in tables()["compile"]["compilers"])
    compilers = [f"/{module.replace('.', '/')}.py:{name}" for module, _, name in modules]
    return {**steps()["phases"], tables()["compile"]["phase"]: compilers}


def metadata(native: ModuleType) -> dict[str, Any]:
    """Return the compiles of which the framework has a record, and the shapes that were noted."""
    return _compiles(native) | _noted_shapes()


def _compiles(native: ModuleType) -> dict[str, Any]:
    names = tables()["compile"]
    module = sys.modules.get(names["records_module"])
    records = vars(module).get(names["records"]) if module else None
    if type(records) is not deque or not records:
        return {}
    # The record's moments are of the program's own time of day, whatever that is.
    since_ns = time.time_ns() - native.read_clock(MONOTONIC)
    facts = [_facts(vars(record), names, since_ns) for record in list(records)]
    full = len(records) == records.maxlen
    breaks = _breaks(vars(module), names)
    graphs = _cuda_graphs(vars(module), names)
    return {"compiles": facts, "compiles_full": full, "graph_breaks": breaks} | graphs


def _cuda_graphs(module: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """Return how often no CUDA graph was made, and how often one was made again; those that this
    thread has."""
    of, kind = names["skips"]
    counters = module.get(names["breaks"][0])
    counted = counters.get(of) if isinstance(counters, dict) else None
    skipped = counted.get(kind, 0) if isinstance(counted, dict) else 0
    again = 0
    containers, manager, rerecords = names["graphs"]
    trees = sys.modules.get(names["graphs_module"])
    here = vars(trees).get("local") if trees else None
    known = vars(here).get(containers) if here is not None else None
    for each in list(known.values()) if isinstance(known, dict) else ():
        made = vars(each).get(manager)
        by_graph = vars(made).get(rerecords) if made is not None else None
        for of_graph in list(by_graph.values()) if isinstance(by_graph, dict) else ():
            again += sum(n for n in list(of_graph.values()) if type(n) is int)
    return {"cuda_graphs": [skipped if type(skipped) is int else 0, again]}


def _breaks(module: dict[str, Any], names: dict[str, Any]) -> list[tuple[str, int]]:
    """Return why graphs were broken, a line each, and how often."""
    of, kind = names["breaks"]
    counters = module.get(of)
    found = counters.get(kind) if isinstance(counters, dict) else None
    if not isinstance(found, dict):
        return []
    texts = [(str(text), n) for text, n in list(found.items()) if type(n) is int]
    return [(_break_text(text, names["break_lines"]), n) for text, n in texts]


def _break_text(text: str, beginnings: list[str]) -> str:
    first, *lines = (line.strip() for line in text.splitlines() if line.strip())
    kept = [line for begins in beginnings for line in lines if line.startswith(begins)]
    for begins in beginnings:
        kept = [line.removeprefix(begins) for line in kept]
    return "; ".join([first, *kept])


def _facts(record: dict[str, Any], names: dict[str, Any], since_ns: int) -> dict[str, Any]:
    """Return the numbers and texts of one record; moments are as this machine's monotonic time."""
    fields = {ours: record.get(theirs) for ours, theirs in names["fields"].items()}
    facts = {key: value for key, value in fields.items() if type(value) in (int, str, bool)}
    moments = {f"{key}_ns": record.get(theirs) for key, theirs in names["moments_us"].items()}
    return facts | {
        key: value * 1000 - since_ns for key, value in moments.items() if type(value) is int
    }


def package_that_runs() -> CodeType | None:
    """Return the code of the package's own module, where that is being imported on this thread."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == _PACKAGE and frame.f_code.co_name == "<module>":
            return frame.f_code
        frame = frame.f_back
    return None


def note_inputs(native: ModuleType) -> None:
    """Note from now on with how many integers models are called: PyTorch is loaded."""
    names, package = tables()["inputs"], vars(sys.modules[_PACKAGE])
    method = method_of(sys.modules[f"{_PACKAGE}.nn.modules.module"])
    heard = getattr(package.get("_C"), names["heard"], None)
    types = tuple(package.get(each) for each in names["types"])
    if method is not None and heard is not None and None not in types:
        native.watch_inputs(method, package[names["class"]], types, heard)


def link_backward(native: ModuleType) -> None:
    """Link each autograd node to the call that made it, from now on; else the profile has why
    not."""
    try:
        reason = _link(vars(sys.modules[_PACKAGE]))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        native.write_meta(json.dumps({"backward_off": reason}).encode())


def _link(torch: dict[str, Any]) -> str | None:
    """Link them; returns None, or why nodes cannot be linked: by some that are made here."""
    from pyhybrid import _torch

    if _torch.link_again():
        return None
    names = tables()["backward"]
    path = os.path.join(os.path.dirname(torch["__file__"]), names["library"])
    if missing := _torch.look(path):
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


def note_shapes(native: ModuleType, is_new: bool) -> None:
    """Note some calls of operators with their shapes, from now on; else the profile has why not.

    `is_new`: PyTorch was imported just now; what it uses may not work in a fork of the process.
    """
    global _imported_in
    _imported_in = os.getpid() if is_new else 0
    try:
        reason = _prove_shapes(vars(sys.modules[_PACKAGE]))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        write_off(native, "shapes", reason)


def write_off(native: ModuleType, what: str, reason: str) -> None:
    """Note in the profile why `what` is not recorded."""
    native.write_meta(json.dumps({f"{what}_off": reason}).encode())


def _prove_shapes(torch: dict[str, Any]) -> str | None:
    """Return None, or why they cannot be noted.  It is proven with tensors that are made here."""
    from pyhybrid import _torch

    names = tables()["shapes"]
    if _torch.note_shapes_again(names["probability"]):
        return None
    path = os.path.join(os.path.dirname(torch["__file__"]), tables()["backward"]["library"])
    if missing := _torch.prove_shapes(path):
        return f"libtorch has no {missing}"
    reason: str | None = "operators failed"
    try:
        with torch["no_grad"]():
            for i, (type_name, number) in enumerate(names["types"].items()):
                sizes = (2, 3, 5, 7, 11, 13)[: i % 7]
                one = torch["empty"](sizes, dtype=torch[type_name], device="cpu")
                _torch.tensor(one._cdata, tuple(one.shape), one.stride(), number)
            a, b = (torch["ones"]((2, 3), device="cpu") for _ in range(2))
            for with_inputs in (True, False):  # what is left on the stack then is no zeros
                _torch.look_at_operators(with_inputs)
                for function, arguments, n_others in (
                    ("mul", (a, b), 0),
                    ("add", (a, b), 1),
                    ("relu", (b,), 0),
                    ("where", (a > b, b, a), 0),
                    ("lerp", (a, b, a), 0),
                ):
                    _torch.expect((*(each._cdata for each in arguments), *[0] * n_others))
                    torch[function](*arguments)
    finally:
        reason = _torch.note_shapes(names["probability"])
    return f"not proven: {reason}" if reason else None


def _noted_shapes() -> dict[str, Any]:
    """Return those that were noted, as metadata of the profile."""
    extension = sys.modules.get("pyhybrid._torch")
    if extension is None:
        return {}
    names = tables()["shapes"]
    types = {number: name for name, number in names["types"].items()}
    rows, places, n_lost = extension.noted_shapes()
    rows = [row for row in rows if not row[0].startswith(names["others"])]
    shapes = [(name, _shapes_text(words, types), n) for name, words, n, _ in rows]
    if not shapes:
        return {}
    at = {number: i for i, (*_, number) in enumerate(rows)}
    calls = [(at[of], *place) for of, *place in places if of in at]
    facts = {"shapes": shapes, "shapes_probability": names["probability"], "shapes_lost": n_lost}
    return facts | {"shapes_calls": calls}


def measured_peak(shapes: list[tuple[str, str, int]]) -> dict[str, Any] | None:
    """Return how many floating-point operations a second a product of matrices makes here, of the
    type of the program's, with as many threads; None: it made none, or that failed, or the process
    may be a fork of the one that imported PyTorch: it would wait for threads that it does not have.
    """
    of_type: dict[str, int] = {}
    names = tables()["shapes"]
    for name, text, n in shapes if os.getpid() == _imported_in else ():
        if name in names["products"]:
            kind = next((each for each in names["peak_types"] if f"{each}[" in text), "")
            of_type[kind] = of_type.get(kind, 0) + n
    of_type.pop("", None)
    if not of_type:
        return None
    kind = max(of_type, key=lambda each: of_type[each])
    torch = vars(sys.modules[_PACKAGE])
    try:
        with torch["_C"].DisableTorchFunction(), torch["_C"]._DisableTorchDispatch():
            most = _products_a_second(torch, kind, names)
        return {"flops": most, "type": kind, "threads": torch["get_num_threads"]()}
    except Exception:  # of what the program has made of its PyTorch
        return None


def _products_a_second(torch: dict[str, Any], kind: str, names: dict[str, Any]) -> int:
    """Return the most floating-point operations a second, of matrices that grow while one product
    does not take long."""
    most, size, end_ns = 0.0, names["peak_sizes"][0], time.perf_counter_ns() + names["peak_ns"]
    with torch["no_grad"]():
        while size <= names["peak_sizes"][1]:
            one = torch["ones"]((size, size), dtype=torch[kind], device="cpu")
            out, took_ns = torch["empty_like"](one), 0
            for _ in range(names["peak_tries"]):
                begin_ns = time.perf_counter_ns()
                torch["mm"](one, one, out=out)
                took_ns = time.perf_counter_ns() - begin_ns
                most = max(most, 2 * size**3 * 10**9 / max(took_ns, 1))
            if time.perf_counter_ns() + 8 * names["peak_tries"] * took_ns > end_ns:
                break
            size *= 2
    return round(most)


def _shapes_text(words: tuple[int, ...], types: dict[int, str]) -> str:
    """Return `float32[64, 128], _`: of each tensor its type and sizes; `_`: of another input."""
    parts, at = [], 0
    while at < len(words):
        if words[at] >> 63:
            parts.append("_")
            at += 1
            continue
        kind, n = words[at] >> 32, words[at] & 0xFFFF_FFFF
        sizes = ", ".join(map(str, words[at + 1 : at + 1 + n]))
        parts.append(f"{types.get(kind, f'type {kind}')}[{sizes}]")
        at += 1 + n
    while parts and parts[-1] == "_":
        parts.pop()
    return ", ".join(parts)


def is_plumbing(file: str, name: str) -> bool:
    """Is a Python function one between a module and its `forward`?"""
    names = modules()
    return name in names["plumbing"] and file.endswith(names["plumbing_file"])


def generated() -> dict[str, Any]:
    """Return the table [generated]."""
    return tables()["generated"]


def is_generated(file: str) -> bool:
    """Is it Python that a compiler wrote?"""
    return re.search(generated()["python"], file) is not None


def operators() -> dict[str, Any]:
    """Return the table [operators]."""
    return tables()["operators"]


def register_steps(native: ModuleType, above: str, others: Iterable[str] = ()) -> None:
    """Register the functions that are phases, and `others`, with `native`; `above`: the folder that
    PyTorch's is in."""
    table, compiles = steps(), tables()["compile"]["phase"]
    functions: dict[str, tuple[tuple[str, bool, bool, bool, int], ...]] = {}
    for group, (phase, names) in enumerate([("", others), *phases().items()]):
        for name in names:
            file, _, function = name.rpartition(":")
            is_kind = (phase == each for each in (table["ends"], table["with_rest"], compiles))
            entry = (file, *is_kind, group)
            functions[function] = (*functions.get(function, ()), entry)
    library = os.path.join(os.path.dirname(os.__file__), "")
    packages = tuple(f"{library}{each}-packages{os.sep}" for each in ("site", "dist"))
    native.watch_calls(functions, (f"{above}/torch/",), (library,), packages)
    native.on_noted(_Written(native).note)


def ranks() -> dict[str, int]:
    """Return which rank the program made this process by PyTorch's process group, as meta data of a
    profile; empty: it is none.  Raises what PyTorch does."""
    table = tables()["ranks"]
    module = sys.modules.get(table["module"])
    if module is None or not getattr(module, table["begun"])():
        return {}
    return {key: int(getattr(module, table[key])()) for key in ("rank", "world_size")}


class _Written:
    """Writes what was compiled while the program runs, so that one that is killed has it, too."""

    def __init__(self, native: ModuleType) -> None:
        self._native, self._n = native, 0

    def note(self) -> None:
        """Write all compiles where there are a quarter more than the last time: it replaces them,
        and takes space in the spool."""
        facts = _compiles(self._native)
        if len(facts.get("compiles", ())) > 1.25 * self._n:
            self._n = len(facts["compiles"])
            self._native.write_meta(json.dumps(facts).encode())


def brings_batch(name: str) -> bool:
    """Does a function of this name, of those that are the phase `data`, return a batch?"""
    return str(steps()["phases"]["data"][0]).endswith(f":{name}")


def is_listed(functions: Iterable[str], file: str, name: str) -> bool:
    """Is a Python function one of these: ends of files' names, `:`, and qualified names?"""
    return any(
        each.endswith(f":{name}") and file.endswith(each.partition(":")[0]) for each in functions
    )


def phase_of(file: str, name: str) -> str | None:
    """Return the phase that a Python function is; None: it is none."""
    return next((p for end, p in _phases().get(name, ()) if file.endswith(end)), None)


@cache
def _phases() -> dict[str, list[tuple[str, str]]]:
    """Return for each name the ends of files, and the phases."""
    of_name: dict[str, list[tuple[str, str]]] = {}
    for phase, names in phases().items():
        for name in names:
            file, _, function = name.rpartition(":")
            of_name.setdefault(function, []).append((file, phase))
    return of_name


def is_compiler(file: str, name: str) -> bool:
    """Is a Python function one whose callees are not counted?"""
    return bool(phase_of(file, name) == tables()["compile"]["phase"])

"""PyTorch's memory while the program runs: what its CPU allocator gave out, by call and by step,
and who holds what grows with the steps.

Counting is done in C (src/pytorch/memory.c).  Here steps are followed: at the begin of each, what
lives and the most that lived; at a few of them who holds what calls got that have more each time.
That is found as the garbage collector would, from a tensor to what refers to it, and takes some
tenths of a second where the program has a million objects.  All this runs in callbacks, so nothing
of it is counted.  Imports nothing of the framework's, and runs nothing of the program's.
"""

import gc
import json
import os
import sys
from array import array
from bisect import bisect_right
from collections.abc import Container, Sequence
from contextlib import suppress
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from pyhybrid.base.clock_pair import MONOTONIC
from pyhybrid.frameworks import torch as names
from pyhybrid.frameworks.torch_steps import Steps

_FIRST_LOOK, _LOOKS = 8, 4  # the step at which it is looked who holds what; how often at most
_MOST_STEPS = 4096  # of which figures are kept: if there are more, each second one of these
_LEAST_GROWTH = 256  # bytes a step
_MOST_GROWING, _MOST_HOLDERS = 8, 3  # calls of which it is looked for who holds what, and of each
_MOST_GRAPHS, _LEAST_GRAPHS = 4, 4  # ends of autograd graphs that are looked at, if so many live
_DEPTH, _WIDTH = 8, 256  # objects between a tensor and who holds it, and that refer to those
_FORWARD, _BACKWARD, _AFTER = range(3)  # src/pytorch/pytorch.h, memory_moment
_OPTIMIZED = 1  # CO_OPTIMIZED: locals of such code are no dict

_memory: "Memory | None" = None  # the session's


def begin(native: ModuleType) -> Steps | None:
    """Follow all that is given out from now on; PyTorch is loaded.  None: it cannot be, and the
    profile has why."""
    global _memory
    _memory = None
    try:
        reason = _prove(vars(sys.modules["torch"]))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        names.write_off(native, "memory", reason)
        return None
    _memory = Memory(native)
    return _memory


def metadata(native: ModuleType) -> dict[str, Any]:
    """Return what was found, as metadata of the profile, and follow nothing more."""
    global _memory
    memory, _memory = _memory, None
    return {"memory": memory.end()} if memory else {}


def _prove(torch: dict[str, Any]) -> str | None:
    """Return None, or why it cannot be followed: with tensors that are made here."""
    from pyhybrid import _torch

    table = names.memory()
    path = os.path.join(os.path.dirname(torch["__file__"]), table["library"])
    missing = _torch.prove_memory(path)
    try:
        for n in () if missing else table["sizes"]:
            one = torch["empty"]((n,), dtype=torch["uint8"], device="cpu")
            _torch.given(one.data_ptr(), n)
    finally:
        reason = _torch.follow_memory()
    return f"libc10 has no {missing}" if missing else reason and f"not proven: {reason}"


class Memory(Steps):
    """Follow the memory of a session."""

    def __init__(self, native: ModuleType) -> None:
        super().__init__(more=[names.memory()["uses"]])
        self._native = native
        self._steps: list[tuple[int, int, int]] = []  # begin, alive then, the most in it
        self._every = 1
        self._begin_ns = 0
        self._alive = 0
        self._first_peak = 0  # before the first step
        self._is_backward = False  # the last phase that began
        self._wants_base = True  # the next forward pass is the first since a backward one
        self._marks: dict[int, array[int]] = {}  # at some steps what each call had
        self._look_at = _FIRST_LOOK
        self._n_looks = 0
        self._look_ns = 0
        self._holders: dict[int, list[str]] = {}  # by call
        self._growing: dict[int, tuple[int, int, int]] = {}  # bytes, of so many steps, since
        self._written = 0

    def step_begins(self) -> None:
        """See Steps."""
        from pyhybrid import _torch

        now_ns = self._native.read_clock(MONOTONIC)
        alive, most, *_ = _torch.memory_totals(True)
        if not self._begin_ns:
            self._first_peak = most
        elif (self.n_steps - 1) % self._every == 0:
            self._steps.append((self._begin_ns, alive, most))
        if len(self._steps) >= _MOST_STEPS:
            self._steps, self._every = self._steps[::2], self._every * 2
        self._begin_ns, self._alive = now_ns, alive
        self._look()
        if self.n_steps > 1.25 * self._written + 4:
            self._written = self.n_steps
            self._native.write_meta(json.dumps({"memory": self._facts()}).encode())

    def phase_begins(self, phase: str) -> None:
        """See Steps."""
        from pyhybrid import _torch

        if phase == names.memory()["uses"]:
            _torch.memory_mark(_BACKWARD)
            self._is_backward = True
            self._wants_base = True
            return
        if self._is_backward:
            _torch.memory_mark(_AFTER)
            self._is_backward = False
        if phase == "forward" and self._wants_base:
            _torch.memory_mark(_FORWARD)
            self._wants_base = False

    def end(self) -> dict[str, Any]:
        """Return what was found."""
        from pyhybrid import _torch

        facts = self._facts()
        _torch.stop_memory()
        return facts

    def _facts(self) -> dict[str, Any]:
        from pyhybrid import _torch

        alive, _, peak, noted, n_lost, lost_bytes = _torch.memory_totals(False)
        return {
            "alive": alive,
            "peak": peak,
            "noted_peak": noted,
            "before": self._first_peak,
            "lost": n_lost,
            "lost_bytes": lost_bytes,
            "steps": self._steps,
            "every": self._every,
            "n_steps": self.n_steps,
            "calls": _torch.memory_calls(),
            "growing": [
                {"call": call, "bytes": growth[0], "steps": growth[1], "since": growth[2]}
                | {"holders": self._holders.get(call, [])}
                for call, growth in self._growing.items()
            ],
            "look_ns": self._look_ns,
            "failed": self.failed,
        }

    # --- what grows, and who holds it -------------------------------------------------------------

    def _look(self) -> None:
        """Keep what calls have at some steps; at the last one of these look what grows."""
        from pyhybrid import _torch

        last = self._look_at
        if self.n_steps not in (last // 2, last * 3 // 4, last):
            return
        self._marks[self.n_steps] = array("q", _torch.memory_alive())
        if self.n_steps < last:
            return
        begin_ns = self._native.read_clock(MONOTONIC)
        growing = self._grows(last)
        self._growing = {call: (more, last - last // 2, last // 2) for call, more in growing}
        new = [call for call, _ in growing[:_MOST_GROWING] if call not in self._holders]
        if new and self._n_looks < _LOOKS:
            self._n_looks += 1
            with suppress(Exception):  # of the program's objects
                pieces = {call: _torch.memory_oldest(call) for call in new}
                self._holders |= {call: [] for call in new} | holders_of(pieces)
        self._look_ns += self._native.read_clock(MONOTONIC) - begin_ns
        self._marks = {last: self._marks[last]}
        self._look_at *= 2

    def _grows(self, last: int) -> list[tuple[int, int]]:
        """Return the calls that have more each time, the most first, and by how much."""
        halves = [self._marks.get(at) for at in (last // 2, last * 3 // 4, last)]
        first, middle, end = (each if each is not None else array("q") for each in halves)
        first.extend([0] * (len(end) - len(first)))
        middle.extend([0] * (len(end) - len(middle)))
        least = _LEAST_GROWTH * (last - last // 2)
        grown = [
            (call, c - a)
            for call, (a, b, c) in enumerate(zip(first, middle, end, strict=False))
            if c - a >= least and a < b < c and (c - a) < 4 * min(b - a, c - b)
        ]
        return sorted(grown, key=lambda each: -each[1])


def holders_of(pieces: dict[int, list[tuple[int, int, int]]]) -> dict[int, list[str]]:
    """Return who holds tensors in such memory (address, bytes, step), by what it is that of, the
    nearest first."""
    torch = vars(sys.modules["torch"])
    locals_now = _locals()
    with torch["_C"].DisableTorchFunction():
        wanted = _tensors_in(pieces, torch)
        ends = _search([(tensor, {of}) for tensor, of in wanted], locals_now)
        rest = set(pieces) - ends.keys()
        # What nothing of Python's holds, an autograd graph may: it is held by its end.
        graphs = [(each, rest) for each in _graphs(torch, locals_now)] if rest else []
        by_graphs = _search(graphs, locals_now)
    for of, texts in by_graphs.items():
        ends[of] = [f"the autograd graph of a tensor: {text}" for text in texts]
    return {of: list(dict.fromkeys(texts))[:_MOST_HOLDERS] for of, texts in ends.items()}


def _tensors_in(
    pieces: dict[int, list[tuple[int, int, int]]], torch: dict[str, Any]
) -> list[tuple[Any, int]]:
    """Return tensors in such memory, of each the one of the oldest step, and of what it is."""
    from pyhybrid import _torch

    ordered = sorted((*piece, of) for of, some in pieces.items() for piece in some)
    begins = [piece[0] for piece in ordered]
    oldest: dict[int, tuple[int, Any]] = {}
    for each in _torch.objects((torch["Tensor"], torch["nn"].Parameter)):
        try:
            address = torch["_C"]._data_address(each)
        except RuntimeError:  # it has no storage
            continue
        at = bisect_right(begins, address) - 1
        if at < 0:
            continue
        begin, size, step, of = ordered[at]
        if address < begin + size and step < oldest.get(of, (sys.maxsize, None))[0]:
            oldest[of] = step, each
    return [(tensor, of) for of, (_, tensor) in oldest.items()]


def _graphs(torch: dict[str, Any], named: Container[int]) -> list[Any]:
    """Return some tensors that are ends of autograd graphs, and have no name; none where they are
    few, as those of the step that has ended."""
    from pyhybrid import _torch

    found = [
        each
        for each in _torch.objects((torch["Tensor"],))
        if id(each) not in named and each.requires_grad and each.grad_fn
    ]
    return found[:_MOST_GRAPHS] if len(found) >= _LEAST_GRAPHS else []


def _locals() -> dict[int, str]:
    """Return what local variables of this thread's functions are called, by their object's id."""
    found: dict[int, str] = {}
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_flags & _OPTIMIZED and code.co_filename != __file__:
            values = frame.f_locals
            for name in tuple(values):
                found.setdefault(id(values[name]), f"`{name}`, a local variable of {_place(code)}")
            if type(values) is dict:  # a copy (before 3.13), which would keep them alive
                values.clear()
            del values
        frame = frame.f_back
    return found


def _search(starts: list[tuple[Any, set[int]]], named: dict[int, str]) -> dict[int, list[str]]:
    """Return who holds objects, by what each is for: those that are the fewest references away."""
    found: dict[int, list[str]] = {}
    whose = {id(each): of for each, of in starts}
    level = [each for each, _ in starts]
    ours = {id(starts), id(whose), *map(id, starts)}
    for _ in range(_DEPTH):
        for each in level:
            if id(each) in named:
                for of in whose[id(each)]:
                    found.setdefault(of, []).append(named[id(each)])
        level = [each for each in level if not whose[id(each)] <= found.keys()]
        if not level:
            break
        ours.add(id(level))
        above = gc.get_referrers(*level)[:_WIDTH]
        ours.add(id(above))
        below, level = level, []
        ends: list[tuple[set[int], str]] = []
        while above:
            each = above.pop()
            if id(each) in ours or id(each) in whose:
                continue
            those = [whose[id(to)] for to in gc.get_referents(each) if id(to) in whose]
            searched = set[int]().union(*those) - found.keys()
            text = _end(each, below, whose) if searched else ""
            if text:
                ends.append((searched, text))
            elif text is None:
                whose[id(each)] = searched
                level.append(each)
        del below
        for searched, text in ends:
            for of in searched:
                found.setdefault(of, []).append(text)
    return found


def _end(holder: Any, held: Sequence[Any], known: Container[int]) -> str | None:
    """Return who it is that refers to one of `held`; None: what refers to it tells; empty: it is of
    no interest.  `known`: the ids of what is held, and of what that is in."""
    kind = type(holder)
    if kind is dict:
        module = sys.modules.get(str(dict.get(holder, "__name__")))
        if module is not None and vars(module) is holder:
            name = _name_in(holder, held)
            return f"`{name}`, a global variable of {holder['__name__']}{_hooks(name)}"
        return None
    if kind is FunctionType:
        cells = holder.__closure__ or ()
        for name, cell in zip(holder.__code__.co_freevars, cells, strict=False):
            if id(cell) in known:
                is_hook = any(holder is hook for hook in _module_hooks())
                what = "a module's hook " if is_hook else ""
                return f"`{name}`, in the closure of {what}{_place(holder.__code__)}"
        return None
    if kind.__module__ in ("builtins", "collections", "functools", "_thread"):
        return "" if kind.__name__ in ("frame", "list_iterator") else None
    name = _name_in(_attributes(holder), held)
    at = f"`{name}` of " if name else ""
    return f"{at}an object of {kind.__module__}.{kind.__qualname__}"


def _attributes(holder: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _name_in(variables: dict[str, Any], held: Sequence[Any]) -> str:
    return next(
        (str(name) for name, value in list(variables.items()) if any(value is h for h in held)), ""
    )


def _module_hooks() -> list[FunctionType]:
    """Return the functions that are forward hooks of modules."""
    torch = vars(sys.modules["torch"])
    module, table = torch["nn"].Module, names.memory()
    found: list[FunctionType] = []
    for each in gc.get_referrers(*_kinds_of(module)):
        if isinstance(type(each), type) and issubclass(type(each), module):
            for name in table["hooks"]:
                hooks = _attributes(each).get(name)
                values = tuple(hooks.values()) if isinstance(hooks, dict) else ()
                found += [hook for hook in values if type(hook) is FunctionType]
    return found


def _kinds_of(base: type) -> list[type]:
    found, todo = [base], [base]
    while todo:
        below: list[type] = type.__subclasses__(todo.pop())
        found += below
        todo += below
    return found


def _hooks(name: str) -> str:
    """Return which hooks use a global variable of that name."""
    hooks = [hook.__code__ for hook in _module_hooks() if name in hook.__code__.co_names]
    return f", which the hook {_place(hooks[0])} uses" if hooks else ""


def _place(code: CodeType) -> str:
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"

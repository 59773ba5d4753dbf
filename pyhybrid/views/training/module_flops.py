"""Floating-point operations by module of a model (--torch shapes): an estimate, of the calls that
were looked at with their shapes (flops.py), each by the module in which it was made, and of how
often that was called, which is exact."""

import re
from collections import Counter
from math import prod

from pyhybrid.base.structs import Struct
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.views.training.flops import Flops

ERRORS = 1.5  # standard ones, of a number of calls
_TENSOR = re.compile(r"[a-z]+(\d*)\[([\d, ]*)\]")


class Peak(Record):
    """Hold the floating-point operations a second of products of matrices alone, as measured at the
    end of the run: of `type`, with so many `threads`."""

    flops: int
    type: str
    threads: int


class ModuleFlops(Struct):
    """Hold what products of matrices, convolutions and attention did below a module, in the forward
    and in the backward pass, and how many bytes the tensors have that they got."""

    forward: int = 0
    backward: int = 0
    read: int = 0


def peak_of(profile: Profile) -> Peak | None:
    """Return the most that was measured; None: it was not."""
    found = profile.meta.get("peak")
    return Peak(found["flops"], found["type"], found["threads"]) if found else None


@made_once
def module_flops(profile: Profile) -> dict[str, ModuleFlops]:
    """Return by the path of each module what it and those below it did; empty: nothing is known."""
    shapes, places = profile.meta.get("shapes") or (), profile.meta.get("shapes_modules") or ()
    flops = Flops((name, text) for name, text, _ in shapes)
    each = [(flops.of(name, text), bytes_in(text)) for name, text, _ in shapes]
    products = [row for row in places if each[row[0]][0]]
    looked_at = Counter[tuple[str, str, bool]]()  # an operator's calls in a module
    for of, module, _, is_later, n in products:
        looked_at[shapes[of][0], module, is_later] += n
    probability, calls = profile.meta.get("shapes_probability") or 1, _calls(profile)
    found: dict[str, ModuleFlops] = {}
    for of, module, _, is_later, n in products:
        n_all = looked_at[shapes[of][0], module, is_later]
        n_calls = _estimate(n_all, probability, calls.get(module, 0)) * n / n_all
        n_flops, n_bytes = each[of]
        for path in _upwards(module):
            figures = found.setdefault(path, ModuleFlops())
            if is_later:
                figures.backward += round(n_calls * (n_flops or 0))
            else:
                figures.forward += round(n_calls * (n_flops or 0))
            figures.read += round(n_calls * n_bytes)
    return found


def _estimate(n: int, probability: float, calls: int) -> float:
    """Return how often an operator was called, of which `n` calls were looked at: where that may be
    a whole number of times in each call of its module, it is."""
    if not calls:
        return n / probability
    each, error = n / probability / calls, n**0.5 / probability / calls
    whole = max(1, round(each))
    return whole * calls if abs(each - whole) <= ERRORS * error else n / probability


def _calls(profile: Profile) -> dict[str, int]:
    """Return how often each module was called, by its path: wrappers around it have the same."""
    of_frame, calls = Counter[int](), dict[str, int]()
    for node, n in zip(profile.exact.node, profile.exact.calls, strict=True):
        of_frame[profile.nodes.frame[node]] += n
    for frame in profile.frames.values():
        if frame.is_object:
            calls[frame.name] = max(calls.get(frame.name, 0), of_frame[frame.id])
    return calls


def class_flops(profile: Profile) -> dict[str, ModuleFlops]:
    """Return the same by class: of modules in one of the same class once."""
    of_path, classes = module_flops(profile), dict[str, str]()
    for frame in profile.frames.values():
        if frame.is_object:
            classes[frame.name] = str(frame.symbol)
    found: dict[str, ModuleFlops] = {}
    for path, figures in of_path.items():
        above = Counter(classes.get(each) for each in _upwards(path) if each != path)
        of_class = classes.get(path)
        if of_class is None or above[of_class]:
            continue
        sums = found.setdefault(of_class, ModuleFlops())
        sums.forward += figures.forward
        sums.backward += figures.backward
        sums.read += figures.read
    return found


def _upwards(path: str) -> list[str]:
    """Return `a.b.c`, `a.b`, `a`."""
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]


def bytes_in(text: str) -> int:
    """Return the bytes of the tensors in `float32[64, 128], _`."""
    total = 0
    for bits, sizes in _TENSOR.findall(text):
        size = int(bits) // 8 if bits else 1  # bool
        total += max(size, 1) * prod(int(each) for each in sizes.split(",") if each.strip())
    return total

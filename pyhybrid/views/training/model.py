"""A model's modules (PyTorch's): what each took, all paths and threads together.

A module is known by its path, `LM.layers.2.mlp`; around it may be wrappers, which have the same.
`total` is what ran below it: where it called itself, the outermost calls'; `own` is what no module
below it took and no hook, and `native` the part of that in C, C++ and the kernel; `backward` is the
work of the autograd nodes that were made below it.  Calls and times are exact, weights are those of
samples.  What ran below it for the backward pass (activation checkpoints) is `recomputed`, and what
torch.compile compiled in it, in both passes, `compile`: neither is in the figures before.  Modules
that the loader calls are transforms of data, and in no row.
`gpu` is what a GPU did for the calls below it, in the forward and in the backward pass, where a
trace was imported; `flops` what products of matrices did, by --torch shapes (module_flops.py).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Buffer, Callable, Iterable, Iterator
from operator import and_, sub

from pyhybrid._columns import add_up, descend, inclusive, nearest, outermost, rows_from, take
from pyhybrid.base.structs import Struct
from pyhybrid.errors import PyhybridError
from pyhybrid.tables import Frame, WatchedCall
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.training.compiles import Compile, compiler_frames, compiles_of
from pyhybrid.views.training.module_calls import (
    AGAIN,
    FORWARD_PASS,
    IN_LOADER,
    HookFigures,
    call_places,
    hook_figures,
    hook_nodes,
)
from pyhybrid.views.training.module_flops import Peak, class_flops, module_flops, peak_of
from pyhybrid.views.training.phases import BACKWARD, COMPILE, Span, phase_spans
from pyhybrid.views.training.steps import steps_of

# 1: the outermost of functions that compile, 2: what is below one.
_COMPILING = bytes((kind, 2, 2)[above] for above in range(3) for kind in range(256))
_IS_1 = bytes(state == 1 for state in range(256))
_IS_PLACE = {
    place: bytes(each == place for each in range(256)) for place in (FORWARD_PASS, AGAIN, IN_LOADER)
}


class ModuleFigures(Struct):
    """Hold the figures of a module, or of all of a class; times are 0 where nothing was counted.

    `name`: its path, or the class; `of_class`: its class, `Linear`, with a wrapper's behind it.
    """

    name: str
    of_class: str
    modules: int
    calls: int
    exact_total_ns: int
    exact_own_ns: int
    exact_backward_ns: int
    exact_own_backward_ns: int
    weight_ns: int
    own_weight_ns: int
    native_weight_ns: int
    recomputed_calls: int
    exact_recomputed_ns: int
    exact_compile_ns: int
    compile_weight_ns: int
    gpu_ns: int
    gpu_backward_ns: int
    flops: int = 0
    flops_backward: int = 0
    flops_bytes: int = 0


class ModelFigures(Record):
    """Hold all of them, the weight of all samples of the program, and of those below modules.

    Of the backward pass it has its time, and that of its part for no module.  `hooks` are those
    that modules called, and a trainer's callbacks; `exact_loader_ns` is what modules took that the
    loader called.
    """

    modules: list[ModuleFigures]
    hooks: list[HookFigures]
    weight_ns: int
    forward_weight_ns: int
    exact_backward_ns: int
    exact_other_backward_ns: int
    exact_loader_ns: int
    gpu_ns: int  # all that was imported, below modules or not
    peak: Peak | None  # what products of matrices alone do on this machine; null: not measured
    n_steps: int  # of a training or of inference; 0: there are none


def model_figures(profile: Profile, by_class: bool = False) -> ModelFigures:
    """Return the modules, or their classes, in the order in which they were first on a path.

    Raises PyhybridError where there are none.
    """
    objects = {frame.id: frame for frame in profile.frames.values() if frame.is_object}
    if not objects:
        raise PyhybridError(
            f"{profile.path}: no modules of PyTorch were called "
            "(they are frames unless `--torch no-modules` says otherwise)"
        )
    groups = _groups(objects.values(), (lambda f: str(f.symbol)) if by_class else lambda f: f.name)
    sums, gpu = _Sums(profile, groups), _gpu(profile, groups)
    found = []
    compiled = backward_compiles(profile)
    flops = class_flops(profile) if by_class else module_flops(profile)
    for name, (number, frames) in groups.items():
        classes = dict.fromkeys(str(frame.symbol) for frame in frames[::-1])
        paths = {frame.name for frame in frames}
        figures = (int(column[number]) for column in sums.columns)
        gpu_ns = (gpu[number, backward] for backward in (0, 1))
        each = ModuleFigures(name, " in ".join(classes), len(paths), *figures, *gpu_ns)
        if name in flops:
            each.flops, each.flops_backward = flops[name].forward, flops[name].backward
            each.flops_bytes = flops[name].read
        each.exact_compile_ns += sum(compiled[frame.id] for frame in frames)
        found.append(each)
    found = [
        each
        for each in found
        if each.calls or each.exact_total_ns or each.weight_ns or each.recomputed_calls
    ]
    return ModelFigures(
        found,
        hook_figures(profile),
        sums.weight_ns,
        sums.forward_weight_ns,
        sums.backward_ns,
        sums.backward_ns - sum(each.exact_own_backward_ns for each in found),
        sums.loader_ns,
        sum(each.ns for each in profile.gpu),
        peak_of(profile),
        len(steps.steps) if (steps := steps_of(profile)) else 0,
    )


_Groups = dict[str, tuple[int, list[Frame]]]


def _groups(frames: Iterable[Frame], key: Callable[[Frame], str]) -> _Groups:
    """Return for each key its number, from 1, and its frames."""
    groups: _Groups = {}
    for frame in frames:
        groups.setdefault(key(frame), (len(groups) + 1, []))[1].append(frame)
    return groups


def _gpu(profile: Profile, groups: _Groups) -> Counter[tuple[int, int]]:
    """Return nanoseconds by group and `backward`, of all that is below."""
    number = {frame.id: at for at, frames in groups.values() for frame in frames}
    found: Counter[tuple[int, int]] = Counter()
    for work in profile.gpu:
        node, above = work.node, set()
        while node:
            above.add(number.get(profile.nodes.frame[node], 0))
            node = profile.nodes.parent[node]
        for group in above - {0}:
            found[group, work.backward] += work.ns
    return found


class _Sums:
    """Hold columns by group, in ModuleFigures' order; `weight_ns`: of all samples; `loader_ns`: of
    modules in the loader."""

    def __init__(self, profile: Profile, groups: _Groups) -> None:
        tree = FoldedTree.of(profile)
        n, n_groups = len(tree.parent), len(groups) + 1
        number = {frame.id: at for at, frames in groups.values() for frame in frames}
        last = max(profile.frames, default=0)
        group = array(
            "I", take(array("I", (number.get(f, 0) for f in range(last + 1))), tree.frame)
        )
        marked = bytes(map(bool, group))
        nodes, exact = profile.nodes, profile.exact
        of_row, place = take(tree.of_node, exact.node), call_places(profile)
        hooks = bytearray(marked)  # and modules
        for node in rows_from(hook_nodes(profile), 1):
            hooks[tree.of_node[node]] = 1
        above = nearest(tree.parent, hooks)  # of each node that of its module
        outer = outermost(tree.parent, group, marked)
        is_native = _native(profile, tree)
        compilers = _among(profile, compiler_frames(profile))
        compiles = bytes(descend(nodes.parent, take(compilers, nodes.frame), _COMPILING))
        weight, native, compiling = (array("q", bytes(8 * n)) for _ in range(3))
        self.weight_ns = 0
        for row in profile.sampled:
            sampled = profile.stacks.node[row.stack]
            node = tree.of_node[sampled]
            self.weight_ns += row.weight_ns * bool(node)
            if compiles[sampled]:
                compiling[node] += row.weight_ns
            elif place[sampled] == FORWARD_PASS:
                weight[node] += row.weight_ns
                native[node] += row.weight_ns * is_native[node]
        modules = take(group, nearest(tree.parent, marked))  # of hooks, too
        self.forward_weight_ns = sum(weight) - add_up(modules, weight, n_groups)[0]
        backward = array("q", bytes(8 * n))
        for work in profile.backward:
            backward[tree.of_node[work.node]] += work.self_ns
        self.backward_ns = sum(backward)
        is_module_row = take(_is_object(profile), take(nodes.frame, exact.node))
        of_place = {
            each: bytes(map(and_, is_module_row, bytes(take(place, exact.node)).translate(is_it)))
            for each, is_it in _IS_PLACE.items()
        }
        calls = add_up(of_row, exact.calls, n, of_place[FORWARD_PASS])
        total = add_up(of_row, exact.total_ns, n, of_place[FORWARD_PASS])
        of_hooks = add_up(of_row, exact.total_ns, n, _hook_rows(profile, tree, of_row, marked))
        below = add_up(take(above, tree.parent), total, n)
        hooked = add_up(take(above, tree.parent), of_hooks, n)
        again = add_up(of_row, exact.total_ns, n, of_place[AGAIN])
        calls_again = add_up(of_row, exact.calls, n, of_place[AGAIN])
        in_pass = bytes(take(place, exact.node)).translate(_IS_PLACE[FORWARD_PASS])
        is_compile_row = bytes(take(compiles, exact.node)).translate(_IS_1)
        compile_row = bytes(map(and_, is_compile_row, in_pass))
        compile_ns = add_up(of_row, exact.total_ns, n, compile_row)
        of_node = take(group, above)
        where = bytes(map(and_, marked, outer))
        in_loader = add_up(of_row, exact.total_ns, n, of_place[IN_LOADER])
        self.loader_ns = sum(
            ns for ns, parent in zip(in_loader, tree.parent, strict=True) if not of_node[parent]
        )
        own = array("q", map(sub, map(sub, total, below), hooked))
        net = array("q", map(sub, total, inclusive(tree.parent, compile_ns)))
        of_compiling = add_up(of_node, compile_ns, n_groups)
        self.columns = (
            add_up(group, calls, n_groups, where),
            add_up(group, net, n_groups, where),
            array("q", map(sub, add_up(group, own, n_groups, marked), of_compiling)),
            add_up(group, inclusive(tree.parent, backward), n_groups, where),
            add_up(of_node, backward, n_groups),
            add_up(group, inclusive(tree.parent, weight), n_groups, where),
            add_up(of_node, weight, n_groups),
            add_up(of_node, native, n_groups),
            add_up(group, calls_again, n_groups, where),
            add_up(group, again, n_groups, where),
            of_compiling,
            add_up(of_node, compiling, n_groups),
        )


def _hook_rows(profile: Profile, tree: FoldedTree, of_row: Buffer, marked: bytes) -> bytes:
    """Mark with 1 the exact rows of hooks in the forward pass, but for those that are folded into
    the module."""
    nodes = profile.exact.node
    is_hook, is_module = take(hook_nodes(profile), nodes), take(marked, of_row)
    places = take(call_places(profile), nodes)
    each = zip(is_hook, is_module, places, strict=True)
    return bytes(hook and not module and place == FORWARD_PASS for hook, module, place in each)


def _native(profile: Profile, tree: FoldedTree) -> memoryview:
    """Mark with 1 each folded node of native code."""
    kinds = {f.id for f in profile.frames.values() if f.kind in ("native", "kernel")}
    return take(_among(profile, kinds), tree.frame)


def _is_object(profile: Profile) -> bytes:
    return _among(profile, {f.id for f in profile.frames.values() if f.is_object})


def _among(profile: Profile, frames: set[int]) -> bytes:
    """Mark with 1 each of these frames, by id."""
    return bytes(number in frames for number in range(max(profile.frames, default=0) + 1))


def backward_compiles(profile: Profile) -> Counter[int]:
    """Return what was compiled for the backward pass: nanoseconds by the frame of the module.

    A forward pass is compiled below its module, where the tree has it; what is compiled when a
    backward pass first runs is below the engine alone.  It belongs to the module in which the same
    function's forward pass was compiled.
    """
    found, taken = compiles_of(profile), Counter[int]()
    if not found:
        return taken
    start_ns = profile.process.start_ns or 0
    forward: dict[tuple[str, int, str, int], int] = {}  # the module in which it was compiled
    for call, in_backward in _compiler_calls(profile):
        for each in found.compiles:
            if not call.begin_ns <= start_ns + each.middle_ns < call.end_ns:
                continue
            if not each.backward:
                forward[_key(each)] = _module(profile, call.node)
            elif in_backward:
                taken[forward.get(_key(each), 0)] += each.took_ns
    del taken[0]
    return taken


def _key(each: Compile) -> tuple[str, int, str, int]:
    return each.file, each.line, each.name, each.number


def _compiler_calls(profile: Profile) -> Iterator[tuple[WatchedCall, bool]]:
    """Yield the outermost ones of each thread, in order of time; is each in a backward pass?"""

    def of(spans: list[Span], in_backward: bool) -> Iterator[tuple[WatchedCall, bool]]:
        for span in spans:
            if span.phase == COMPILE:
                yield span.call, in_backward
            else:
                yield from of(span.inner, in_backward or span.phase == BACKWARD)

    for spans in phase_spans(profile).values():
        yield from of(spans, False)


def _module(profile: Profile, node: int) -> int:
    """Return the frame of the module in which a node is; 0: none."""
    nodes, frames = profile.nodes, profile.frames
    while node and not frames[nodes.frame[node]].is_object:
        node = nodes.parent[node]
    return nodes.frame[node] if node else 0

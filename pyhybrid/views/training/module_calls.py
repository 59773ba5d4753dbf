"""What calls of a model's modules are part of, by their paths, and which functions are hooks.

A module below the loader is a transform of data, one below the backward pass is computed again
(activation checkpoints).  What a module calls beside its `forward` is a hook; callbacks are what a
trainer calls at moments of a training.  Which functions are what, frameworks/torch.toml has.
"""

from collections.abc import Iterator
from os.path import basename

from pyhybrid._columns import add_up, descend, nearest, outermost, rows_from, take
from pyhybrid.base.name_patterns import NamePatterns
from pyhybrid.base.structs import Struct
from pyhybrid.frameworks import torch
from pyhybrid.symbols.plumbing import is_interpreter
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.views.labels import labels_of, shorten_native
from pyhybrid.views.training.phases import BACKWARD, DATA

FORWARD_PASS, AGAIN, IN_LOADER = 0, 1, 2
_OUTERMOST = bytes(above or kind for above in range(3) for kind in range(256))

HOOK, CALLBACK = "hook", "callback"

# What a frame is to hooks: a module, the framework's between it and its `forward`, that, what calls
# callbacks, one by its name, another function; the interpreter's code between two of these; what
# calls the `forward` of something else.
_MODULE, _BETWEEN, _FORWARD, _TRAINER, _CALLBACK, _FUNCTION, _GLUE, _APPLY = range(1, 9)
# What a node is: right below a module, called by one beside its `forward`, or instead; right below
# what calls callbacks, called by it.
_IN_MODULE, _IS_HOOK, _IN_TRAINER, _IS_CALLBACK = range(1, 5)


def _called(above: int, kind: int) -> int:
    if kind in (_MODULE, _TRAINER):
        return _IN_MODULE if kind == _MODULE else _IN_TRAINER
    if kind == _GLUE:
        return above if above in (_IN_MODULE, _IN_TRAINER) else 0
    if above == _IN_MODULE:
        return {_BETWEEN: _IN_MODULE, _CALLBACK: _IS_HOOK, _FUNCTION: _IS_HOOK}.get(kind, 0)
    return _IS_CALLBACK if above == _IN_TRAINER and kind == _CALLBACK else 0


_CALLED = bytes(_called(above, kind) for above in range(5) for kind in range(256))


class HookFigures(Struct):
    """Hold the exact figures of a function, all paths together.

    `function`: as views write it; `kind`: hook or callback; `modules`: for so many it was called;
    `is_framework`: it is PyTorch's own.
    """

    function: str
    kind: str
    calls: int
    total_ns: int
    modules: int
    is_framework: bool


@made_once
def call_places(profile: Profile) -> memoryview:
    """Return by node FORWARD_PASS, AGAIN or IN_LOADER: where it would be one of a module."""
    table, of_frame = torch.modules(), {}
    engine = NamePatterns(torch.steps()["engine"])
    for frame in profile.frames.values():
        if frame.kind == "native" and engine.match(shorten_native(frame.name)):
            of_frame[frame.id] = AGAIN
        elif frame.kind == "python":
            file, name = frame.file or "", frame.name
            phase = torch.phase_of(file, name)
            if phase == DATA or torch.is_listed(table["loads"], file, name):
                of_frame[frame.id] = IN_LOADER
            elif phase == BACKWARD or torch.is_listed(table["computes_again"], file, name):
                of_frame[frame.id] = AGAIN
    nodes = profile.nodes
    return memoryview(descend(nodes.parent, _take(profile, of_frame), _OUTERMOST))


@made_once
def hook_nodes(profile: Profile) -> memoryview:
    """Return by node 1 where it is a call of a hook or callback, else 0."""
    nodes = profile.nodes
    kinds = _take(profile, dict(_kinds(profile)))
    called = bytearray(descend(nodes.parent, kinds, _CALLED))
    is_module = bytes(kind == _MODULE for kind in kinds)
    module = nearest(nodes.parent, is_module)
    with_forward = set()
    stops = bytes(kind in (_MODULE, _APPLY) for kind in kinds)
    nearest_stop = nearest(nodes.parent, stops)
    for node in rows_from(bytes(kind == _FORWARD for kind in kinds), 1):
        if kinds[nearest_stop[node]] == _APPLY:
            continue
        with_forward.add(module[node])
        while node and not is_module[node]:
            if called[node] == _IS_HOOK:
                called[node] = 0  # a decorator, or what was put in the place of `forward`
            node = nodes.parent[node]
    for node in rows_from(called, 1):
        if called[node] == _IS_HOOK and module[node] not in with_forward:
            called[node] = 0
    return memoryview(bytes(state in (_IS_HOOK, _IS_CALLBACK) for state in called))


def hook_figures(profile: Profile) -> list[HookFigures]:
    """Return hooks and callbacks, those with most time first."""
    where, nodes, exact = hook_nodes(profile), profile.nodes, profile.exact
    if not any(where):
        return []
    n = max(profile.frames, default=0) + 1
    of_row, is_hook = take(nodes.frame, exact.node), take(where, exact.node)
    outer = take(outermost(nodes.parent, nodes.frame, where), exact.node)
    total_ns = add_up(of_row, exact.total_ns, n, bytes(map(min, is_hook, outer)))
    calls = add_up(of_row, exact.calls, n, is_hook)
    modules: dict[int, set[int]] = {}
    is_module = _take(profile, {f.id: 1 for f in profile.frames.values() if f.is_object})
    module = nearest(nodes.parent, is_module)
    for node in rows_from(where, 1):
        of_function = modules.setdefault(nodes.frame[node], set())
        if _right_below(profile, node):
            of_function.add(nodes.frame[module[node]])
    labels, folder = labels_of(profile, full_names=False), framework_folder(profile)
    found = []
    for frame, of_function in modules.items():
        if calls[frame]:
            n_modules = len(of_function)
            figures = calls[frame], total_ns[frame], n_modules
            is_framework = (profile.frames[frame].file or "").startswith(folder)
            kind = HOOK if n_modules else CALLBACK
            found.append(HookFigures(labels[frame], kind, *figures, is_framework))
    return sorted(found, key=lambda each: -each.total_ns)


def _right_below(profile: Profile, node: int) -> bool:
    """Is a hook's node below a module, with only the framework's functions between?"""
    frames, nodes = profile.frames, profile.nodes
    while node := nodes.parent[node]:
        frame = frames[nodes.frame[node]]
        if frame.kind == "python" and not torch.is_plumbing(frame.file or "", frame.name):
            return False
        if frame.is_object:
            return True
    return False


def _kinds(profile: Profile) -> Iterator[tuple[int, int]]:
    """Yield what frames are to hooks, by id."""
    table, direct, folder = torch.hooks(), torch.modules()["direct"], framework_folder(profile)
    none_in = tuple(folder + each for each in table["none_in"])
    callbacks, apply = NamePatterns(table["callbacks"]), NamePatterns([table["apply"]])
    interpreter = {m.id for m in profile.modules.values() if is_interpreter(basename(m.path))}
    for frame in profile.frames.values():
        if frame.is_object:
            yield frame.id, _MODULE
        elif frame.kind == "python":
            yield frame.id, _kind(frame, table["callers"], none_in, direct, callbacks)
        elif frame.kind == "native" and apply.match(frame.name):
            yield frame.id, _APPLY
        elif frame.module in interpreter:
            yield frame.id, _GLUE


def framework_folder(profile: Profile) -> str:
    """Return the folder of PyTorch's own files, by those that are known."""
    known = [torch.modules()["plumbing_file"]]
    known += [name.partition(":")[0] for names in torch.phases().values() for name in names]
    inside = tuple(file for file in known if file.startswith(torch.FOLDER))
    for frame in profile.frames.values():
        if frame.kind == "python" and frame.file and frame.file.endswith(inside):
            return frame.file[: frame.file.rindex(torch.FOLDER) + len(torch.FOLDER)]
    return torch.FOLDER


def _kind(
    frame: Frame, callers: list[str], none_in: tuple[str, ...], direct: str, callbacks: NamePatterns
) -> int:
    file, name = frame.file or "", frame.name
    if torch.is_plumbing(file, name):
        return _BETWEEN
    if name.endswith(direct) or name == direct.lstrip("."):
        return _FORWARD
    if torch.is_listed(callers, file, name):
        return _TRAINER
    if file.startswith(none_in):
        return 0
    return _CALLBACK if callbacks.match(name) else _FUNCTION


def _take(profile: Profile, of_frame: dict[int, int]) -> memoryview:
    """Return by node what stands for its frame, or 0."""
    n = max(profile.frames, default=0) + 1
    return take(bytes(of_frame.get(frame, 0) for frame in range(n)), profile.nodes.frame)

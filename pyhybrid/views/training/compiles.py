"""Compiles by torch.compile, as PyTorch's own record has them, against what was run.

A compile is of the code of a Python function; a function that is compiled again, for other shapes
or types, has several.  The backward pass is a compile of its own, of the same number.  Times are
wall-clock time; those of running are exact times of the compiled functions, which are compiled
before they are called.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from pyhybrid.frameworks.torch import is_compiler
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.views.call_tree.node_weights import NodeWeights
from pyhybrid.views.calls.function_calls import own_calls

Key = tuple[str, int, str]
_STACK, _REMARK = "User stack trace:", " # "  # how texts go on that PyTorch writes


class Compile(Record):
    """Hold one compile; `number`, from 1, `of` so many of its function.

    `begin_ns` is since profiling began.  `reason`: why again; `failure`: why nothing came of it.
    `dynamo_ns`, `aot_ns` and `inductor_ns` are what each took itself, of `took_ns`.  `operators`
    are the graph's, `guards` what is looked at before it runs; `cached`: caches on disk had it, and
    False: had not.  None: the record has nothing of it.
    """

    name: str
    file: str
    line: int
    backward: bool
    number: int
    of: int
    begin_ns: int
    took_ns: int
    reason: str | None
    failure: str | None
    dynamo_ns: int | None
    aot_ns: int | None
    inductor_ns: int | None
    operators: int | None
    guards: int | None
    graph_breaks: int | None
    cached: bool | None

    @property
    def middle_ns(self) -> int:
        """Return its middle, since profiling began.  Moments of the record are another clock's than
        those of calls: the middle is not between two of them."""
        return self.begin_ns + self.took_ns // 2


class CompiledFunction(Record):
    """Hold a function that was compiled: how often, what that took, and its calls with their exact
    time, those that compiled it among them; null: they were not counted."""

    name: str
    compiles: int
    took_ns: int
    calls: int | None
    run_ns: int | None


class Compiles(Record):
    """Hold all of them, in order of time, and by function; null where it is not known.

    `run_ns` and `calls` are those of the compiled functions, `share` that of the samples in
    compilers; `is_cut`: older ones are no longer in the record.  `breaks`: why graphs were broken,
    in PyTorch's words, and how often.  `cuda_graphs_skipped`: so often none was made;
    `cuda_graphs_again`: one was made again, for other addresses of its inputs, as a rule.
    """

    compiles: list[Compile]
    by_function: list[CompiledFunction]
    functions: int
    again: int  # compiles of functions that had one
    took_ns: int
    wall_ns: int | None
    run_ns: int | None
    calls: int | None
    share: float | None
    is_cut: bool
    breaks: list[tuple[str, int]]
    cuda_graphs_skipped: int
    cuda_graphs_again: int


@made_once
def compiles_of(profile: Profile) -> Compiles | None:
    """Return what is known of them; None: there were none."""
    start_ns = profile.process.start_ns or 0
    facts = [
        each
        for each in profile.meta.get("compiles") or ()
        if not each.get("runtime") and each.get("end_ns", 0) > start_ns
    ]
    if not facts:
        return None
    facts.sort(key=lambda each: int(each.get("begin_ns", 0)))
    names = {
        (frame.file, frame.line): (frame.id, frame.name)
        for frame in profile.frames.values()
        if frame.kind == "python"
    }
    keys: dict[str, Key] = {}  # by id: that of the function
    numbers: dict[str, int] = {}
    n_of: Counter[Key] = Counter()
    for each in facts:
        if "file" in each:
            key = str(each["file"]), int(each.get("line", 0)), str(each.get("name", "?"))
            n_of[key] += 1
            keys[each.get("id", "")], numbers[each.get("id", "")] = key, n_of[key]
    compiles = []
    for each in facts:
        key = keys.get(each.get("id", ""), ("", 0, "?"))
        _, name = names.get(key[:2], (0, key[2]))
        number = numbers.get(each.get("id", ""), 1)
        compiles.append(_compile(each, key, name, number, n_of[key] or 1, start_ns))
    run = {names[key[:2]][0] for key in n_of if key[:2] in names}
    traced = own_calls(profile)
    ran = [traced[frame] for frame in run if frame in traced]
    process = profile.process
    took = Counter[str]()
    for each in compiles:
        took[function_of(each)] += each.took_ns
    by_function = []
    for key, n in n_of.items():
        frame, name = names.get(key[:2], (0, key[2]))
        label = _place(name, *key[:2])
        figures = traced.get(frame) if profile.exact else None
        exact = (figures.calls, figures.total_ns) if figures else (None, None)
        by_function.append(CompiledFunction(label, n, took[label], *exact))
    by_function.sort(key=lambda each: (-(each.calls or 0), -each.took_ns))
    return Compiles(
        compiles,
        by_function,
        len(n_of),
        sum(n_of.values()) - len(n_of),
        sum(each.took_ns for each in compiles),
        process.end_ns - start_ns if process.end_ns else None,
        sum(each.total_ns for each in ran) if profile.exact else None,
        sum(each.calls for each in ran) if profile.exact else None,
        _share(profile),
        bool(profile.meta.get("compiles_full")),
        sorted(((text, n) for text, n in profile.meta.get("graph_breaks") or ()), key=_most_first),
        *(profile.meta.get("cuda_graphs") or (0, 0)),
    )


def _most_first(row: tuple[str, int]) -> tuple[int, str]:
    text, n = row
    return -n, text


def _compile(
    facts: dict[str, Any], key: Key, name: str, number: int, of: int, start_ns: int
) -> Compile:
    failure = facts.get("failure")
    if failure and facts.get("why_failed"):
        failure = f"{failure}: {facts['why_failed']}"
    begin_ns = int(facts.get("begin_ns", start_ns))
    dynamo_ns, aot_ns, inductor_ns = _parts(facts)
    return Compile(
        name,
        key[0],
        key[1],
        facts.get("forward") is False,
        number,
        of,
        begin_ns - start_ns,
        int(facts["end_ns"]) - begin_ns,
        _one_line(facts.get("reason"), facts.get("id")),
        _one_line(failure, None),
        dynamo_ns,
        aot_ns,
        inductor_ns,
        facts.get("operators"),
        facts.get("guards"),
        facts.get("graph_breaks"),
        _is_cached(facts),
    )


def _parts(facts: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Return what dynamo, AOT autograd and inductor took, each without the next one."""
    dynamo, aot, inductor = (facts.get(key) for key in ("dynamo_us", "aot_us", "inductor_us"))

    def own(us: int | None, below: int | None) -> int | None:
        return None if us is None else max(0, us - (below or 0)) * 1000

    return own(dynamo, aot), own(aot, inductor), own(inductor, 0)


def _is_cached(facts: dict[str, Any]) -> bool | None:
    hits, misses = (
        sum(int(facts.get(f"{of}_{what}") or 0) for of in ("aot", "inductor"))
        for what in ("hits", "misses")
    )
    return hits > 0 if hits or misses else None


def _one_line(text: str | None, number: str | None) -> str | None:
    """Return it without the compiles' ids that a reason names, if it is one, and the stack."""
    text = (text or "").partition(_STACK)[0].strip()
    if not text:
        return None
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if number is not None:
        lines = [line.partition(": ")[2] or line for line in lines]
    return "; ".join(dict.fromkeys(lines))


def _share(profile: Profile) -> float | None:
    if not profile.sampled:
        return None
    sampled = NodeWeights(profile)
    return sampled.weight_ns(sampled.below_frames(compiler_frames(profile))) / sampled.all_ns


def compiler_frames(profile: Profile) -> set[int]:
    """Return the functions that compile: what they call is not counted."""
    frames = (frame for frame in profile.frames.values() if frame.kind == "python")
    return {frame.id for frame in frames if is_compiler(frame.file or "", frame.name)}


def why_again(compile: Compile) -> str:
    """Return `tensor 'x' size mismatch`, or nothing: without the program's line and hints."""
    return (compile.reason or "").partition(_REMARK)[0]


def label_of(compile: Compile) -> str:
    """Return `backward of LM.forward (train.py:37), 2 of 3`."""
    of = f", {compile.number} of {compile.of}" if compile.of > 1 else ""
    return f"{'backward of ' if compile.backward else ''}{function_of(compile)}{of}"


def function_of(compile: Compile) -> str:
    """Return `LM.forward (train.py:37)`."""
    return _place(compile.name, compile.file, compile.line)


def _place(name: str, file: str, line: int) -> str:
    return f"{name} ({os.path.basename(file)}:{line})" if file else name

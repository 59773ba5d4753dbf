"""`pyhybrid report calls`: chosen functions, and each call of theirs.

As JSON the form of a tracer that wraps functions with psutil around them: `functions`, `results`
and `metadata` by function; with thread, serial, parent and more in each call.  Times are seconds,
those of day since 1970; memory is in units of 1000 bytes.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from pyhybrid.tables import Call, Usage
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.kept_functions import (
    KeptFunction,
    kept_functions,
    slowest,
    weighted_quantile,
)
from pyhybrid.views.labels import Labels, short_time

MB = 1e6


def calls_json(profile: Profile, n_slowest: int | None = None) -> Iterator[str]:
    """The text, in pieces: there may be a million calls."""
    functions = kept_functions(profile)
    counted = {each.name: each.durations.calls for each in functions}
    names = json.dumps([each.name for each in functions])
    yield f'{{\n"functions": {names},\n"counted": {json.dumps(counted)},\n"results": {{'
    row = _Rows(profile)
    for i, function in enumerate(functions):
        yield f"{',' if i else ''}\n{json.dumps(function.name)}: ["
        for j, call in enumerate(slowest(function.calls, n_slowest)):
            yield f"{',' if j else ''}\n{json.dumps(row.of(call))}"
        yield "\n]"
    metadata = {each.name: _metadata(each) for each in functions if each.code}
    yield f'\n}},\n"metadata": {json.dumps(metadata, indent=1)}\n}}\n'


def _metadata(function: KeptFunction) -> dict[str, Any]:
    code = function.code
    assert code
    return {
        "function": code.function,
        "lineno": code.line,
        "stacksize": code.stack_size,
        "filename": code.file,
        "args": code.arguments,
        "locals": code.other_locals,
        "module": code.module,
        "path": code.path,
    }


class _Rows:
    """Calls as JSON has them."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        meta = profile.meta
        self._unix_ns = int(meta.get("start_unix_ns", 0)) - int(meta.get("start_ns", 0))
        self._names = {
            process.pid: os.path.basename(process.executable or "")
            for process in profile.processes.values()
        } | {
            row.tid: row.comm
            for row in profile.threads.values()
            if profile.pid_of(row.id) == row.tid
        }

    def of(self, call: Call) -> dict[str, Any]:
        used = self._profile.usage.get(call.id, Usage(call.id, *[None] * 12))
        elapsed_ns = call.end_ns - call.begin_ns
        pid = self._profile.pid_of(call.thread)
        share = None if used.cpu_ns is None else 100 * used.cpu_ns / max(elapsed_ns, 1)
        return {
            "name": self._names[pid],
            "cpu_start": _scaled(used.cpu_begin_ns, 1e9),
            "time_start": (self._unix_ns + call.begin_ns) / 1e9,
            "time_end": (self._unix_ns + call.end_ns) / 1e9,
            "time_elapsed": elapsed_ns / 1e9,
            "cpu_end": _scaled(used.cpu_end_ns, 1e9),
            "cpu_usage": share,
            "mem_usage": _scaled(used.resident_end, 1e3),
            "pid": pid,
            "process_name": self._names[pid],
            "thread": self._profile.threads[call.thread].tid,
            "thread_name": self._profile.threads[call.thread].name,
            "serial": call.id,
            "parent": call.parent,
            "state": call.state,
            "time_busy": call.busy_ns / 1e9,
            "weight": call.weight,
            "attributes": json.loads(call.attributes) if call.attributes else None,
            "cpu_user": _scaled(used.user_ns, 1e9),
            "cpu_system": _scaled(used.system_ns, 1e9),
            "cpu_process": _scaled(used.process_ns, 1e9),
            "mem_start": _scaled(used.resident_begin, 1e3),
            "minor_faults": used.minor_faults,
            "major_faults": used.major_faults,
            "voluntary_switches": used.voluntary_switches,
            "involuntary_switches": used.involuntary_switches,
        }


def _scaled(value: int | None, by: float) -> float | None:
    return None if value is None else value / by


def calls_lines(profile: Profile, n_slowest: int | None = None) -> Iterator[str]:
    """A line a function; with `n_slowest` its slowest calls below it, slowest first."""
    functions = kept_functions(profile)
    if not functions:
        chosen = [*profile.meta.get("keep", ()), *profile.meta.get("functions", ())]
        if chosen:
            yield f"no single calls: no function that {', '.join(chosen)} names was called"
        else:
            yield "no single calls were kept: choose functions with --keep NAME, or with -t NAME"
        return
    has_cpu = any(used.cpu_ns is not None for used in profile.usage.values())
    has_memory = any(used.resident_end is not None for used in profile.usage.values())
    head = "    calls    total s       p50       p90       p99       max   raised"
    head += "     CPU s   CPU p50   CPU p99" * has_cpu + "   growth MB" * has_memory
    yield f"{head}  function"
    labels = Labels(profile).of_frame
    for function in functions:
        d = function.durations
        times = [short_time(d.quantile_ns(q)) for q in (0.5, 0.9, 0.99)]
        times.append(short_time(d.max_ns))
        raised = sum(call.weight for call in function.calls if call.state == "raised")
        line = f"{d.calls:>9,} {d.total_ns / 1e9:>10.4f}" + "".join(f"{t:>10}" for t in times)
        line += f"{raised:>9,}" + _used(profile, function.calls, has_cpu, has_memory)
        yield f"{line}  {labels[function.frame.id]}"
        if n_slowest is not None:
            yield from _slowest(profile, function, n_slowest)
    for function in functions:
        d = function.durations
        if function.n_lacking:
            yield (
                f"{len(function.calls):,} of {d.calls:,} calls of {function.name} are in"
                " the file: the slowest, and a sample of the others"
            )
    yield from _used_in_all(profile, functions, labels)


# What is added up, by its heading: the field of Usage, and what a unit of it is.
_SUMS = {
    "user s": ("user_ns", 1e9),
    "system s": ("system_ns", 1e9),
    "process s": ("process_ns", 1e9),
    "faults": ("minor_faults", 1),
    "major": ("major_faults", 1),
    "switches": ("voluntary_switches", 1),
    "forced": ("involuntary_switches", 1),
}


def _used_in_all(
    profile: Profile, functions: list[KeptFunction], labels: dict[int, str]
) -> Iterator[str]:
    """A second table, of what was asked for: sums over each function's calls, and resident memory
    when the first began and when the last ended."""
    rows: list[tuple[dict[str, str], str]] = []
    for function in functions:
        calls = [call for call in function.calls if call.id in profile.usage]
        used = [(profile.usage[call.id], call.weight) for call in calls]
        row: dict[str, str] = {}
        for head, (field, unit) in _SUMS.items():
            values = [(getattr(u, field), weight) for u, weight in used]
            if any(value is not None for value, _ in values):
                total = sum((value or 0) * weight for value, weight in values)
                row[head] = f"{total:,}" if unit == 1 else f"{total / unit:.4f}"
        if calls:
            first = profile.usage[calls[0].id].resident_begin
            last = profile.usage[max(calls, key=lambda call: call.end_ns).id].resident_end
            if first is not None and last is not None:
                row |= {"MB before": f"{first / MB:.1f}", "MB after": f"{last / MB:.1f}"}
        if row:
            rows.append((row, labels[function.frame.id]))
    heads = [head for head in (*_SUMS, "MB before", "MB after") if any(head in r for r, _ in rows)]
    if heads:
        yield ""
        yield "".join(f"{head:>11}" for head in heads) + "  used by all calls of"
    for row, label in rows:
        yield "".join(f"{row.get(head, ''):>11}" for head in heads) + f"  {label}"


def _used(profile: Profile, calls: list[Call], has_cpu: bool, has_memory: bool) -> str:
    """What calls used, in columns: sums and quantiles; of a sample estimates."""
    of = [(profile.usage[call.id], call.weight) for call in calls if call.id in profile.usage]
    text = ""
    if has_cpu:
        cpu = [(used.cpu_ns, weight) for used, weight in of if used.cpu_ns is not None]
        sums = [f"{sum(ns * weight for ns, weight in cpu) / 1e9:.4f}"]
        sums += [short_time(weighted_quantile(cpu, q)) for q in (0.5, 0.99)]
        text += "".join(f"{each if cpu else '':>10}" for each in sums)
    if has_memory:
        growth = [
            (used.resident_end - used.resident_begin) * weight
            for used, weight in of
            if used.resident_end is not None and used.resident_begin is not None
        ]
        text += f"{f'{sum(growth) / MB:.1f}' if growth else '':>12}"
    return text


def _slowest(profile: Profile, function: KeptFunction, n: int) -> Iterator[str]:
    start_ns = int(profile.meta.get("start_ns", 0))
    calls = sorted(slowest(function.calls, n), key=lambda call: call.begin_ns - call.end_ns)
    for call in calls:
        used = profile.usage.get(call.id)
        text = f"{short_time(call.end_ns - call.begin_ns):>20}"
        text += f" at {(call.begin_ns - start_ns) / 1e9:.6f} s"
        text += f" on {profile.thread_name(call.thread)}, {call.state}"
        if call.busy_ns != call.end_ns - call.begin_ns:
            text += f", ran for {short_time(call.busy_ns)}"
        if used and used.cpu_ns is not None:
            text += f", CPU {short_time(used.cpu_ns)}"
        if used and used.resident_end is not None:
            text += f", {used.resident_end / MB:.1f} MB resident"
        yield f"{text} {call.attributes or ''}".rstrip()

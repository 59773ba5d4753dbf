"""`pyhybrid report calls`: chosen functions, and each call of theirs.

As JSON the form of a tracer that wraps functions with psutil around them: `functions`, `results`
and `metadata` by function; with thread, serial, parent and more in each call.  Times are seconds,
those of day since 1970; memory is in units of 1000 bytes.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyhybrid.report.table import Column, Listing, Table, number, text
from pyhybrid.tables import Call, Usage
from pyhybrid.tables.profile import Profile
from pyhybrid.views.calls.kept_functions import (
    KeptFunction,
    kept_functions,
    slowest,
    weighted_quantile,
)
from pyhybrid.views.labels import labels_of, short_time

MB = 1e6


def calls_json(profile: Profile, n_slowest: int | None = None) -> Iterator[str]:
    """Yield the text, in pieces: there may be a million calls."""
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
    """Make calls as JSON has them."""

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


def calls_listing(profile: Profile, n_slowest: int | None = None) -> Listing:
    """Yield a line a function; with `n_slowest` its slowest calls below it, slowest first."""
    functions = kept_functions(profile)
    if not functions:
        chosen = [*profile.meta.get("keep", ()), *profile.meta.get("functions", ())]
        if chosen:
            yield f"no single calls: no function that {', '.join(chosen)} names was called"
        else:
            yield "no single calls were kept: choose functions with --keep NAME, or with -t NAME"
        return
    labels = labels_of(profile)
    columns = [
        *_COLUMNS,
        *_used(profile),
        text("function", lambda each: labels[each.frame.id]),
    ]
    yield Table(columns, functions, below=lambda each: _slowest(profile, each, n_slowest))
    for function in functions:
        if function.n_lacking:
            yield (
                f"{len(function.calls):,} of {function.durations.calls:,} calls of {function.name}"
                " are in the file: the slowest, and a sample of the others"
            )
    yield from _used_in_all(profile, functions, labels)


def _quantile(q: float) -> Callable[[KeptFunction], int]:
    return lambda each: each.durations.quantile_ns(q)


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.4f}"


def _megabytes(value: int) -> str:
    return f"{value / MB:.1f}"


_COLUMNS = (
    Column("calls", 9, lambda each: each.durations.calls, number),
    Column("total s", 11, lambda each: each.durations.total_ns, _seconds),
    *(Column(f"p{100 * q:.0f}", 10, _quantile(q), short_time) for q in (0.5, 0.9, 0.99)),
    Column("max", 10, lambda each: each.durations.max_ns, short_time),
    Column(
        "raised", 9, lambda each: sum(c.weight for c in each.calls if c.state == "raised"), number
    ),
)


def _used(profile: Profile) -> Iterator[Column]:
    """Yield what calls used, where that was measured: sums and quantiles; of a sample estimates."""

    def cpu(each: KeptFunction) -> list[tuple[int, int]]:
        used = ((profile.usage.get(call.id), call.weight) for call in each.calls)
        return [(u.cpu_ns, weight) for u, weight in used if u and u.cpu_ns is not None]

    def cpu_sum(each: KeptFunction) -> int | None:
        return sum(ns * weight for ns, weight in found) if (found := cpu(each)) else None

    def cpu_quantile(q: float) -> Callable[[KeptFunction], int | None]:
        return lambda each: weighted_quantile(found, q) if (found := cpu(each)) else None

    def growth(each: KeptFunction) -> int | None:
        used = [(profile.usage.get(call.id), call.weight) for call in each.calls]
        grown = [
            (u.resident_end - u.resident_begin) * weight
            for u, weight in used
            if u and u.resident_end is not None and u.resident_begin is not None
        ]
        return sum(grown) if grown else None

    if any(used.cpu_ns is not None for used in profile.usage.values()):
        yield Column("CPU s", 10, cpu_sum, _seconds)
        for q in (0.5, 0.99):
            yield Column(f"CPU p{100 * q:.0f}", 10, cpu_quantile(q), short_time)
    if any(used.resident_end is not None for used in profile.usage.values()):
        yield Column("growth MB", 12, growth, _megabytes)


# What is added up, by its heading: the field of Usage, and how it is shown.
_SUMS: dict[str, tuple[str, Callable[[int], str]]] = {
    "user s": ("user_ns", _seconds),
    "system s": ("system_ns", _seconds),
    "process s": ("process_ns", _seconds),
    "faults": ("minor_faults", number),
    "major": ("major_faults", number),
    "switches": ("voluntary_switches", number),
    "forced": ("involuntary_switches", number),
}


def _used_in_all(
    profile: Profile, functions: list[KeptFunction], labels: dict[int, str]
) -> Listing:
    """Return a second table, of what was asked for: sums over each function's calls, and resident
    memory when the first began and when the last ended."""
    rows: list[tuple[dict[str, str], str]] = []
    for function in functions:
        calls = [call for call in function.calls if call.id in profile.usage]
        used = [(profile.usage[call.id], call.weight) for call in calls]
        row: dict[str, str] = {}
        for head, (field, show) in _SUMS.items():
            values = [(getattr(u, field), weight) for u, weight in used]
            if any(value is not None for value, _ in values):
                row[head] = show(sum((value or 0) * weight for value, weight in values))
        if calls:
            first = profile.usage[calls[0].id].resident_begin
            last = profile.usage[max(calls, key=lambda call: call.end_ns).id].resident_end
            if first is not None and last is not None:
                row |= {"MB before": _megabytes(first), "MB after": _megabytes(last)}
        if row:
            rows.append((row, labels[function.frame.id]))
    heads = [head for head in (*_SUMS, "MB before", "MB after") if any(head in r for r, _ in rows)]
    if heads:
        columns = [Column(head, 11, partial(_item, head)) for head in heads]
        yield ""
        yield Table([*columns, text("used by all calls of", lambda row: row[1])], rows)


def _item(head: str, row: tuple[dict[str, str], str]) -> str | None:
    return row[0].get(head)


def _slowest(profile: Profile, function: KeptFunction, n: int | None) -> Iterator[str]:
    start_ns = int(profile.meta.get("start_ns", 0))
    chosen = slowest(function.calls, n) if n is not None else []
    for call in sorted(chosen, key=lambda call: call.begin_ns - call.end_ns):
        used = profile.usage.get(call.id)
        line = f"{short_time(call.end_ns - call.begin_ns):>20}"
        line += f" at {(call.begin_ns - start_ns) / 1e9:.6f} s"
        line += f" on {profile.thread_name(call.thread)}, {call.state}"
        if call.busy_ns != call.end_ns - call.begin_ns:
            line += f", ran for {short_time(call.busy_ns)}"
        if used and used.cpu_ns is not None:
            line += f", CPU {short_time(used.cpu_ns)}"
        if used and used.resident_end is not None:
            line += f", {_megabytes(used.resident_end)} MB resident"
        yield f"{line} {call.attributes or ''}".rstrip()

"""What a trace of `--emit lttng` says, by Babeltrace 2: top functions and a timeline.

    python3 analyze.py TRACE [-n ROWS] [--columns N]

Needs python3-bt2, and the interpreter that this is for (Debian, Ubuntu: /usr/bin/python3).

Prints a table of the functions with the most time of their own: calls (of generators, turns),
total and self time, and of one call the median, the 99th percentile and the longest.
Then, for each thread, what ran when: a row for each call path, indented by depth, a character for
each slice of time that tells how much of it the path ran.  Last, the figures of functions in events
`sysmon:function_stats`, if there are any.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import bt2

BEGINS = {"py_start", "py_resume", "py_throw", "py_running", "region_begin"}
ENDS = {"py_return", "py_yield", "py_unwind", "py_cut_off", "region_end"}
SHADES = " .:-=+*#%@"  # a slice of time: not at all ... all of it

Path = tuple[str, ...]


@dataclass
class Call:
    """One that runs."""

    path: Path
    since_ns: int
    inside_ns: int = 0  # of what it called


@dataclass
class Function:
    """Times of its calls."""

    total_ns: int = 0  # a recursion is within its first call
    self_ns: int = 0
    calls_ns: list[int] = field(default_factory=list)


@dataclass
class Thread:
    """What ran there: each path, from when to when."""

    stack: list[Call] = field(default_factory=list)
    turns: list[tuple[Path, int, int]] = field(default_factory=list)


@dataclass
class Trace:
    """What is found."""

    functions: dict[str, Function] = field(default_factory=lambda: defaultdict(Function))
    threads: dict[tuple[str, int], Thread] = field(default_factory=lambda: defaultdict(Thread))
    stats: list[dict[str, object]] = field(default_factory=list)
    discarded: int = 0
    unmatched: int = 0  # ends whose begin, and begins whose end was not recorded


def read(path: str) -> Trace:
    """Go through all events, in order of time."""
    trace = Trace()
    for message in bt2.TraceCollectionMessageIterator(path):
        if type(message) is bt2._DiscardedEventsMessageConst:
            trace.discarded += message.count or 0
        if type(message) is not bt2._EventMessageConst:
            continue
        event = message.event
        provider, _, kind = event.name.partition(":")
        if provider == "sysmon":
            trace.stats.append({str(name): event[name] for name in event.payload_field})
        elif provider == "pyhybrid":
            now_ns = message.default_clock_snapshot.ns_from_origin
            context = event.common_context_field
            key = str(context["procname"]), int(context["vtid"])
            name = f"[{event['name']}]" if kind.startswith("region") else str(event["qualname"])
            turn(trace, trace.threads[key], kind, name, now_ns)
    trace.unmatched += sum(len(thread.stack) for thread in trace.threads.values())
    return trace


def turn(trace: Trace, thread: Thread, kind: str, name: str, now_ns: int) -> None:
    """One begins or ends.  Where events were discarded, calls end with what called them."""
    stack = thread.stack
    if kind in BEGINS:
        above = stack[-1].path if stack else ()
        stack.append(Call((*above, name), now_ns))
    elif kind in ENDS:
        if name not in (call.path[-1] for call in stack):
            trace.unmatched += 1
            return
        while (call := stack.pop()).path[-1] != name:
            trace.unmatched += 1
        ended(trace, thread, call, now_ns)


def ended(trace: Trace, thread: Thread, call: Call, now_ns: int) -> None:
    """Add the call to its function's figures."""
    took_ns = now_ns - call.since_ns
    *above, name = call.path
    function = trace.functions[name]
    function.calls_ns.append(took_ns)
    function.self_ns += took_ns - call.inside_ns
    if name not in above:
        function.total_ns += took_ns
    if thread.stack:
        thread.stack[-1].inside_ns += took_ns
    thread.turns.append((call.path, call.since_ns, now_ns))


def table(trace: Trace, rows: int) -> Iterator[str]:
    """The functions with the most time of their own."""
    yield "     calls   total ms    self ms     p50 us     p99 us     max us  function"
    ranked = sorted(trace.functions.items(), key=lambda item: -item[1].self_ns)
    for name, f in ranked[:rows]:
        ordered = sorted(f.calls_ns)
        p50, p99 = (ordered[round(share * (len(ordered) - 1))] / 1e3 for share in (0.5, 0.99))
        yield (
            f"{len(ordered):10} {f.total_ns / 1e6:10.3f} {f.self_ns / 1e6:10.3f}"
            f" {p50:10.1f} {p99:10.1f} {ordered[-1] / 1e3:10.1f}  {name}"
        )


def timeline(thread: Thread, rows: int, columns: int) -> Iterator[str]:
    """The paths with the most time, callers before what they call."""
    first_ns = min(since for _, since, _ in thread.turns)
    last_ns = max(until for _, _, until in thread.turns)
    width = max((last_ns - first_ns) / columns, 1)
    ran: dict[Path, list[float]] = defaultdict(lambda: [0.0] * columns)
    begins: dict[Path, int] = {}
    for path, since, until in thread.turns:
        begins[path] = min(since, begins.get(path, since))
        for column in range(int((since - first_ns) / width), columns):
            left = first_ns + column * width
            if left >= until:
                break
            ran[path][column] += (min(until, left + width) - max(since, left)) / width
    shown = sorted(ran, key=lambda path: (-sum(ran[path]), len(path)))[:rows]
    shown.sort(key=lambda path: [begins.get(path[:n], 0) for n in range(1, len(path) + 1)])
    for path in shown:
        shades = (SHADES[min(9, int(share * 9.999))] for share in ran[path])
        yield f"{'  ' * (len(path) - 1) + path[-1]:<40.40} |{''.join(shades)}|"
    yield f"each character is {width / 1e6:.3f} ms; {SHADES!r}: not at all ... all of it"


def main() -> None:
    """Read and print."""
    parser = argparse.ArgumentParser(description="what a trace of Python calls says")
    parser.add_argument("trace", help="the folder that LTTng wrote")
    parser.add_argument("-n", type=int, default=15, help="rows of each table (default: 15)")
    parser.add_argument("--columns", type=int, default=60, help="of the timeline (default: 60)")
    options = parser.parse_args()
    trace = read(options.trace)
    if trace.functions:
        print(*table(trace, options.n), sep="\n")
    for (name, tid), thread in trace.threads.items():
        if thread.turns:
            print(f"\nthread {tid} ({name})")
            print(*timeline(thread, options.n, options.columns), sep="\n")
    if trace.stats:
        print("\n     calls  total_time    avg_time  funcname (sysmon:function_stats)")
    for each in sorted(trace.stats, key=lambda each: -each["total_time"])[: options.n]:
        times = f"{float(each['total_time']):11.6f} {float(each['avg_time']):11.6f}"
        print(f"{int(each['calls']):10} {times}  {each['funcname']}")
    print(f"\n{trace.discarded} events were discarded, {trace.unmatched} turns have one end only")


if __name__ == "__main__":
    main()

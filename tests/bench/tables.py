"""The tables of docs/benchmarks.md, written from docs/bench/*.json between their markers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from method import Row

START, END = "<!-- bench:{} -->", "<!-- /bench:{} -->"


def number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def with_unit(row: Row, value: float) -> str:
    return f"{value:.3f}" if row.unit == "x" else f"{number(value)} {row.unit}".rstrip()


def reach(row: Row) -> str:
    if row.reached is None:
        return ""
    bound = row.reach.replace("<=", "≤").replace(">=", "≥")
    return f"{bound}{'' if row.reached else ' **missed**'}"


def table(result: dict[str, Any]) -> str:
    interval = "95 % interval" if result["pairs"] >= 6 else "range"
    lines = [f"| what | median | {interval} | reach |", "|---|---|---|---|"]
    for values in result["rows"]:
        row = Row(**values)
        value, low, high = (with_unit(row, each) for each in (row.value, row.low, row.high))
        lines.append(f"| {row.what} | {value} | {low} … {high} | {reach(row)} |")
    where = result["machine"]
    versions = f"Linux {where['kernel']}, CPython {where['python']}, torch {where['torch']}"
    lines += [
        "",
        f"{result['pairs']} pairs on {result['date']} at `{result['commit']}`; "
        f"{where['cpu']}, {where['cores']} cores, {versions}.",
    ]
    return "\n".join(lines)


def write(docs: Path) -> None:
    """Fill each figure's place in benchmarks.md; a figure that has none gets one at the end."""
    page = docs / "benchmarks.md"
    text = page.read_text()
    for path in sorted((docs / "bench").glob("*.json")):
        result = json.loads(path.read_text())
        start, end = START.format(result["name"]), END.format(result["name"])
        if start not in text:
            text += f"\n## {result['title']}\n\n{start}\n{end}\n"
        before, rest = text.split(start)
        after = rest.split(end)[1]
        text = f"{before}{start}\n{table(result)}\n{end}{after}"
    page.write_text(text)
    print(f"wrote {page}")

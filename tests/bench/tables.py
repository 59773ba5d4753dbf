"""The tables of docs/benchmarks.md, from bench/*.json, between markers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from method import Row

START, END = "<!-- bench:{} -->", "<!-- /bench:{} -->"


def number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def with_unit(row: Row, value: float) -> str:
    return f"{value:.3f}" if row.unit == "x" else f"{number(value)} {row.unit}".rstrip()


def cell(row: Row | None) -> str:
    if not row:
        return ""
    value, low, high = (with_unit(row, each) for each in (row.value, row.low, row.high))
    missed = "" if row.reached is not False else " **missed**"
    return f"{value} ({low} … {high}){missed}"


def provenance(result: dict[str, Any]) -> str:
    where = result["machine"]
    rounds = result["rows"][0]["rounds"] if "rows" in result else result["pairs"]
    taken = "1 round" if rounds == 1 else f"{rounds} rounds"
    few = rounds < 6 and "rows" in result  # the peers' table has medians alone
    interval = " (too few for an interval: the range is given)" if few else ""
    versions = f"Linux {where['kernel']}, CPython {where['python']}, torch {where['torch']}"
    return (
        f"{taken}{interval} on {result['date']} at `{result['commit']}`; "
        f"{where['cpu']}, {where['cores']} cores, {versions}."
    )


def table(results: list[dict[str, Any]]) -> str:
    """One column for each interpreter that was measured, oldest first."""
    if "columns" in results[-1]:
        return "\n\n".join(map(peers_table, results))
    columns = [{values["what"]: Row(**values) for values in r["rows"]} for r in results]
    names = " | ".join(f"CPython {r['machine']['python']}" for r in results)
    lines = [f"| what | {names} | reach |", "|---" * (len(results) + 2) + "|"]
    for what in dict.fromkeys(what for column in columns for what in column):
        rows = [column.get(what) for column in columns]
        reach = next(row.reach for row in rows if row)
        bound = reach.replace("<=", "≤").replace(">=", "≥")
        lines.append(f"| {what} | {' | '.join(map(cell, rows))} | {bound} |")
    return "\n".join([*lines, "", *map(provenance, results)])


def peers_table(result: dict[str, Any]) -> str:
    """Of peers.py: programs and profilers by what they cost and what they saw."""
    lines = [
        "| profiler | slowdown, CPU / wall | samples | a second | C++ below | to file | file |"
    ]
    lines.append("|---" * 7 + "|")
    program = None
    for row in result["columns"]:
        if row["program"] != program:
            program = row["program"]
            lines.append(f"| **{program}** |" + " |" * 6)
        if "failed" in row:
            lines.append(f"| {row['profiler']} | failed here |" + " |" * 5)
            continue
        count = "" if row["samples"] is None else f"{row['samples']:,.0f}"
        rate = "" if row["rate"] is None else f"{row['rate']:,.0f}"
        below = "" if row["below"] is None else f"{row['below']:.0%}"
        cost = f"{row['cpu']:.2f} / {row['wall']:.2f}"
        written = f"{row['to_file_s']:.1f} s | {row['bytes'] / 1e6:,.1f} MB"
        lines.append(f"| {row['profiler']} | {cost} | {count} | {rate} | {below} | {written} |")
    return "\n".join([*lines, "", provenance(result)])


def read_all(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Figures by name, each with one result an interpreter: NAME-3.12.json, NAME-3.13.json."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in folder.glob("*.json"):
        result = json.loads(path.read_text())
        found.setdefault(result["name"], []).append(result)
    for results in found.values():
        results.sort(key=lambda r: [int(part) for part in r["machine"]["python"].split(".")])
    return found


def store(root: Path, result: Mapping[str, Any]) -> Path:
    """A figure with its raw rounds, of which there may be hundreds, a line each, in
    bench/NAME-PYTHON.json, which git ignores: docs/benchmarks.md has the tables."""
    python = ".".join(result["machine"]["python"].split(".")[:2])
    figures = {key: value for key, value in result.items() if key != "raw"}
    text = json.dumps({**figures, "raw": []}, indent=1)
    rounds = ",\n  ".join(json.dumps(each) for each in result.get("raw", ()))
    if rounds:
        text = text.replace('"raw": []', f'"raw": [\n  {rounds}\n ]')
    path = root / "bench" / f"{result['name']}-{python}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n")
    return path


def write(root: Path) -> None:
    """Fill the places of the figures that bench/ has in benchmarks.md, where each has one."""
    figures = read_all(root / "bench")
    page = root / "docs" / "benchmarks.md"
    text = page.read_text()
    for name in sorted(figures):
        if START.format(name) not in text:
            title = figures[name][-1]["title"]
            text += f"\n## {title}\n\n{START.format(name)}\n{END.format(name)}\n"
    page.write_text(filled(text, figures))
    print(f"wrote {page}")


def filled(text: str, figures: dict[str, list[dict[str, Any]]]) -> str:
    """The page with new tables between the markers that it has."""
    for name, results in figures.items():
        start, end = START.format(name), END.format(name)
        if start in text:
            before, rest = text.split(start)
            text = f"{before}{start}\n{table(results)}\n{end}{rest.split(end)[1]}"
    return text

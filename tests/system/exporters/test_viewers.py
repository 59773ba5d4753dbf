"""What viewers show of a profile: pprof, speedscope in a browser, Firefox Profiler's reader."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import NESTED, PATIENCE_S, Run
from viewer_support import VIEWERS, FirefoxReader, pprof

from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.labels import Labels

pytestmark = pytest.mark.once

Names = tuple[str, ...]


def paths_of(profile: Profile) -> Counter[tuple[str, Names]]:
    """Weights in ns by thread and names of functions, root first."""
    tree, labels = FoldedTree.of(profile), Labels(profile, full_names=False).of_frame
    names = {f.id: f.name if f.kind == "python" else labels[f.id] for f in profile.frames.values()}
    weights: Counter[tuple[str, Names]] = Counter()
    for row in profile.sampled:
        path = tree.path(tree.of_node[profile.stacks.node[row.stack]])
        thread = profile.threads[row.thread].name
        weights[thread, tuple(names[frame] for frame in path)] += row.weight_ns
    return weights


def with_frames(paths: Counter[tuple[str, Names]]) -> Counter[tuple[str, Names]]:
    """Without samples of plumbing alone, as when a thread begins: viewers' lists lack them."""
    return Counter({key: weight for key, weight in paths.items() if key[1]})


def self_weights(paths: Counter[tuple[str, Names]]) -> Counter[str]:
    """By function, in ns."""
    weights: Counter[str] = Counter()
    for (_, path), weight_ns in paths.items():
        weights[path[-1] if path else ""] += weight_ns
    return weights


def known_path(path: Names) -> list[str]:
    return [name for name in path if name in NESTED]


def line_of(profile: Profile, name: str, text: str) -> tuple[int, int]:
    """The number of a line with this text in a function, and its weight in ns: own and below."""
    (frame,) = (f for f in profile.frames.values() if f.kind == "python" and f.name == name)
    assert frame.file
    source = Path(frame.file).read_text().splitlines()
    line = next(i for i, each in enumerate(source, 1) if text in each)
    stacks, nodes = profile.stacks, profile.nodes.frame
    weight = 0
    for row in profile.sampled:
        at = row.stack
        while at and (nodes[stacks.node[at]] != frame.id or stacks.line[at] != line):
            at = stacks.parent[at]
        weight += row.weight_ns if at else 0
    return line, weight


@pytest.fixture
def export(nested: Run, pyhybrid: Callable[..., Run]) -> Callable[..., Path]:
    """Exports the profile of tests/targets/nested.py, without what debug information tells."""

    def run(name: str, file: str, *options: str) -> Path:
        pyhybrid("export", nested.path(), "-f", name, "-o", file, *options)
        return nested.path(file)

    return run


@pytest.mark.needs("go")
def test_pprof_has_every_path_thread_and_all_the_weight(nested: Run, export: Any) -> None:
    path = export("pprof", "out.pb.gz", "--no-inlines")
    expected = paths_of(nested.profile())
    found: Counter[tuple[str, Names]] = Counter()
    for sample in pprof("-traces", "-unit=ns", path).split("-----------+")[1:]:
        labels = dict(re.findall(r"^ *(thread|gil|tid): +(.*\S)", sample, re.MULTILINE))
        body = re.search(r"^ *(\d+)ns +(.*)", sample, re.MULTILINE | re.DOTALL)
        if body:
            names = [re.sub(r" \(inline\)$", "", line.strip()) for line in body[2].splitlines()]
            found[labels["thread"], tuple(names[::-1])] += int(body[1])
            assert labels["gil"] in ("held", "neither", "waiting")
    without_frames = sum(weight for (_, names), weight in expected.items() if not names)
    assert found == with_frames(expected)
    assert found.total() + without_frames == sum(row.weight_ns for row in nested.profile().sampled)
    assert any(known_path(names) == NESTED for _, names in found)


def top_of(text: str) -> Counter[str]:
    """The own values of functions, by pprof's -top."""
    rows = re.findall(r"^ *(\d+)(?:ns)? +\S+% +\S+% +\S+ +\S+% +(\S.*)$", text, re.MULTILINE)
    return Counter({name: int(value) for value, name in rows})


def heaviest(weights: Counter[str]) -> list[int]:
    """The three largest; of equal ones any may come first."""
    return [weight for _, weight in weights.most_common(3)]


@pytest.mark.further
@pytest.mark.needs("go")
def test_pprof_shows_top_callers_tags_and_python_lines(nested: Run, export: Any) -> None:
    path, profile = export("pprof", "out.pb.gz", "--no-inlines"), nested.profile()
    paths = paths_of(profile)
    top = pprof("-top", "-unit=ns", "-nodefraction=0", path)
    shown, expected = top_of(top), self_weights(paths)
    assert heaviest(shown) == heaviest(expected)
    assert {n: shown[n] for n, _ in expected.most_common(10)} == dict(expected.most_common(10))
    assert f"Total samples = {expected.total()}ns" in top
    peek = pprof("-peek", "^middle$", path)
    assert re.search(r"\|   b2\n.*\| middle\n.*\|   call_c", peek)
    tags = pprof("-tags", "-unit=ns", path)
    threads: defaultdict[str, int] = defaultdict(int)
    for (thread, _), weight in with_frames(paths).items():
        threads[thread] += weight
    for thread, weight in threads.items():
        assert re.search(rf" {weight}(\.0)?ns \(.*\): {re.escape(thread)}\n", tags), thread
    line, weight = line_of(profile, "leaf", "chain.spin")
    listed = pprof("-list", "^leaf$", "-unit=ns", path)
    assert re.search(rf" {weight}ns +{line}: +chain\.spin\(50\)", listed)


@pytest.mark.further
@pytest.mark.needs("go")
def test_pprof_has_exact_calls_and_times_where_asked(nested: Run, export: Any) -> None:
    path, profile = export("pprof", "exact.pb.gz", "--exact-times"), nested.profile()
    calls, self_ns = Counter[str](), Counter[str]()
    for row in profile.exact:
        name = profile.frames[profile.nodes.frame[row.node]].name
        calls[name] += row.calls
        self_ns[name] += row.self_ns
    for kind, expected in ("calls", calls), ("exact", self_ns):
        top = pprof("-top", f"-sample_index={kind}", "-unit=ns", "-nodefraction=0", path)
        shown = top_of(top)
        for name in "leaf", "middle", "inner", "outer":
            assert shown[name] == expected[name]
    top = pprof("-top", path)
    assert "Type: cpu\n" in top
    assert re.search(r"^File: python", top, re.MULTILINE)


@pytest.mark.needs("viewers", "chromium")
def test_speedscope_shows_a_threads_functions(nested: Run, export: Any) -> None:
    path, profile = export("speedscope", "out.speedscope.json", "--no-inlines"), nested.profile()
    done = subprocess.run(
        ["node", VIEWERS / "speedscope.mjs", path, nested.folder],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    page = json.loads(done.stdout)
    assert page["errors"] == []
    paths = paths_of(profile)
    weights: Counter[str] = Counter()
    for row in profile.sampled:
        thread = profile.threads[row.thread]
        weights[f"{thread.name} ({thread.tid})"] += row.weight_ns
    written = json.loads(path.read_text())
    assert {each["name"]: each["endValue"] for each in written["profiles"]} == weights
    active = written["profiles"][written["activeProfileIndex"]]["name"]
    assert f"{active} (" in page["text"]
    of_active: Counter[tuple[str, Names]] = Counter()
    for (thread, names), weight in paths.items():
        if thread == active.rpartition(" (")[0]:
            of_active[thread, names] += weight
    rows = re.findall(r"\n([\d.]+m?s) \(.*\n\t([\d.]+)(m?s) \(.*\n\t(.*)", page["text"])
    shown = {name: float(n) / (1 if unit == "s" else 1e3) for _, n, unit, name in rows}
    for name, weight in self_weights(of_active).most_common(5):
        assert shown[name] == pytest.approx(weight / 1e9, rel=0.01, abs=1e-5)
    frames = [frame["name"] for frame in written["shared"]["frames"]]
    stacks = [
        [frames[i] for i in stack] for each in written["profiles"] for stack in each["samples"]
    ]
    assert any(known_path(tuple(stack)) == NESTED for stack in stacks)
    assert any(frame.get("file", "").endswith("nested.py") for frame in written["shared"]["frames"])


@pytest.mark.needs("viewers")
def test_firefox_reads_threads_functions_and_weights(nested: Run, export: Any) -> None:
    path, profile = export("firefox", "out.firefox.json.gz", "--no-inlines"), nested.profile()
    paths = with_frames(paths_of(profile))
    with FirefoxReader(path, nested.folder) as reader:
        threads = reader.ask("thread", "list")["threads"]
        shown = {each["name"]: each for each in threads}
        assert shown.keys() == {t.name for t in profile.threads.values() if t.recorded}
        for name, thread in shown.items():
            of_thread = Counter({key: n for key, n in paths.items() if key[0] == name})
            asked = reader.ask("thread", "functions", "--thread", thread["threadHandle"])
            found: Counter[str] = Counter()
            for each in asked["functions"]:
                found[each["name"]] += each["selfSamples"]
            expected = self_weights(of_thread)
            for function, weight in expected.most_common(10):
                assert found[function] == pytest.approx(weight / 1e6, rel=0.002)
            assert found.total() == pytest.approx(expected.total() / 1e6, rel=0.002)
    written = json.loads(gzip.decompress(path.read_bytes()))
    assert_a_line(profile, written)


def assert_a_line(profile: Profile, written: dict[str, Any]) -> None:
    """The weight of a Python line, by the tables."""
    shared = written["shared"]
    texts, frames, stacks = shared["stringArray"], shared["frameTable"], shared["stackTable"]
    line, weight = line_of(profile, "leaf", "chain.spin")
    functions = shared["funcTable"]
    sources = shared["sources"]["filename"]
    (leaf,) = (
        i
        for i, name in enumerate(functions["name"])
        if texts[name] == "leaf" and functions["isJS"][i]
    )
    assert os.path.basename(texts[sources[functions["source"][leaf]]]) == "nested.py"
    at_line = [
        function == leaf and frames["line"][i] == line for i, function in enumerate(frames["func"])
    ]
    below: list[bool] = []
    for frame, prefix in zip(stacks["frame"], stacks["prefix"], strict=True):
        below.append(at_line[frame] or (prefix is not None and below[prefix]))
    found = sum(
        weight_ms
        for thread in written["threads"]
        for stack, weight_ms in zip(
            thread["samples"]["stack"], thread["samples"]["weight"], strict=True
        )
        if stack is not None and below[stack]
    )
    assert found == pytest.approx(weight / 1e6, rel=0.002)

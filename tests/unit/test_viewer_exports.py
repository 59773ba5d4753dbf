"""Files for viewers: sums, paths and tables of profiles made by hand.

The viewers themselves read them in tests/system/exporters/test_viewers.py.
"""

import gzip
import json
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from example_profile import PERIOD_NS, WEIGHT, example, fake_symbols
from test_inlined import CALLED, MAIN, READER, Opened, at, opened, spool  # noqa: F401
from traces import trace

from pyhybrid.assemble import open_profile
from pyhybrid.errors import PyhybridError
from pyhybrid.exporters import EXPORTERS, Exporter
from pyhybrid.exporters.cpuprofile import CpuProfile
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.firefox import Firefox
from pyhybrid.exporters.pprof import Pprof
from pyhybrid.exporters.speedscope import Speedscope
from pyhybrid.options.table import ALL_FORMATS
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.inlined import with_inlined
from pyhybrid.views.call_tree.sampled_paths import SampledPaths


def written(exporter: Exporter, profile: Profile, folder: Path) -> bytes:
    """What is written, which is the same each time."""
    path = folder / "out"
    assert export_to(exporter, profile, str(path)) == (str(path), [])
    first = path.read_bytes()
    export_to(exporter, profile, str(path))
    assert path.read_bytes() == first
    return first


def by_function(profile: Profile) -> dict[int, list[int]]:
    """The frames of each row of `stack`, by its sampled path."""
    sampled = SampledPaths(profile)
    frames: list[list[int]] = [[]]
    for parent, location in zip(sampled.parent[1:], sampled.location[1:], strict=True):
        frames.append(frames[parent] + [frame for frame, _ in sampled.locations[location].lines])
    return {row: frames[path] for row, path in enumerate(sampled.of_row)}


def test_every_exporter_has_a_name_of_the_options() -> None:
    assert tuple(EXPORTERS) == ALL_FORMATS
    assert tuple(each.name for each in EXPORTERS.values()) == ALL_FORMATS


def test_sampled_paths_are_those_of_the_folded_tree(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        tree = FoldedTree.of(profile)
        for row, frames in by_function(profile).items():
            assert frames == tree.path(tree.of_node[profile.stacks.node[row]])


def test_an_address_has_its_inlined_functions(opened: Opened) -> None:  # noqa: F811
    plain = opened(spool((MAIN, at(0x120), CALLED), (MAIN, at(0x110))))
    profile, _ = with_inlined(plain, reader=READER)
    tree = FoldedTree.of(profile)
    for row, frames in by_function(profile).items():
        assert frames == tree.path(tree.of_node[profile.stacks.node[row]])
    names = {frame.id: frame.name for frame in profile.frames.values()}
    chains = [
        [(names[frame], line) for frame, line in location.lines]
        for location in SampledPaths(profile).locations
        if location.address is not None
    ]
    assert [("outer(int)", 12), ("helper(int)", 6), ("inner(int)", 21)] in chains
    assert [("outer(int)", 11)] in chains


def test_speedscope_has_each_threads_weight(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        content = json.loads(written(Speedscope(), profile, tmp_path))
    views = content["profiles"]
    assert [view["name"] for view in views] == [
        f"MainThread ({profile.process.pid})",
        "loader;1 (4250)",
    ]
    assert sum(view["endValue"] for view in views) == WEIGHT * PERIOD_NS
    for view in views:
        assert view["endValue"] == sum(view["weights"])
        assert len(view["samples"]) == len(view["weights"])
    frames = content["shared"]["frames"]
    assert {
        "name": "Thread._bootstrap",
        "file": "/opt/python/lib/python3.12/threading.py",
        "line": 990,
    } in frames


def test_firefox_tables_fit_one_another(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        content = json.loads(gzip.decompress(written(Firefox(), profile, tmp_path)))
        threads = profile.threads
    shared = content["shared"]
    for table in (table for table in shared.values() if isinstance(table, dict)):
        assert {len(column) for column in table.values() if isinstance(column, list)} == {
            table["length"]
        }
    n_frames, stacks = shared["frameTable"]["length"], shared["stackTable"]
    assert all(frame < n_frames for frame in stacks["frame"])
    assert all(p is None or p < at for at, p in enumerate(stacks["prefix"]))
    total_ms = 0.0
    for thread, row in zip(content["threads"], threads.values(), strict=True):
        samples = thread["samples"]
        assert samples["length"] == row.recorded == len(samples["stack"])
        total_ms += sum(samples["weight"])
        last_ms = list(accumulate(samples["timeDeltas"]))[-1]
        assert last_ms == pytest.approx((row.last_ns - profile.process.start_ns) / 1e6, abs=0.01)
    assert total_ms == pytest.approx(WEIGHT * PERIOD_NS / 1e6)


def test_without_samples_exact_times_are_the_weights(tmp_path: Path) -> None:
    profile = trace(
        tmp_path,
        [
            (0, "main", {"calls": 1, "ticks": 100}),
            (1, "f", {"calls": 3, "ticks": 60}),
        ],
    )
    with profile:
        self_ns = sorted(row.self_ns for row in profile.exact)
        content = json.loads(written(Speedscope(), profile, tmp_path))
        assert sorted(content["profiles"][0]["weights"]) == self_ns
        raw = gzip.decompress(written(Pprof(), profile, tmp_path))
        assert b"calls" in raw and b"samples" not in raw
        with pytest.raises(PyhybridError, match="no samples"):
            written(Firefox(), profile, tmp_path)


def test_names_are_other_peoples_data(tmp_path: Path) -> None:
    odd = "<img>\"'\\\udcff\n"
    with trace(tmp_path, [(0, odd, {"calls": 1, "ticks": 9})]) as profile:
        content: dict[str, Any] = json.loads(written(Speedscope(), profile, tmp_path))
        shown = Counter(frame["name"] for frame in content["shared"]["frames"])
        assert shown == {odd.replace("\udcff", "\\udcff"): 1}
        assert b"\\udcff\n" in gzip.decompress(written(Pprof(), profile, tmp_path))


def test_cpuprofile_has_the_samples_of_a_thread(tmp_path: Path) -> None:
    with open_profile(example().save(tmp_path / "x.part"), fake_symbols()) as profile:
        path = tmp_path / "out.cpuprofile"
        _, notes = export_to(CpuProfile(), profile, str(path))
        thread = profile.threads[1]
    assert notes == [f"{path} has the thread MainThread alone"]
    content = json.loads(path.read_text())
    nodes = {node["id"]: node for node in content["nodes"]}
    assert len(content["samples"]) == len(content["timeDeltas"]) == thread.recorded
    assert Counter(content["samples"]) == {
        i: n["hitCount"] for i, n in nodes.items() if n["hitCount"]
    }
    assert content["startTime"] + sum(content["timeDeltas"]) == content["endTime"]
    below = [child for node in nodes.values() for child in node["children"]]
    assert sorted([1, *below]) == sorted(nodes)
    forward = next(n for n in nodes.values() if n["callFrame"]["functionName"] == "Linear.forward")
    assert forward["callFrame"]["lineNumber"] == 129

"""The quality report: what it says of the example is what the example was made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from example_profile import PERIOD_NS, SAMPLES, WEIGHT, example, fake_symbols
from spool_writer import SpoolWriter

from pyhybrid.assemble import open_profile
from pyhybrid.report.quality import quality_listing, quality_report
from pyhybrid.report.table import shown
from pyhybrid.tables.profile import Profile


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    path = example().save(tmp_path / "out.pyhybrid.part")
    with open_profile(path, fake_symbols()) as opened:
        yield opened


def test_the_example(profile: Profile) -> None:
    report = quality_report(profile)
    assert (report.samples.recorded, report.samples.signals) == (SAMPLES, SAMPLES + 3)
    assert report.samples.losses == {"ring_full": 2, "too_slow": 1}
    assert report.samples.recorded_weight_ns == WEIGHT * PERIOD_NS
    assert report.samples.missed_weight_ns == PERIOD_NS
    assert sum(report.samples.stacks.values()) == pytest.approx(1)
    assert report.samples.gil == {"held": 0, "waiting": 0, "neither": 1}
    # Ten samples of the handler, all in bucket 16, which ends at 1280.
    assert report.handler_histogram == [(1024, 10)]
    assert (report.handler_p50_ns, report.handler_max_ns) == (1152, 1280)


def test_names_by_library(profile: Profile) -> None:
    report = quality_report(profile)
    by_name = {each.module: each for each in report.modules}
    torch = by_name["libtorch_cpu.so"]
    # 8 periods are below `add`; 5 of them in a named function, 1 where only an FDE is known, 1 in
    # neither (and 1 in JIT code).
    assert torch.weight_ns == (8 + 5 + 1 + 1) * PERIOD_NS
    assert torch.by_source["fde"] == pytest.approx(1 / 15)
    assert torch.by_source["none"] == pytest.approx(1 / 15)
    assert torch.named == pytest.approx(13 / 15)
    weights = [each.weight_ns for each in report.modules]
    assert weights == sorted(weights, reverse=True)
    assert report.named is not None
    text = "\n".join(shown(quality_listing(report)))
    assert "libtorch_cpu.so: " in text
    assert "lost: 2 ring full, 1 too slow" in text


def test_the_interval_between_samples(tmp_path: Path) -> None:
    spool = SpoolWriter()
    spool.meta()
    spool.thread(1, 4242, "python")
    spool.samples(1, [0] * 200, dt_ns=1_100_000, weights=[(50, 3)])
    spool.counters(1, 200, 202, cpu_ns=220_000_000)
    with open_profile(spool.save(tmp_path / "y.part")) as profile:
        report = quality_report(profile)
    assert report.interval == dict.fromkeys(("p1", "p50", "p90", "p99"), pytest.approx(1.1))


def test_regions_of_native_code(tmp_path: Path) -> None:
    spool = SpoolWriter()
    spool.meta(unplaced_regions=1200, unmatched_regions=3)
    with open_profile(spool.save(tmp_path / "r.part")) as profile:
        report = quality_report(profile)
    assert (report.unplaced_regions, report.unmatched_regions) == (1200, 3)
    assert "1,200 not counted" in "\n".join(shown(quality_listing(report)))


def test_nothing_sampled(tmp_path: Path) -> None:
    spool = SpoolWriter()
    spool.meta()
    with open_profile(spool.save(tmp_path / "z.part")) as profile:
        report = quality_report(profile)
    assert (report.samples.signals, report.named, report.interval) == (0, None, {})
    assert [*shown(quality_listing(report))]

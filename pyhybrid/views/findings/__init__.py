"""Findings: what an expert would see first in a profile, in words, each with its evidence.

The rules are data, findings.toml: which measure, from what size on, which text.  Measures are
functions of a profile's columns (finding_measures.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pyhybrid.base.files import table_beside
from pyhybrid.tables.profile import Profile
from pyhybrid.tables.schema import Record
from pyhybrid.views.findings.finding_measures import MEASURES, idle
from pyhybrid.views.findings.gpu_measures import GPU_MEASURES
from pyhybrid.views.findings.measured_profile import Measured
from pyhybrid.views.findings.process_measures import awaited
from pyhybrid.views.findings.request_measures import requests
from pyhybrid.views.findings.slow_layer import layer, uncompiled
from pyhybrid.views.findings.step_measures import STEP_MEASURES
from pyhybrid.views.training.in_steps import FEWEST_STEPS, in_steps

MOST = 5
SHOWN = 3  # of them by a summary
_MEASURES = {
    **MEASURES,
    **STEP_MEASURES,
    **GPU_MEASURES,
    "awaited": awaited,
    "idle_threads": idle,
    "layer": layer,
    "requests": requests,
    "uncompiled": uncompiled,
}


class Finding(Record):
    """A finding is a sentence, the command that shows more, and the numbers behind it.

    `share` (0..1) is how much it is about; `evidence` are seconds, shares, numbers and names.
    """

    rule: str
    text: str
    command: str
    share: float
    evidence: dict[str, Any]


class Found(Record):
    """Hold what `report findings --json` prints."""

    findings: list[Finding]


def findings(profile: Profile) -> list[Finding]:
    """Return five at most, what is about most first; none where nothing stands out.  Of a training
    what is about its beginning alone comes last, but of those that are SHOWN where it is most of
    the run.

    A part of the samples has none: shares of it mean something else.
    """
    if profile.view.by_time:
        return []
    measured, part = Measured(profile), in_steps(profile)
    of_steps = Measured(part.profile, part.n_steps) if part else measured
    found: list[Finding] = []
    last = dict[str, bool]()  # rules, and whether they are shown all the same
    for rule in _rules():
        base = of_steps if rule.get("in_steps") else measured
        evidence = _MEASURES[rule["measure"]](base, rule)
        if evidence and _reaches(rule, evidence):
            shown = {key: _shown(key, e) for key, e in evidence.items()}
            text = rule["text"].format(time=base.time, **shown)
            share = float(evidence.get("share", 0))
            if rule.get("last") and len(measured.steps) >= FEWEST_STEPS:
                last[rule["name"]] = share >= rule["shown_from"]
            found.append(Finding(rule["name"], text, rule["command"], share, evidence))
    found.sort(key=lambda each: (each.rule in last, -each.share))
    for each in [each for each in found[SHOWN:] if last.get(each.rule)]:
        found.remove(each)
        found.insert(SHOWN - 1, each)
    return found[:MOST]


@cache
def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = table_beside(__file__, "findings")["rule"]
    return rules


def _reaches(rule: dict[str, Any], evidence: dict[str, Any]) -> bool:
    """Is every limit of the rule kept?"""
    for key, limit in rule.items():
        verb, _, what = key.partition("_")
        if verb == "least" and evidence[what] < limit:
            return False
        if verb == "most" and evidence[what] > limit:
            return False
    return True


SHARES = ("share", "held", "gapped", "truncated")


def _shown(key: str, value: Any) -> str:
    """Return a number of evidence as it stands in a sentence."""
    if key in SHARES:
        return f"{value:.0%}"
    if key in ("seconds", "cpu", "wall", "recorded"):
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    if key == "per_call":
        return f"{value:.2g} us"
    return f"{value:,}" if isinstance(value, int) else str(value)

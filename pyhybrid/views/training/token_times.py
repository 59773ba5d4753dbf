"""How fast a model that is not trained answers: its calls' times by kind, tokens a second.

The kinds are known by how many integers (`Step.tokens`) each call gets.  A decode loop with a cache
gives the model the new tokens alone: the call before those, which has more, is its prefill.  A loop
that gives it all tokens again has more with each call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pyhybrid.base.quantiles import quantile
from pyhybrid.tables.schema import Record
from pyhybrid.views.training.phases import FORWARD
from pyhybrid.views.training.steps import Step, Steps

PREFILL, DECODE, AGAIN, CALL = "prefill", "decode", "all again", "call"
PER_PREFILL = 2  # a prefill has so many times the tokens of what comes next, at least
FEWEST = 4  # calls in a row of a decode loop


class CallTimes(Record):
    """Hold the steps of a kind: `prefill`, `decode` (the new tokens alone), `all again` (all tokens
    and a few more each time), or another `call`.

    Times of a step, of which `model_p50_ns` is in the model.  `tokens`: of all, and of those that
    get all again the new ones; 0: not known.  `first_tokens`, `last_tokens`: what the first and the
    last one got.
    """

    kind: str
    n: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    model_p50_ns: int
    total_ns: int
    tokens: int
    first_tokens: int
    last_tokens: int


def call_times(found: Steps) -> list[CallTimes]:
    """Return them by kind, a prefill first; empty: of a training."""
    of_kind: defaultdict[str, list[Step]] = defaultdict(list)
    of_thread: defaultdict[int, list[Step]] = defaultdict(list)
    for step in () if found.trains else found.steps:
        of_thread[step.thread].append(step)
    for steps in of_thread.values():
        for step, kind in zip(steps, _kinds([each.tokens for each in steps]), strict=True):
            of_kind[kind].append(step)
    kinds = (PREFILL, DECODE, AGAIN, CALL)
    return [_times(kind, of_kind[kind]) for kind in kinds if kind in of_kind]


def _times(kind: str, steps: list[Step]) -> CallTimes:
    times = [step.total_ns for step in steps]
    tokens = sum(step.tokens for step in steps)
    if kind == AGAIN:
        tokens = len(steps) * (steps[1].tokens - steps[0].tokens)
    in_model = [step.phases.get(FORWARD, 0) for step in steps]
    return CallTimes(
        kind,
        len(steps),
        round(quantile(times, 0.5)),
        round(quantile(times, 0.95)),
        round(quantile(times, 0.99)),
        round(quantile(in_model, 0.5)),
        sum(times),
        tokens,
        steps[0].tokens,
        steps[-1].tokens,
    )


def _kinds(tokens: list[int]) -> list[str]:
    """Return the kind of each call of a thread, by its tokens."""
    kinds = [CALL] * len(tokens)
    for first, end, grows in _runs(tokens):
        if end - first < FEWEST or not tokens[first]:
            continue
        kinds[first:end] = [AGAIN if grows else DECODE] * (end - first)
    for at in range(len(tokens) - 1):
        if tokens[at] >= PER_PREFILL * tokens[at + 1] and kinds[at + 1] == DECODE:
            kinds[at] = PREFILL
    begun = False  # the same number each time, with nothing that has more before it: no decoding
    for at, kind in enumerate(kinds):
        begun = kind == PREFILL or (begun and kind == DECODE)
        if kind == DECODE and not begun:
            kinds[at] = CALL
    return kinds


def _runs(tokens: list[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield first, end and `does it grow?` of each run in which calls differ by the same number: by
    none, or by one that is more."""
    first = 0
    while first < len(tokens):
        end, more = first + 1, 0
        while end < len(tokens):
            by = tokens[end] - tokens[end - 1]
            more = by if end == first + 1 else more
            if by != more or more < 0:
                break
            end += 1
        yield first, end, more > 0
        first = max(end, first + 1)

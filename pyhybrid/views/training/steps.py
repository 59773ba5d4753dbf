"""The steps of a training, or of inference: when each ran, and what its phases (phases.py) took.

A step ends with the last optimizer before the next batch or forward pass, and the next one begins
there; evaluation, and batches that are not trained with, before it, are between the steps, unless
most steps have some.  Where fewer batches
came than such ends, a batch belongs to several optimizers (GANs): the last one before the next
batch ends the step.  Where nothing is trained a step ends with each call of a model, and the
next one begins there; the first one of what generates text begins with that.  All figures are
wall-clock and CPU time of the thread that runs the steps.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from pyhybrid._columns import add_up
from pyhybrid.base.pseudo_frames import STEP_MARK
from pyhybrid.base.structs import Struct, made
from pyhybrid.errors import PyhybridError
from pyhybrid.tables.profile import Profile, made_once
from pyhybrid.tables.schema import Record
from pyhybrid.tables.timeline import Spans
from pyhybrid.views.training.phases import (
    BACKWARD,
    CHECKPOINT,
    COMMUNICATION,
    DATA,
    EVALUATION,
    FORWARD,
    OPTIMIZER,
    OTHER,
    Span,
    all_phases,
    frame_phases,
    phase_spans,
    trains,
    watched_phases,
)

# A batch belongs to several optimizers where it comes before one in eight of them or more; where it
# comes more seldom, it is used again and again.
LEAST_BATCHES = 1 / 8
FEWEST_HALF = 4  # steps of half a run, whose memory is compared
BEFORE = (COMMUNICATION, CHECKPOINT, OTHER)  # with none of these the first step begins
WORK = (DATA, FORWARD, BACKWARD)  # with the first of these the work of a step begins


class Step(Struct):
    """Hold one step: its phases' times, `other` included, add up to its own.

    `spans`: when each phase but `other` ran, without the others in it.  `tokens`: as the program
    noted (`pyhybrid.step`), else of how many elements the tensors of integers were that models were
    called with; 0: of none.  `batch`: how many samples, as the program noted; 0: it did not.
    `resident`: the process's memory at its end, in bytes; 0: it is not known.
    """

    number: int
    thread: int
    begin_ns: int
    end_ns: int
    cpu_ns: int
    phases: dict[str, int] = made(dict)
    phases_cpu: dict[str, int] = made(dict)
    spans: dict[str, Spans] = made(dict)
    tokens: int = 0
    batch: int = 0
    resident: int = 0

    @property
    def total_ns(self) -> int:
        """Return the time from its begin to its end."""
        return self.end_ns - self.begin_ns


class Steps(Record):
    """Hold all of a profile, by begin; `phases` are the names of those that ran.

    `between_ns`: what is between the first and the last step, and in none; `n_lacking`: so many
    optimizers ran whose single calls are not in the file.  `trains`: else a step is a call of a
    model that is not trained.
    """

    steps: list[Step]
    phases: list[str]
    between_ns: int
    n_lacking: int
    trains: bool = True


def kind_text(trains: bool) -> str:
    """Return of what steps are: `of a training` or `of inference`."""
    return "of a training" if trains else "of inference"


@made_once
def steps_of(profile: Profile) -> Steps | None:
    """Return the steps; None: there are none."""
    steps: list[Step] = []
    between_ns, is_training = 0, trains(profile)
    for thread, spans in phase_spans(profile).items():
        bounds = _bounds(spans) if is_training else _model_calls(profile, thread, spans)
        found = [_step(thread, *each) for each in bounds]
        if found:
            between_ns += found[-1].end_ns - found[0].begin_ns - sum(s.total_ns for s in found)
        steps += found
    if not steps:
        return None
    steps.sort(key=lambda step: step.begin_ns)
    for number, step in enumerate(steps):
        step.number = number
    _add_marks(profile, steps)
    ran = {phase for step in steps for phase in step.phases}
    phases = [phase for phase in all_phases() if phase in ran]
    return Steps(steps, phases, between_ns, _n_lacking(profile), is_training)


def find_steps(profile: Profile) -> Steps:
    """Return the steps; raises PyhybridError where there are none."""
    found = steps_of(profile)
    if not found:
        why = "no optimizer ran" if trains(profile) else "no model was called"
        if not profile.watched_calls:
            why = "--mode hybrid or trace tells them, of PyTorch, without a filter or no-steps"
        raise PyhybridError(f"{profile.path}: no steps of a training or of inference ({why})")
    return found


def _n_lacking(profile: Profile) -> int:
    phase_of, frame_of = frame_phases(profile), profile.nodes.frame
    counted = add_up(profile.exact.node, profile.exact.calls, len(frame_of))
    kept = Counter(call.node for call in profile.watched_calls)
    optimizers = (node for node in kept if phase_of.get(frame_of[node]) == OPTIMIZER)
    return sum(counted[node] - kept[node] for node in optimizers if counted[node])


class Growth(Record):
    """Hold how the process's resident memory goes on with the steps, in bytes: after the `first`
    step and the `last`, and how much more it is `per_step`, usually, after the first quarter."""

    first: int
    last: int
    per_step: int


def memory_growth(steps: Sequence[Step]) -> Growth | None:
    """Return it, of the thread with most steps; None: it is not known of enough steps."""
    most = Counter(step.thread for step in steps).most_common(1)
    known = [step.resident for step in steps if step.resident and step.thread == most[0][0]]
    later = known[len(known) // 4 :]
    half = len(later) // 2
    if half < FEWEST_HALF:
        return None
    more = median(b - a for a, b in zip(later, later[half:], strict=False))
    return Growth(known[0], known[-1], round(more / half))


def spans_of(step: Step, phase: str) -> Spans:
    """Return when the phase ran."""
    if phase != OTHER:
        return step.spans.get(phase, [])
    return _between(step, step.spans)


def spans_without(step: Step, phase: str) -> Spans:
    """Return when it did not."""
    return _between(step, [phase])


def _between(step: Step, phases: Iterable[str]) -> Spans:
    inside = sorted(span for phase in phases for span in step.spans.get(phase, []))
    ends = [step.begin_ns, *(end for _, end in inside)]
    return list(zip(ends, [*(begin for begin, _ in inside), step.end_ns], strict=True))


# --- where steps begin and end --------------------------------------------------------------------

# What it begins with the end of, or with the begin of (an optimizer; what generates), unless with
# its first span; and its spans.
_Bounds = tuple[tuple[int, int] | None, list[Span]]


def _bounds(spans: list[Span]) -> Iterator[_Bounds]:
    """Yield for each step what ended before it, if it begins there, and its spans."""
    parts = _merged(list(_parts(spans)))
    skipped = [_n_untrained(part) for part in parts]
    if 2 * sum(map(bool, skipped)) > len(parts):
        skipped = [0] * len(parts)  # several batches are trained with at once
    before: tuple[int, int] | None = None
    if parts and not skipped[0]:
        skipped[0] = next(at for at, span in enumerate(parts[0]) if span.phase not in BEFORE)
    for part, n in zip(parts, skipped, strict=True):
        yield None if n else before, part[n:]
        before = part[-1].call.end_ns, part[-1].call.cpu_end_ns


def _model_calls(profile: Profile, thread: int, spans: list[Span]) -> Iterator[_Bounds]:
    """Yield for each call of a model what came since the one before, or the begin of what generates
    with it, and its spans."""
    phase_of, frame_of = watched_phases(profile), profile.nodes.frame
    generators = [
        call
        for call in profile.watched_calls
        if call.thread == thread and phase_of.get(frame_of[call.node]) == EVALUATION
    ]
    begins = [call.begin_ns for call in generators]
    before: tuple[int, int] | None = None
    part: list[Span] = []
    for span in spans:
        part.append(span)
        if span.phase != FORWARD:
            continue
        at = bisect_right(begins, span.call.begin_ns) - 1
        if at >= 0 and span.call.begin_ns < generators[at].end_ns:
            begin = generators[at].begin_ns, generators[at].cpu_begin_ns
            before = max(before or begin, begin)
        yield before, part
        before, part = (span.call.end_ns, span.call.cpu_end_ns), []


def _parts(spans: list[Span]) -> Iterator[list[Span]]:
    """Yield the spans up to each optimizer that is the last one before data or a forward pass."""
    part: list[Span] = []
    for span, following in zip(spans, _next_phases(spans), strict=True):
        part.append(span)
        if span.phase == OPTIMIZER and following not in (OPTIMIZER, BACKWARD):
            yield part
            part = []


def _next_phases(spans: list[Span]) -> list[str]:
    """Return for each span the next one's phase of those that decide; an optimizer that runs the
    forward pass itself counts as one."""
    phases, following = [], ""
    for span in reversed(spans):
        phases.append(following)
        if span.phase in (DATA, FORWARD, BACKWARD):
            following = span.phase
        elif span.phase == EVALUATION:
            following = FORWARD
        elif span.phase == OPTIMIZER:
            following = FORWARD if span.has(FORWARD) else OPTIMIZER
    return phases[::-1]


def _merged(parts: list[list[Span]]) -> list[list[Span]]:
    """Merge parts that have no batch of their own with the one before, where that is so."""
    n_batches = [sum(span.is_batch for span in _trained(part)) for part in parts]
    if not len(parts) * LEAST_BATCHES <= sum(n_batches) < len(parts) - 1:
        return parts
    merged: list[list[Span]] = []
    for part, n in zip(parts, n_batches, strict=True):
        if n or not merged:
            merged.append(part)
        else:
            merged[-1] += part
    return merged


def _trained(part: Sequence[Span]) -> Sequence[Span]:
    return part[_n_untrained(part) :]


def _n_untrained(part: Sequence[Span]) -> int:
    """Return how many of the first spans are evaluation, and batches that went forward and not
    back."""
    n = begin = 0
    is_begun = went_forward = False
    for at, span in enumerate(part):
        if span.phase == EVALUATION and not is_begun:
            n = at + 1
        is_begun |= span.phase == FORWARD or span.is_batch
        if span.phase == DATA:
            if went_forward:
                n = at if span.is_batch else at + 1
            begin, went_forward = at, False
        elif span.phase in (BACKWARD, OPTIMIZER):
            return n
        elif span.phase == FORWARD and part[begin].phase == DATA:
            went_forward = True
    return n


# --- what they took -------------------------------------------------------------------------------


def _step(thread: int, begin: tuple[int, int] | None, spans: list[Span]) -> Step:
    first, last = spans[0].call, spans[-1].call
    begin_ns, cpu_ns = begin or (first.begin_ns, first.cpu_begin_ns)
    step = Step(0, thread, begin_ns, last.end_ns, last.cpu_end_ns - cpu_ns)
    for top in spans:
        for span in top.flat():
            if span.phase != OTHER:
                _add(step, span)
            step.resident = span.call.resident or step.resident
            if span.phase == FORWARD and top.phase == FORWARD:
                step.tokens += span.call.integers
    step.phases[OTHER] = step.total_ns - sum(step.phases.values())
    step.phases_cpu[OTHER] = step.cpu_ns - sum(step.phases_cpu.values())
    return step


def _add(step: Step, span: Span) -> None:
    """Add its own time, without that of those in it."""
    call, own = span.call, step.spans.setdefault(span.phase, [])
    since, wall, cpu = call.begin_ns, 0, call.cpu_end_ns - call.cpu_begin_ns
    for inner in span.inner:
        own.append((since, inner.call.begin_ns))
        wall += inner.call.begin_ns - since
        since = inner.call.end_ns
        cpu -= inner.call.cpu_end_ns - inner.call.cpu_begin_ns
    own.append((since, call.end_ns))
    step.phases[span.phase] = step.phases.get(span.phase, 0) + wall + call.end_ns - since
    step.phases_cpu[span.phase] = step.phases_cpu.get(span.phase, 0) + cpu


# --- what the program notes of them ---------------------------------------------------------------


def _add_marks(profile: Profile, steps: list[Step]) -> None:
    """Add what `pyhybrid.step` noted in each: after its work began, and before that of the next."""
    marks = {
        each.id
        for each in profile.frames.values()
        if (each.kind, each.name) == ("region", STEP_MARK)
    }
    if not marks:
        return
    of_thread: defaultdict[int, list[Step]] = defaultdict(list)
    for step in steps:
        of_thread[step.thread].append(step)
    sums = Counter[tuple[int, str]]()
    begins = {thread: [_work_ns(step) for step in each] for thread, each in of_thread.items()}
    for call in profile.calls:
        if profile.nodes.frame[call.node] not in marks or not call.attributes:
            continue
        at = bisect_right(begins.get(call.thread, []), call.begin_ns) - 1
        if at < 0:
            continue
        step, attributes = of_thread[call.thread][at], json.loads(call.attributes)
        for name in ("tokens", "batch"):
            if type(attributes.get(name)) is int:
                sums[step.number, name] += attributes[name]
    for (number, name), n in sums.items():
        setattr(steps[number], name, n)


def _work_ns(step: Step) -> int:
    """Return when the work of a step began: after the optimizer before it there may be a mark."""
    return min(
        (each[0][0] for phase in WORK if (each := step.spans.get(phase))), default=step.begin_ns
    )

"""What makes a profile's measurement worse than usual: for the first screen, `ask` and the page.

All of how good it is `report quality` has.
"""

from pyhybrid.report.run_parts import Clock, Samples
from pyhybrid.report.summary import Summary
from pyhybrid.report.table import share
from pyhybrid.views.labels import losses_text

# From where on the measurement's quality is worth a word; findings are about more of the same.
LEAST_UNKNOWN, LEAST_UNKNOWN_NS = (
    0.01,
    10_000_000,
)  # of the CPU time: without a signal, in no sample
LEAST_BROKEN = 0.01  # of the signals, or stacks
LEAST_RATE = 0.8  # of what was asked
MOST_COUNTING, MOST_SAMPLING = 0.2, 0.05  # of the CPU time
FEW_SAMPLES, FEWEST = 100, 20  # samples: with fewer a rate is not known, either
N_BLOCKED = 3  # threads that are named


def cautions(s: Summary) -> list[str]:
    """Return where the measurement is worse than usual, the worst first; `report quality` has all.

    What a finding is about is none.
    """
    samples, clock, cost = s.samples, s.clock, s.cost
    cpu_ns, found = s.run.cpu_ns or 0, {each.rule for each in s.findings}
    parts: list[str] = []
    if s.calls and s.calls.unknown_calls:
        parts.append(f"{s.calls.unknown_calls:,} more calls are [unknown python]")
    if s.run.mode != "trace":
        if 0 < samples.recorded < FEW_SAMPLES and "waiting" not in found:
            points = 50 / samples.recorded**0.5
            parts.append(f"only {samples.recorded} samples: shares are true to {points:.0f} points")
        parts += _rate(clock, samples)
        parts += _unknown(samples, cpu_ns, clock, found)
    if cost.overhead is not None and cost.overhead >= MOST_SAMPLING:
        parts.append(f"sampling took {share(cost.overhead)} of the CPU time")
    if cost.counting_ns and cpu_ns and cost.counting_ns >= MOST_COUNTING * cpu_ns:
        took = f"about {cost.counting_ns / 1e9:.2f} s, {share(cost.counting_ns / cpu_ns)}"
        parts.append(f"counting calls took {took} of the CPU time")
    return parts


def _rate(clock: Clock, samples: Samples) -> list[str]:
    """Return that samples are fewer than was asked, or of another clock, and why."""
    reached, asked = clock.hz_reached, clock.hz_asked
    why = f": {clock.engine_reason}" if clock.engine_reason else ""
    if reached and asked and samples.recorded >= FEWEST and reached < LEAST_RATE * asked:
        unit = "second" if clock.kind == "wall" else "CPU second"
        return [f"{reached:.0f} of {asked} samples a {unit}, by {clock.engine}{why}"]
    return []


def _unknown(samples: Samples, cpu_ns: int, clock: Clock, found: set[str]) -> list[str]:
    """Return what samples do not know."""
    parts = []
    time = "time" if clock.kind == "wall" else "CPU time"
    least_ns = max(LEAST_UNKNOWN_NS, LEAST_UNKNOWN * cpu_ns)
    if samples.missed_weight_ns >= least_ns:
        parts.append(f"{samples.missed_weight_ns / 1e9:.2f} s of {time} without a signal")
    if samples.unaccounted_ns >= least_ns and "unaccounted" not in found:
        parts.append(f"{samples.unaccounted_ns / 1e9:.2f} s of {time} in no sample")
    lost = sum(samples.losses.values())
    if lost >= LEAST_BROKEN * (samples.signals or 1) > 0 and "lost samples" not in found:
        parts.append(f"lost {losses_text(samples.losses)} of {samples.signals:,} signals")
    broken = samples.stacks.get("gapped", 0) + samples.stacks.get("truncated", 0)
    if broken >= LEAST_BROKEN and "broken stacks" not in found:
        parts.append(f"{share(broken)} of the stacks are not whole")
    if samples.blocked:
        n = len(samples.blocked) - N_BLOCKED
        more = f" and {n} more" if n > 0 else ""
        parts.append(f"signals blocked by {', '.join(samples.blocked[:N_BLOCKED])}{more}")
    return parts

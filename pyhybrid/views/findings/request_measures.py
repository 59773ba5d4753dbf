"""What requests of a server waited for, most of all: calls of a function that was chosen."""

from pyhybrid.views.findings.measured_profile import Evidence, Measured
from pyhybrid.views.serving.requests import RequestPlace, Requests, has_parts, requests_of
from pyhybrid.views.serving.turn_samples import GIL, LOCKS, LOOP_BUSY

MOST_CALLS = 100_000  # of more the end of a run would take long
MODEL = "the model's calls"
WORDS = {
    LOCKS: "waiting for a lock",
    GIL: "waiting for the GIL",
    LOOP_BUSY: "until their event loop came to them",
}


def requests(measured: Measured, _: object) -> Evidence:
    """Measure what held up requests, or the model's calls that they waited for, where they waited
    for a lock, the GIL or an event loop, and what another thread was at for most of that time."""
    profile = measured.profile
    if not has_parts(profile) or len(profile.calls) > MOST_CALLS:
        return None
    found = requests_of(profile)
    rows = _held_up(found)
    if not rows:
        return None
    share, ns, place, of = max(rows, key=lambda each: each[0])
    where = f"{place.function} ({place.at})" if place.function else "code that is not the program's"
    other = f", while {place.other} ({place.other_at}) was at work" if place.other else ""
    return {
        "share": share,
        "seconds": ns / 1e9,
        "n": found.n,
        "of": of,
        "what": WORDS[place.part],
        "where": where,
        "other": other if place.part != LOOP_BUSY else "",
    }


def _held_up(found: Requests) -> list[tuple[float, int, RequestPlace, str]]:
    """Return each reason with its share of the time of all requests, or of the model's calls, the
    time, and the place that has most of it."""
    total = {each.part: each.share for each in found.parts}
    rows = []
    for part in WORDS:
        of_part = [each for each in found.places if each.part == part]
        if of_part and part in total:
            ns = sum(each.total_ns for each in of_part)
            rows.append((total[part], ns, of_part[0], f"{found.n:,} calls of {found.function}"))
    if found.model and found.model.total_ns:
        for part in (LOCKS, GIL):
            of_part = [each for each in found.model.waited if each.part == part]
            ns = sum(each.total_ns for each in of_part)
            if of_part:
                rows.append((ns / found.model.total_ns, ns, of_part[0], MODEL))
    return rows

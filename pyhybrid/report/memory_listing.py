"""The memory of a training as text."""

from collections.abc import Iterator

from pyhybrid.report.table import Column, Listing, Table, text
from pyhybrid.views.training.device_memory import DeviceMemory
from pyhybrid.views.training.memory import Memory
from pyhybrid.views.training.memory_calls import MemoryCall, call_text

MOST_CALLS, LEAST_PART = 30, 0.001  # rows, and of the peak where it is of no interest


def memory_listing(found: Memory) -> Listing:
    """Yield what lived in all, and which calls had it: of the CPU's allocator, then of GPUs."""
    if found.followed:
        yield from _of_cpu(found)
    for each in found.devices:
        yield from device_listing(each)
    yield from found.notes


def _of_cpu(found: Memory) -> Listing:
    more = f", {megabytes(found.per_step)} more after each step" if found.per_step else ""
    yield (
        f"PyTorch's CPU allocator: at most {megabytes(found.peak)} lived, "
        f"{megabytes(found.alive)} at the end{more}"
    )
    if found.steps:
        peaks = sorted(each.peak for each in found.steps)
        yield (
            f"{found.n_steps:,} steps: most in a step {megabytes(peaks[len(peaks) // 2])} usually, "
            f"{megabytes(found.steps[0].alive)} after the first, "
            f"{megabytes(found.steps[-1].alive)} after the last"
        )
    if found.kept:
        yield (
            f"when a backward pass began, {megabytes(found.kept)} of its forward pass lived; "
            f"it used and gave back {megabytes(found.used)}"
        )
    if found.resident:
        last, per_step = found.resident.last, found.resident.per_step
        yield f"resident: {megabytes(last)} after the last step, {per_step / 1e6:+,.2f} MB a step"
    if found.lost:
        yield f"{found.lost:,} pieces ({megabytes(found.lost_bytes)}) are in no figure: too many"
    rows = memory_rows(found)
    yield Table(list(_columns(found.calls)), rows[:MOST_CALLS], below=_below)
    if len(found.calls) > len(rows[:MOST_CALLS]):
        yield f"{len(found.calls) - len(rows[:MOST_CALLS]):,} more (--json)"


def device_listing(found: DeviceMemory) -> Listing:
    """Yield what lived on a GPU, how much of its memory is in pieces, and which calls had it."""
    step = "" if found.peak_step is None else f" (in step {found.peak_step})"
    yield (
        f"GPU {found.device}, of {found.snapshot}: at most {megabytes(found.peak)} lived{step}, "
        f"{megabytes(found.alive)} at the end, of {megabytes(found.reserved)} reserved"
    )
    free = found.reserved - found.alive
    yield (
        f"not in use: {megabytes(free)}, the largest piece {megabytes(found.largest_free)}; "
        f"{megabytes(found.stuck)} beside pieces in use, {megabytes(found.rounded)} by rounding up"
    )
    if not found.n_events:
        yield "what lived at the end alone: without _record_memory_history() there is no trace"
    elif found.before:
        yield f"{megabytes(found.before)} lived when the trace began"
    for each in found.failed:
        place = f"{each.function} ({each.at})" if each.function else "no function that is known"
        yield (
            f"out of memory: {megabytes(each.wanted)} asked for in {place}, "
            f"{megabytes(each.free)} free on the device"
        )
    yield Table(list(_columns(found.calls)), found.calls[:MOST_CALLS])
    if len(found.calls) > MOST_CALLS:
        yield f"{len(found.calls) - MOST_CALLS:,} more (--json)"


def memory_rows(found: Memory) -> list[MemoryCall]:
    """Return the calls that are of interest: those that grow first, then most at the peak."""
    least = LEAST_PART * found.peak
    rows = [each for each in found.calls if _most(each) >= least or each.per_step]
    return sorted(
        rows, key=lambda each: (-each.per_step, -each.at_peak, -each.kept, -each.allocated)
    )


def megabytes(size: int) -> str:
    """Return `1.23 MB`."""
    return f"{size / 1e6:,.2f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def _most(each: MemoryCall) -> int:
    return max(each.at_peak, each.kept, each.alive, each.later_alive)


def _columns(calls: list[MemoryCall]) -> Iterator[Column]:
    for title, name in (
        ("at the peak", "at_peak"),
        ("at backward", "kept"),
        ("used by it", "used"),
        ("at the end", "alive"),
        ("a step", "per_step"),
        ("got in all", "allocated"),
        ("in backward", "later_allocated"),
    ):
        if any(getattr(each, name) for each in calls):
            yield Column(title, 14, name, lambda size: megabytes(size) if size else "")
    yield text("module, function", call_text)


def _below(each: MemoryCall) -> Iterator[str]:
    for holder in each.holders:
        yield f"{'':16}held by {holder}"

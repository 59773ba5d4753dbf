"""`report compiles`: what torch.compile compiled, a line for each, and why again."""

from pyhybrid.report.table import Column, Listing, Table, seconds, text
from pyhybrid.views.labels import short_time
from pyhybrid.views.training.compiles import Compile, Compiles, label_of


def compile_listing(found: Compiles) -> Listing:
    """What compiling took, against running; then each compile."""
    yield f"torch.compile: {took_text(found)}"
    if found.run_ns is not None:
        calls = f"{found.calls:,} calls, {short_time(found.run_ns)}"
        yield f"running what was compiled: {calls}"
    if found.share is not None:
        yield f"{found.share:.1%} of the samples are in compilers"
    if found.is_cut:
        yield "earlier compiles are no longer in PyTorch's own record"
    yield Table(_COLUMNS, found.compiles)


def took_text(found: Compiles) -> str:
    """How many, what they took, and how many were made again."""
    n, functions = len(found.compiles), found.functions
    of = f" of {functions} function{'s' * (functions != 1)}" if functions else ""
    wall = f" of {found.wall_ns / 1e9:.2f} s" if found.wall_ns else ""
    again = f", {found.again} again" if found.again else ""
    return f"{n} compile{'s' * (n != 1)}{of}, {found.took_ns / 1e9:.2f} s{wall}{again}"


def _why(each: Compile) -> str:
    if each.failure:
        return f", failed: {each.failure}"
    return f", recompiled because {each.reason}" if each.reason else ""


_COLUMNS = (
    Column("at", 10, "begin_ns", seconds),
    Column("took", 12, "took_ns", seconds),
    text("compile", lambda each: label_of(each) + _why(each)),
)

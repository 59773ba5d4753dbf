"""`report ops`: the operators of PyTorch, those with most samples of their own first."""

from collections.abc import Iterator
from functools import partial

from pyhybrid.report.ellipsis import middle
from pyhybrid.report.table import Column, Listing, Table, number, seconds, share, text
from pyhybrid.views.labels import short_time
from pyhybrid.views.training.operators import OperatorFigures, Operators, ShapeCalls
from pyhybrid.views.training.phases import all_phases

MOST_OPERATORS, MOST_NODES = 20, 5  # rows
MOST_SHAPES = 10
MOST_PLACES = 5  # of each kind, of an operator that was asked for
MOST_PHASES = 4  # columns
NAME_WIDTH = 36
HEAD = "operator < called as"
NEARLY_ALL = 0.995  # of an operator's weight: from there on no other share is said


def operator_listing(found: Operators, in_full: bool) -> Listing:
    """Shares of the samples below operators; `in_full`: each by module and by caller."""
    if found.operators:
        yield from _sampled(found, in_full)
    else:
        yield f"no samples are below {'these' if in_full else 'the'} operators"
    if found.backward_nodes and not in_full:
        yield from _nodes(found)
    if found.shapes:
        yield from _shapes(found.shapes, len(found.shapes) if in_full else MOST_SHAPES)


def _sampled(found: Operators, in_full: bool) -> Listing:
    if found.step_weight_ns:
        below = share(found.step_operator_weight_ns / found.step_weight_ns)
        yield f"{below} of the samples in steps are below an operator"
    below = share(found.operator_weight_ns / found.weight_ns)
    yield f"below operators: {below} of the samples, of which these are shares"
    shown = found.operators if in_full else found.operators[:MOST_OPERATORS]
    width = min(NAME_WIDTH, max(len(HEAD), *(len(_name(each)) for each in shown)))
    name = text(HEAD, lambda each: middle(_name(each), width), width)
    columns = [*_columns(found, shown), name, text("most of it in", _places)]
    yield Table(columns, shown, below=_details if in_full else lambda each: ())
    rest = found.operators[len(shown) :]
    if rest:
        own = sum(each.own_weight_ns for each in rest) / found.operator_weight_ns
        yield f"{own:7.1%}  {len(rest):,} more (--match REGEX: some of them in full, --json: all)"


def _columns(found: Operators, shown: list[OperatorFigures]) -> Iterator[Column]:
    all_ns = found.operator_weight_ns
    yield Column("self", 7, lambda each: each.own_weight_ns / all_ns, share)
    yield Column("total", 8, lambda each: each.weight_ns / all_ns, share)
    yield Column("time", 9, "weight_ns", short_time)
    if any(each.calls is not None for each in shown):
        yield Column("calls", 10, "calls", number)
    for phase in _phases(found):
        yield Column(phase, 10, partial(_in_phase, phase, all_ns), share)


def _in_phase(phase: str, all_ns: int, each: OperatorFigures) -> float | None:
    return each.phases.get(phase, 0) / all_ns or None


def _phases(found: Operators) -> list[str]:
    """Those with most of the weight, in the order of a step."""
    weights: dict[str, int] = {}
    for each in found.operators:
        for phase, weight_ns in each.phases.items():
            weights[phase] = weights.get(phase, 0) + weight_ns
    most = sorted(weights, key=weights.__getitem__, reverse=True)[:MOST_PHASES]
    return [phase for phase in all_phases() if phase in most]


def _name(each: OperatorFigures) -> str:
    """With the operator that the program called, where that is mostly another one."""
    called = next(iter(each.called_as))
    return each.name if called == each.name else f"{each.name} < {called}"


def _places(each: OperatorFigures) -> str:
    """The module and the line of the program with most of the weight."""
    most = [next(iter(each.modules.items()), None)]
    if each.callers:
        caller = each.callers[0]
        most.append((_line(caller.function, caller.file, caller.line), caller.weight_ns))
    shares = [(place[0], place[1] / each.weight_ns) for place in most if place]
    return ", ".join(name if part > NEARLY_ALL else f"{part:.0%} {name}" for name, part in shares)


def _line(function: str, file: str, line: int) -> str:
    return f"{function} ({file}:{line})"


def _details(each: OperatorFigures) -> Listing:
    called = {name: ns for name, ns in each.called_as.items() if name != each.name}
    lines = {_line(c.function, c.file, c.line): c.weight_ns for c in each.callers}
    columns = (
        Column("", 16, lambda item: item[1] / each.weight_ns, share),
        Column("", 9, lambda item: item[1], short_time),
        text("", lambda item: item[0]),
    )
    of = {"called as": called, "in": each.phases, "module": each.modules, "line": lines}
    for what, weights in of.items():
        shown = [(f"{what} {name}", ns) for name, ns in weights.items()]
        yield Table(columns, shown[:MOST_PLACES])
        if len(weights) > MOST_PLACES:
            yield f"{'':27}… {len(weights) - MOST_PLACES:,} more"


def _nodes(found: Operators) -> Listing:
    yield "autograd nodes with the most exact time, without the nodes in them:"
    yield Table(_NODE_COLUMNS, found.backward_nodes[:MOST_NODES])


def _shapes(shapes: list[ShapeCalls], most: int) -> Listing:
    yield "calls by shapes of the tensors, estimated from those that were looked at:"
    yield Table(_SHAPE_COLUMNS, shapes[:most])
    if len(shapes) > most:
        yield f"{'':24}… {len(shapes) - most:,} more"


_NODE_COLUMNS = (
    Column("time", 11, "exact_self_ns", seconds),
    Column("calls", 10, "calls", number),
    text("node", "name"),
)
_SHAPE_COLUMNS = (
    Column("calls", 11, "calls", number),
    Column("looked at", 11, "looked_at", number),
    text("operator", lambda each: f"{each.operator}: {each.shapes}"),
)

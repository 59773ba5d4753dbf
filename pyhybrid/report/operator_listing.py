"""`report ops`: the operators of PyTorch, those with most samples of their own first."""

from collections.abc import Iterator

from pyhybrid.report.ellipsis import middle
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


def operator_lines(found: Operators, in_full: bool) -> Iterator[str]:
    """The lines: shares of the samples below operators; `in_full`: each by module and by caller."""
    if found.operators:
        yield from _sampled(found, in_full)
    else:
        yield f"no samples are below {'these' if in_full else 'the'} operators"
    if found.backward_nodes and not in_full:
        yield from _nodes(found)
    if found.shapes:
        yield from _shapes(found.shapes, len(found.shapes) if in_full else MOST_SHAPES)


def _sampled(found: Operators, in_full: bool) -> Iterator[str]:
    if found.step_weight_ns:
        share = found.step_operator_weight_ns / found.step_weight_ns
        yield f"{share:.1%} of the samples in steps are below an operator"
    share = found.operator_weight_ns / found.weight_ns
    yield f"below operators: {share:.1%} of the samples, of which these are shares"
    shown = found.operators if in_full else found.operators[:MOST_OPERATORS]
    phases = _phases(found)
    width = min(NAME_WIDTH, max(len(HEAD), *(len(_name(each)) for each in shown)))
    has_calls = any(each.calls is not None for each in shown)
    calls = "     calls" if has_calls else ""
    heads = "".join(f"{phase:>10}" for phase in phases)
    yield f"   self   total     time{calls}{heads}  {HEAD:<{width}}  most of it in"
    for each in shown:
        text = "" if each.calls is None else f"{each.calls:,}"
        shares = [each.own_weight_ns / found.operator_weight_ns]
        shares.append(each.weight_ns / found.operator_weight_ns)
        line = "".join(f"{share:7.1%} " for share in shares) + f"{short_time(each.weight_ns):>8}"
        line += f"{text:>10}" * has_calls
        line += "".join(_share(each.phases.get(phase, 0), found) for phase in phases)
        yield f"{line}  {middle(_name(each), width):<{width}}  {_places(each)}".rstrip()
        if in_full:
            yield from _details(each)
    rest = found.operators[len(shown) :]
    if rest:
        own = sum(each.own_weight_ns for each in rest) / found.operator_weight_ns
        yield f"{own:7.1%}  {len(rest):,} more (--match REGEX: some of them in full, --json: all)"


def _phases(found: Operators) -> list[str]:
    """Those with most of the weight, in the order of a step."""
    weights: dict[str, int] = {}
    for each in found.operators:
        for phase, weight_ns in each.phases.items():
            weights[phase] = weights.get(phase, 0) + weight_ns
    most = sorted(weights, key=weights.__getitem__, reverse=True)[:MOST_PHASES]
    return [phase for phase in all_phases() if phase in most]


def _share(weight_ns: int, found: Operators) -> str:
    return f"{weight_ns / found.operator_weight_ns:10.1%}" if weight_ns else " " * 10


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
    return ", ".join(
        name if share > NEARLY_ALL else f"{share:.0%} {name}" for name, share in shares
    )


def _line(function: str, file: str, line: int) -> str:
    return f"{function} ({file}:{line})"


def _details(each: OperatorFigures) -> Iterator[str]:
    called = {name: ns for name, ns in each.called_as.items() if name != each.name}
    lines = {_line(c.function, c.file, c.line): c.weight_ns for c in each.callers}
    for what, weights in (
        ("called as", called),
        ("in", each.phases),
        ("module", each.modules),
        ("line", lines),
    ):
        for name, weight_ns in list(weights.items())[:MOST_PLACES]:
            share = weight_ns / each.weight_ns
            yield f"{'':9}{share:7.1%} {short_time(weight_ns):>8}  {what} {name}"
        if len(weights) > MOST_PLACES:
            yield f"{'':27}… {len(weights) - MOST_PLACES:,} more"


def _nodes(found: Operators) -> Iterator[str]:
    yield "autograd nodes with the most exact time, without the nodes in them:"
    yield "       time     calls  node"
    for each in found.backward_nodes[:MOST_NODES]:
        yield f"{each.exact_self_ns / 1e9:9.3f} s{each.calls:10,}  {each.name}"


def _shapes(shapes: list[ShapeCalls], most: int) -> Iterator[str]:
    yield "calls by shapes of the tensors, estimated from those that were looked at:"
    yield "      calls  looked at  operator"
    for each in shapes[:most]:
        calls = f"{each.calls:,}"
        yield f"{calls:>11}{each.looked_at:11,}  {each.operator}: {each.shapes}"
    if len(shapes) > most:
        yield f"{'':24}… {len(shapes) - most:,} more"

"""A training as text: its modules, its operators, and what torch.compile compiled."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

from pyhybrid.report.ellipsis import middle
from pyhybrid.report.table import Column, Listing, Table, number, seconds, share, text
from pyhybrid.views.labels import short_time
from pyhybrid.views.training.compiles import Compile, CompiledFunction, Compiles, label_of
from pyhybrid.views.training.model import ModelFigures, ModuleFigures
from pyhybrid.views.training.module_calls import HookFigures
from pyhybrid.views.training.operators import OperatorFigures, Operators, ShapeCalls
from pyhybrid.views.training.phases import all_phases

STEP = "  "
FIRST_LINE = 3  # modules with most time of their own, in the first line
MOST_OPERATORS, MOST_NODES = 20, 5  # rows
MOST_SHAPES = 10
MOST_BREAKS, MOST_BREAK_TEXT = 5, 200  # of graphs, and characters of one
MOST_HOOKS, LEAST_HOOK = 10, 0.01  # rows, and of the first one's time
MOST_PLACES = 5  # of each kind, of an operator that was asked for
MOST_PHASES = 4  # columns
NAME_WIDTH = 36
HEAD = "operator < called as"
NEARLY_ALL = 0.995  # of an operator's weight: from there on no other share is shown


def model_listing(model: ModelFigures, by_class: bool = False) -> Listing:
    """Yield calls and exact times of both passes, and shares of the forward pass's samples."""
    most = sorted(model.modules, key=_own)[:FIRST_LINE]
    if most:
        yield "most of its own: " + ", ".join(
            f"{_label(each, by_class)} {_own_text(model, each)}" for each in most
        )
    if model.weight_ns:
        below = share(model.forward_weight_ns / model.weight_ns)
        yield f"in modules: {below} of the samples, of which these are shares"
    if model.exact_backward_ns:
        all_ns, other = model.exact_backward_ns, model.exact_other_backward_ns
        yield f"backward pass: {all_ns / 1e9:.3f} s, {other / all_ns:.1%} of it for no module"
    if model.exact_loader_ns:
        yield f"modules that load data, in no row: {model.exact_loader_ns / 1e9:.3f} s"
    if by_class:
        name = text("class", lambda each: _label(each, True))
        yield Table([*_module_columns(model), name], sorted(model.modules, key=_own))
    else:
        tree = list(_tree(model))
        labels = {each.name: label for each, label in tree}
        name = text("module", lambda each: labels[each.name])
        yield Table([*_module_columns(model), name], [each for each, _ in tree])
    yield from _flops_notes(model)
    yield from _hook_rows(model)


def _hook_rows(model: ModelFigures) -> Listing:
    if not model.hooks:
        return
    yield "hooks of modules, in no module's own time, and callbacks:"
    least_ns = LEAST_HOOK * model.hooks[0].total_ns
    shown = [each for each in model.hooks[:MOST_HOOKS] if each.total_ns >= least_ns]
    yield Table(_HOOK_COLUMNS, shown)
    if len(model.hooks) > len(shown):
        yield f"{'':25}… {len(model.hooks) - len(shown):,} more (--json)"


def _own(each: ModuleFigures) -> tuple[int, int]:
    """Sort most first: by time, or by samples where nothing was counted."""
    return -each.exact_own_ns, -each.own_weight_ns


def _tree(model: ModelFigures) -> Iterator[tuple[ModuleFigures, str]]:
    """Yield below each module those whose paths go on, whatever was never called in between."""
    paths = {each.name for each in model.modules}
    children: defaultdict[str, list[ModuleFigures]] = defaultdict(list)
    for each in model.modules:
        children[_above(each.name, paths)].append(each)
    todo = [(0, "", each) for each in _largest_last(children[""])]
    while todo:
        depth, above, each = todo.pop()
        name = each.name.removeprefix(f"{above}.") if above else each.name
        yield each, f"{STEP * depth}{name} [{each.of_class}]"
        todo += [(depth + 1, each.name, below) for below in _largest_last(children[each.name])]


def _above(path: str, paths: set[str]) -> str:
    while "." in path:
        path = path.rpartition(".")[0]
        if path in paths:
            return path
    return ""


def _largest_last(modules: list[ModuleFigures]) -> list[ModuleFigures]:
    return sorted(modules, key=lambda each: (each.exact_total_ns, each.weight_ns))


def _label(each: ModuleFigures, by_class: bool) -> str:
    if by_class:
        return f"{each.name}, {each.modules:,} of them" if each.modules > 1 else each.name
    return f"{each.name} [{each.of_class}]"


def _own_text(model: ModelFigures, each: ModuleFigures) -> str:
    if each.calls or not model.forward_weight_ns:
        return f"{each.exact_own_ns / 1e9:.3f} s"
    return f"{each.own_weight_ns / model.forward_weight_ns:.1%}"


def _module_columns(model: ModelFigures) -> Iterator[Column]:
    """Yield the columns of figures that there are; exact ones are blank where a module has none."""

    def exact(title: str, width: int, name: str, show: Callable[[int], str] = seconds) -> Column:
        def of(each: ModuleFigures) -> int | None:
            return getattr(each, name) if each.calls or each.exact_total_ns else None

        return Column(title, width, of, show)

    if any(each.calls or each.exact_total_ns for each in model.modules):
        yield exact("forward", 10, "exact_total_ns")
        yield exact("own", 12, "exact_own_ns")
        if any(each.recomputed_calls for each in model.modules):
            yield exact("recomputed", 12, "exact_recomputed_ns")
        if model.exact_backward_ns:
            yield exact("backward", 12, "exact_backward_ns")
        yield exact("calls", 12, "calls", number)
        if any(each.exact_compile_ns for each in model.modules):
            yield exact("compiling", 12, "exact_compile_ns")
    if any(each.flops or each.flops_backward for each in model.modules):
        n = model.n_steps or 1
        yield Column("GFLOP", 10, lambda each: _flops(each) / n or None, _giga)
        yield Column("a second", 10, partial(_a_second, 1), _giga)
        if model.peak:
            yield Column("of most", 9, partial(_a_second, model.peak.flops), share)
    of_all = model.forward_weight_ns
    yield Column("samples", 9, lambda each: each.weight_ns / of_all if of_all else None, share)
    yield Column(
        "native", 8, lambda each: each.native_weight_ns / of_all if of_all else None, share
    )
    if model.gpu_ns:
        yield Column("GPU forward", 14, "gpu_ns", _milliseconds)
        yield Column("backward", 13, "gpu_backward_ns", _milliseconds)


def _flops(each: ModuleFigures) -> int:
    return each.flops + each.flops_backward


def _a_second(of: int, each: ModuleFigures) -> float | None:
    """Return its operations a second of its time in both passes, as a part of `of`."""
    took_ns = each.exact_total_ns + each.exact_backward_ns
    return _flops(each) * 1e9 / took_ns / of if took_ns and _flops(each) else None


def _giga(value: float) -> str:
    return f"{value / 1e9:,.3g}"


def _flops_notes(model: ModelFigures) -> Listing:
    """Yield what the columns of floating-point operations are."""
    if not any(map(_flops, model.modules)):
        return
    of = "a step" if model.n_steps else "in all"
    yield f"GFLOP: {of}, of both passes, in products, by one call in twenty: an estimate"
    if model.peak:
        most, threads = _giga(model.peak.flops), model.peak.threads
        yield (
            f"of most: of {most} GFLOP a second, what products of matrices of {model.peak.type} "
            f"alone did at the end of the run, with {threads} thread{'s' * (threads != 1)}"
        )


def _of_modules(each: HookFigures) -> str:
    return f", of {each.modules:,} module{'s' * (each.modules != 1)}" if each.modules else ""


def _milliseconds(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"


def operator_listing(found: Operators, in_full: bool) -> Listing:
    """Yield shares of the samples below operators; `in_full`: each by module and by caller."""
    if found.operators:
        yield from _sampled(found, in_full)
    else:
        yield f"no samples are below {'these' if in_full else 'the'} operators"
    if found.backward_nodes and not in_full:
        yield from _nodes(found)
    if found.shapes:
        if found.flops:
            yield _flops_text(found)
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
    columns = [*_operator_columns(found, shown), name, text("most of it in", _places)]
    yield Table(columns, shown, below=_details if in_full else lambda each: ())
    rest = found.operators[len(shown) :]
    if rest:
        own = sum(each.own_weight_ns for each in rest) / found.operator_weight_ns
        yield f"{own:7.1%}  {len(rest):,} more (--match REGEX: some of them in full, --json: all)"


def _operator_columns(found: Operators, shown: list[OperatorFigures]) -> Iterator[Column]:
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
    """Return those with most of the weight, in the order of a step."""
    weights: dict[str, int] = {}
    for each in found.operators:
        for phase, weight_ns in each.phases.items():
            weights[phase] = weights.get(phase, 0) + weight_ns
    most = sorted(weights, key=weights.__getitem__, reverse=True)[:MOST_PHASES]
    return [phase for phase in all_phases() if phase in most]


def _name(each: OperatorFigures) -> str:
    """Return it with the operator that the program called, where that is mostly another one."""
    called = next(iter(each.called_as))
    return each.name if called == each.name else f"{each.name} < {called}"


def _places(each: OperatorFigures) -> str:
    """Return the module and the line of the program with most of the weight."""
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


def _flops_text(found: Operators) -> str:
    """Return what products of matrices do, and how fast, by estimates and samples."""
    text = f"arithmetic: about {found.flops / 1e9:,.3g} GFLOP in products of matrices"
    if found.flops_weight_ns:
        text += f", {found.flops / found.flops_weight_ns:,.3g} GFLOP a second of their time"
    return text


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
_HOOK_COLUMNS = (
    Column("time", 11, "total_ns", seconds),
    Column("calls", 12, "calls", number),
    text("function", lambda each: each.function + _of_modules(each)),
)
_SHAPE_COLUMNS = (
    Column("calls", 11, "calls", number),
    Column("looked at", 11, "looked_at", number),
    Column("GFLOP", 10, "flops", lambda flops: f"{flops / 1e9:,.3g}"),
    text("operator", lambda each: f"{each.operator}: {each.shapes}"),
)


def compile_listing(found: Compiles) -> Listing:
    """Yield what compiling took, against running; then each compile."""
    yield f"torch.compile: {took_text(found)}"
    if found.run_ns is not None:
        calls = f"{found.calls:,} calls, {short_time(found.run_ns)}"
        yield f"running what was compiled: {calls}"
    if found.share is not None:
        yield f"{found.share:.1%} of the samples are in compilers"
    if found.is_cut:
        yield "earlier compiles are no longer in PyTorch's own record"
    yield Table(list(_compile_columns(found.compiles)), found.compiles)
    for why, n in found.breaks[:MOST_BREAKS]:
        yield f"graph broken, {n} x: {middle(why, MOST_BREAK_TEXT)}"
    if found.cuda_graphs_skipped or found.cuda_graphs_again:
        yield (
            f"CUDA graphs: {found.cuda_graphs_again:,} made again, "
            f"{found.cuda_graphs_skipped:,} compiles without one"
        )
    if any(each.calls is not None for each in found.by_function):
        yield "what was compiled, and ran, with the calls that compiled it:"
        yield Table(_COMPILED_COLUMNS, found.by_function)


def _compile_columns(compiles: list[Compile]) -> Iterator[Column]:
    """Yield the columns of what the record has."""
    yield Column("at", 10, "begin_ns", seconds)
    yield Column("took", 12, "took_ns", seconds)
    for title, name in (("dynamo", "dynamo_ns"), ("AOT", "aot_ns"), ("inductor", "inductor_ns")):
        if any(getattr(each, name) for each in compiles):
            yield Column(title, 10, name, short_time)
    for title, name in (
        ("operators", "operators"),
        ("guards", "guards"),
        ("breaks", "graph_breaks"),
    ):
        if any(getattr(each, name) for each in compiles):
            yield Column(title, 11, name, number)
    if any(each.cached is not None for each in compiles):
        yield text("cache", lambda each: {True: "  hit", False: "  miss", None: ""}[each.cached], 8)
    yield text("compile", lambda each: label_of(each) + _why(each))


def _a_call(each: CompiledFunction) -> int | None:
    return each.run_ns // each.calls if each.calls and each.run_ns is not None else None


def took_text(found: Compiles) -> str:
    """Return how many, what they took, and how many were made again."""
    n, functions = len(found.compiles), found.functions
    of = f" of {functions} function{'s' * (functions != 1)}" if functions else ""
    wall = f" of {found.wall_ns / 1e9:.2f} s" if found.wall_ns else ""
    again = f", {found.again} again" if found.again else ""
    return f"{n} compile{'s' * (n != 1)}{of}, {found.took_ns / 1e9:.2f} s{wall}{again}"


def _why(each: Compile) -> str:
    if each.failure:
        return f", failed: {each.failure}"
    return f", recompiled because {each.reason}" if each.reason else ""


_COMPILED_COLUMNS = (
    Column("calls", 10, "calls", number),
    Column("a call", 12, _a_call, short_time),
    Column("compiles", 10, "compiles", number),
    Column("took", 10, "took_ns", seconds),
    text("function", "name"),
)

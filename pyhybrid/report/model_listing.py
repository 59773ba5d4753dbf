"""`report modules`: a model as a tree of its modules, the largest first."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from pyhybrid.report.table import Column, Listing, Table, number, seconds, share, text
from pyhybrid.views.training.model import ModelFigures, ModuleFigures

STEP = "  "
FIRST_LINE = 3  # modules with most time of their own, in the first line


def model_listing(model: ModelFigures, by_class: bool = False) -> Listing:
    """Calls and exact times of both passes, and shares of the forward pass's samples."""
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
    if by_class:
        name = text("class", lambda each: _label(each, True))
        yield Table([*_columns(model), name], sorted(model.modules, key=_own))
    else:
        tree = list(_tree(model))
        labels = {each.name: label for each, label in tree}
        name = text("module", lambda each: labels[each.name])
        yield Table([*_columns(model), name], [each for each, _ in tree])


def _own(each: ModuleFigures) -> tuple[int, int]:
    """Most first: by time, or by samples where nothing was counted."""
    return -each.exact_own_ns, -each.own_weight_ns


def _tree(model: ModelFigures) -> Iterator[tuple[ModuleFigures, str]]:
    """Below each module those whose paths go on, whatever was never called in between."""
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


def _columns(model: ModelFigures) -> Iterator[Column]:
    """Of figures, as far as there are any; exact ones are blank where a module has none."""

    def exact(title: str, width: int, name: str, show: Callable[[int], str] = seconds) -> Column:
        def of(each: ModuleFigures) -> int | None:
            return getattr(each, name) if each.calls or each.exact_total_ns else None

        return Column(title, width, of, show)

    if any(each.calls or each.exact_total_ns for each in model.modules):
        yield exact("forward", 10, "exact_total_ns")
        yield exact("own", 12, "exact_own_ns")
        if model.exact_backward_ns:
            yield exact("backward", 12, "exact_backward_ns")
        yield exact("calls", 12, "calls", number)
    of_all = model.forward_weight_ns
    yield Column("samples", 9, lambda each: each.weight_ns / of_all if of_all else None, share)
    yield Column(
        "native", 8, lambda each: each.native_weight_ns / of_all if of_all else None, share
    )
    if model.gpu_ns:
        yield Column("GPU forward", 14, "gpu_ns", _milliseconds)
        yield Column("backward", 13, "gpu_backward_ns", _milliseconds)


def _milliseconds(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"

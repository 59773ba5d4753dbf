"""`report modules`: a model as a tree of its modules, the largest first."""

from collections import defaultdict
from collections.abc import Iterator

from pyhybrid.views.training.model import ModelFigures, ModuleFigures

STEP = "  "
FIRST_LINE = 3  # modules with most time of their own, in the first line


def model_lines(model: ModelFigures, by_class: bool = False) -> Iterator[str]:
    """The lines: calls and exact times of both passes, and shares of the forward pass's samples."""
    most = sorted(model.modules, key=_own)[:FIRST_LINE]
    what = "class" if by_class else "module"
    if most:
        yield "most of its own: " + ", ".join(
            f"{_label(each, by_class)} {_own_text(model, each)}" for each in most
        )
    if model.weight_ns:
        share = model.forward_weight_ns / model.weight_ns
        yield f"in modules: {share:.1%} of the samples, of which these are shares"
    if model.exact_backward_ns:
        all_ns, other = model.exact_backward_ns, model.exact_other_backward_ns
        yield f"backward pass: {all_ns / 1e9:.3f} s, {other / all_ns:.1%} of it for no module"
    backward = "    backward" if model.exact_backward_ns else ""
    gpu = " GPU forward     backward  " if model.gpu_ns else ""
    exact = ""
    if any(each.calls or each.exact_total_ns for each in model.modules):
        exact = f"   forward         own{backward}       calls"
    yield f"{exact}  samples  native  {gpu}{what}"
    if by_class:
        for each in sorted(model.modules, key=_own):
            yield _figures(model, each, len(exact)) + _label(each, by_class)
        return
    yield from _tree(model, len(exact))


def _own(each: ModuleFigures) -> tuple[int, int]:
    """Most first: by time, or by samples where nothing was counted."""
    return -each.exact_own_ns, -each.own_weight_ns


def _tree(model: ModelFigures, width: int) -> Iterator[str]:
    """Below each module those whose paths go on, whatever was never called in between."""
    paths = {each.name for each in model.modules}
    children: defaultdict[str, list[ModuleFigures]] = defaultdict(list)
    for each in model.modules:
        children[_above(each.name, paths)].append(each)
    todo = [(0, "", each) for each in _largest_last(children[""])]
    while todo:
        depth, above, each = todo.pop()
        name = each.name.removeprefix(f"{above}.") if above else each.name
        yield _figures(model, each, width) + STEP * depth + f"{name} [{each.of_class}]"
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


def _figures(model: ModelFigures, each: ModuleFigures, width: int) -> str:
    """`width`: of exact ones, blank where a module has none."""
    times = [each.exact_total_ns, each.exact_own_ns]
    if model.exact_backward_ns:
        times.append(each.exact_backward_ns)
    exact = " " * width
    if each.calls or each.exact_total_ns:
        exact = "".join(f"{time / 1e9:8.3f} s  " for time in times) + f"{each.calls:10,}"
    shares = " " * 15
    if model.forward_weight_ns:
        weights = each.weight_ns, each.native_weight_ns
        shares = " ".join(f"{weight / model.forward_weight_ns:7.1%}" for weight in weights)
    gpu = ""
    if model.gpu_ns:
        gpu = f"{each.gpu_ns / 1e6:9.2f} ms {each.gpu_backward_ns / 1e6:9.2f} ms  "
    return f"{exact}  {shares}  {gpu}"

"""How many floating-point operations calls of operators are, by the shapes of their tensors.

Counted are products of matrices, convolutions and attention, as torch.utils.flop_counter counts
them: a multiplication with its addition is two.  All else is next to nothing beside them.  Of a
convolution the forward pass shows no stride; it is known where the backward pass has the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

Shape = tuple[int, ...]

_TENSOR = re.compile(r"\w+\[([\d, ]*)\]|_")
_PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::addmv": 1}
_CONVOLUTION, _CONVOLUTION_BACKWARD = "aten::convolution", "aten::convolution_backward"
_ATTENTION = re.compile(r"aten::_scaled_dot_product_\w*attention(_for_cpu)?(_backward)?")
_ATTENTION_BACKWARD = 2.5  # times the forward pass: five products for two


def flops_of(operator: str, shapes: Iterable[Shape | None]) -> int | None:
    """Return those of one call with tensors of these shapes (None: another input); None: it is not
    known, or no operator that counts."""
    known = list(shapes)
    if operator in _PRODUCTS:
        one, other = (*known[_PRODUCTS[operator] :], None, None)[:2]
        return 2 * prod(one) * other[-1] if one and other and len(other) > 1 else None
    if operator == _CONVOLUTION_BACKWARD:
        grad, image, weight = (*known, None, None, None)[:3]
        if not grad or not image or not weight:
            return None
        return 2 * _convolution(grad, weight)  # for the image and for the weight
    if (match := _ATTENTION.fullmatch(operator)) is None:
        return None
    given = [each for each in known[match[2] is not None :] if each and len(each) == 4]
    if len(given) < 2:
        return None
    *batch, n, size = given[0]
    forward = 4 * prod(batch) * n * size * given[1][-2]
    return round(forward * _ATTENTION_BACKWARD) if match[2] else forward


def _convolution(out: Shape, weight: Shape) -> int:
    return 2 * out[0] * prod(out[2:]) * prod(weight)


def shapes_in(text: str) -> list[Shape | None]:
    """Return the shapes of `float32[64, 128], _`."""
    return [
        None if match[1] is None else tuple(int(each) for each in match[1].split(",") if each)
        for match in _TENSOR.finditer(text)
    ]


class Flops:
    """Hold what is known of all calls of a run, for the convolutions of its forward pass."""

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        """Take operators and the shapes of their tensors, as text."""
        self._of_convolution: dict[tuple[Shape, Shape], int] = {}
        for operator, text in rows:
            if operator == _CONVOLUTION_BACKWARD:
                grad, image, weight = (*shapes_in(text), None, None, None)[:3]
                if grad and image and weight:
                    self._of_convolution[image, weight] = _convolution(grad, weight)

    def of(self, operator: str, text: str) -> int | None:
        """Return those of one call; None: as flops_of()."""
        shapes = shapes_in(text)
        if operator == _CONVOLUTION:
            image, weight = (*shapes, None, None)[:2]
            return self._of_convolution.get((image, weight)) if image and weight else None
        return flops_of(operator, shapes)

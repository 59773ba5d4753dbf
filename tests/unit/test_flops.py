"""Floating-point operations by shapes: as torch.utils.flop_counter counts them (PyTorch 2.15)."""

from __future__ import annotations

import pytest

from pyhybrid.views.training.flops import Flops

IMAGE, WEIGHT, OUT = "float32[4, 8, 15, 15]", "float32[16, 8, 3, 3]", "float32[4, 16, 13, 13]"
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
QUERY = "float32[2, 4, 10, 16]"


@pytest.mark.parametrize(
    ("operator", "shapes", "flops"),
    [
        ("aten::mm", "float32[4, 32], float32[32, 2704]", 692_224),
        ("aten::addmm", "float32[32], float32[4, 2704], float32[2704, 32]", 692_224),
        ("aten::bmm", "float32[5, 6, 7], float32[5, 7, 8]", 3360),
        ("aten::convolution", f"{IMAGE}, {WEIGHT}, float32[16]", 1_557_504),
        ("aten::convolution_backward", f"{OUT}, {IMAGE}, {WEIGHT}", 3_115_008),
        (FLASH, f"{QUERY}, {QUERY}, {QUERY}", 51_200),
        (f"{FLASH}_backward", f"{QUERY}, {QUERY}, {QUERY}, {QUERY}, {QUERY}", 128_000),
        ("aten::linear", "float32[4, 2704], float32[32, 2704]", None),  # what it calls counts
        ("aten::mm", "_, float32[32, 2704]", None),
        ("aten::mm", "float32[], float32[]", None),
        ("aten::convolution", f"{IMAGE}, float32[16, 8, 5, 5]", None),  # with no backward pass
    ],
)
def test_flops(operator: str, shapes: str, flops: int | None) -> None:
    known = Flops([("aten::convolution_backward", f"{OUT}, {IMAGE}, {WEIGHT}")])
    assert known.of(operator, shapes) == flops

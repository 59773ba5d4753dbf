"""C++ templates that call one of their arguments: which function of the program that is.

Optimizers build a lambda into whatever calls it, so that the only trace of PyTorch's kernels in a
stack is `c10::function_ref<...>::callback_fn<at::native::AVX2::VectorizedLoop2d<at::native::
mul_kernel(...)::{lambda()#2}...>>`.  Which templates, and which argument: plumbing.toml.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyhybrid.symbols.plumbing import argument_called

CALLED_LAMBDA = "::{lambda}"  # any of a function, or within one of its own

_BRACKETS = re.compile(r"[<>(){},]")
_OPENING, _CLOSING = "<({", ">)}"
_REFERENCE = re.compile(r"(?: const)?&{0,2}$")
_FIRST_LAMBDA = re.compile(r"::\{lambda")
# PyTorch compiles its kernels for several kinds of processors, each in a namespace of its own.
_CAPABILITY = re.compile(r"\bat::native::(AVX\w+|SVE\w+|VSX|ZVECTOR)::")


def lambda_called(name: str, short: str, shorten: Callable[[str], str]) -> str | None:
    """Return the short name of the lambda that a function, by its name, is an instance for.

    `short` is that name shortened, as `shorten` does it; None: it is no such template, or what it
    calls is no lambda.  The name has no operators that look like brackets.
    """
    outer = name
    while (argument := argument_called(name, short)) is not None:
        arguments = _last_arguments(name)
        if argument >= len(arguments):
            return None
        name = _REFERENCE.sub("", arguments[argument])
        short = shorten(name)
    function = _FIRST_LAMBDA.split(short, maxsplit=1)
    if name is outer or len(function) == 1:
        return None
    label = function[0] + CALLED_LAMBDA
    capability = _CAPABILITY.search(outer)
    if capability and capability[1] not in label:
        label += f" [{capability[1]}]"
    return label


def _last_arguments(name: str) -> list[str]:
    """Return the arguments of the last template of a qualified name, its own parts, not its
    parameters': of `a::f<int, b<c> >(d<e>)::{lambda(g<h>)#1}` they are `int` and `b<c>`."""
    found: list[str] = []
    open_at: list[int] = []
    commas: list[int] = []
    for bracket in _BRACKETS.finditer(name):
        at, what = bracket.start(), bracket.group()
        if what in _OPENING:
            open_at.append(at)
            if len(open_at) == 1:
                commas = [at]
        elif what == ",":
            if len(open_at) == 1:
                commas.append(at)
        elif open_at:
            begin = open_at.pop()
            if not open_at and name[begin] == "<":
                ends = [*commas[1:], at]
                found = [name[a + 1 : b].strip() for a, b in zip(commas, ends, strict=True)]
    return found

"""A call that got memory, of PyTorch's CPU allocator or of a GPU's, and how it is written."""

import os

from pyhybrid.tables.schema import Record


class MemoryCall(Record):
    """Hold a call, by the module of a model around it, its function, and the innermost one of the
    program's: bytes.

    `at_peak`: that lived when the most did; `kept`: when the backward pass with the most began, of
    the forward pass before it, and `used`: of that, what was given back until it had ended, which
    autograd kept; `alive`: at the end; `allocated`: in all, as so many `pieces`;
    `later_allocated`, `later_alive`: by the backward pass of what it did.  `per_step`: by so much
    more lived after each of `grown_steps` steps; 0: it did not grow.  `holders`: who holds that, in
    words.
    """

    module: str
    of_class: str
    function: str
    file: str
    line: int
    caller: str
    caller_file: str
    caller_line: int
    at_peak: int
    kept: int
    used: int
    alive: int
    allocated: int
    pieces: int
    later_allocated: int
    later_alive: int
    per_step: int
    grown_steps: int
    holders: list[str]


def call_text(each: MemoryCall) -> str:
    """Return what a call is known by: module, function."""
    where = _place(each.caller, each.caller_file, each.caller_line)
    if each.module:
        return f"{each.module} [{each.of_class}]" + (f", {where}" if where else "")
    own = _place(each.function, each.file, each.line)
    if not own:
        return "no call that is known"
    return own if own == where or not where else f"{each.function} < {where}"


def _place(function: str, file: str, line: int) -> str:
    return f"{function} ({os.path.basename(file)}:{line})" if function else ""

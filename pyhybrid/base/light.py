"""What the standard library has, too, without what it imports: `contextlib` takes 3 ms, `json` 10.

A child process pays that each time it starts, and is in a hurry.
"""

from __future__ import annotations

# Now: when a run ends, imports may be forbidden.
from _json import encode_basestring_ascii, make_encoder

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from typing import Any


class suppress:
    """Suppress exceptions of these kinds in a block, as contextlib.suppress does."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


def to_json(value: Any) -> str:
    """Return the value as JSON, as json.dumps does.

    Source: CPython Lib/json/encoder.py, JSONEncoder.iterencode, which calls the same in C.
    """
    encode = make_encoder(None, str, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    return "".join(encode(value, 0))


def matches(name: str, pattern: str) -> bool:
    """Is the name as in the pattern, where each `*` stands for any text?"""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    at, last = len(first), others.pop()
    if not name.startswith(first):
        return False
    for each in others:
        found = name.find(each, at)
        if found < 0:
            return False
        at = found + len(each)
    return name.endswith(last) and at + len(last) <= len(name)

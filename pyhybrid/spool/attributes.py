"""A region's attributes, from the fields of a spool (enum spool_attribute_kind) to JSON."""

import json
import math
from collections.abc import Iterator

from pyhybrid._profile import (
    ATTRIBUTE_FALSE,
    ATTRIBUTE_FLOAT,
    ATTRIBUTE_INT,
    ATTRIBUTE_NONE,
    ATTRIBUTE_OTHER,
    ATTRIBUTE_TRUE,
)
from pyhybrid.spool.layout import STRUCT

_FIELD = STRUCT["spool_attribute"]


def as_json(fields: memoryview) -> str:
    """A JSON object.  Raises ValueError and struct.error where they are damaged."""
    return json.dumps(dict(_values(fields)), ensure_ascii=False)


def _values(fields: memoryview) -> Iterator[tuple[str, object]]:
    while fields:
        kind, key_length, value_length = _FIELD.unpack_from(fields)
        key_at, value_at = _FIELD.size, _FIELD.size + key_length
        end = value_at + value_length
        if end > len(fields):
            raise ValueError("an attribute that is cut off")
        yield _text(fields[key_at:value_at]), _value(kind, _text(fields[value_at:end]))
        fields = fields[end:]


def _text(text: memoryview) -> str:
    return str(text, "utf-8", "replace")


def _value(kind: int, text: str) -> object:
    if kind == ATTRIBUTE_INT:
        return int(text)
    if kind == ATTRIBUTE_FLOAT:
        number = float(text)
        return number if math.isfinite(number) else text  # which JSON has no words for
    if kind == ATTRIBUTE_OTHER:
        return f"<{text}>"
    return _CONSTANTS.get(kind, text)


_CONSTANTS = {ATTRIBUTE_NONE: None, ATTRIBUTE_FALSE: False, ATTRIBUTE_TRUE: True}

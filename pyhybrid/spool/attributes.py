"""A region's attributes, from the fields of a spool (enum spool_attribute_kind) to JSON."""

import json
import math
from collections.abc import Iterator

from pyhybrid.spool import layout as form


def as_json(fields: memoryview) -> str:
    """A JSON object.  Raises ValueError and struct.error where they are damaged."""
    return json.dumps(dict(_values(fields)), ensure_ascii=False)


def _values(fields: memoryview) -> Iterator[tuple[str, object]]:
    while fields:
        kind, key_length, value_length = form.ATTRIBUTE.unpack_from(fields)
        key_at, value_at = form.ATTRIBUTE.size, form.ATTRIBUTE.size + key_length
        end = value_at + value_length
        if end > len(fields):
            raise ValueError("an attribute that is cut off")
        yield _text(fields[key_at:value_at]), _value(kind, _text(fields[value_at:end]))
        fields = fields[end:]


def _text(text: memoryview) -> str:
    return str(text, "utf-8", "replace")


def _value(kind: int, text: str) -> object:
    if kind == form.ATTRIBUTE_INT:
        return int(text)
    if kind == form.ATTRIBUTE_FLOAT:
        number = float(text)
        return number if math.isfinite(number) else text  # which JSON has no words for
    if kind == form.ATTRIBUTE_OTHER:
        return f"<{text}>"
    return _CONSTANTS.get(kind, text)


_CONSTANTS = {form.ATTRIBUTE_NONE: None, form.ATTRIBUTE_FALSE: False, form.ATTRIBUTE_TRUE: True}

"""Names of functions that have no symbol, by the slot of the exported object in which they stand
(exported_data.c): a vtable, or another table of functions.

`_symbolize` spells such a place as the object's symbol and an index, in a vtable's secondary
tables two. What people read:

    _ZTVN2at3FooE[3]     at::Foo::{virtual#3}            its fourth virtual function
    _ZTVN2at3FooE[1][3]  at::Foo::{base#1}::{virtual#3}  in its second virtual table
    ...DispatchStub...   at::native::add_stub [AVX2]     PyTorch's kernel for that CPU capability
    table[3]             table[3]                        the fourth word of any other object

No name has a blank between its parts but PyTorch's: labels.shorten_native() takes what stands
before a blank for a return type.
"""

import re
from collections.abc import Callable

_PLACE = re.compile(r"(.*?)(?:\[(\d+)\])?\[(\d+)\]", re.DOTALL)
_VTABLE = "vtable for "
# at::native::DispatchStub<TYPE, at::native::STUB_DECLARE_DISPATCH_type>::AVX2, in older PyTorch
# without the suffix (aten/src/ATen/native/DispatchStub.h).
_KERNEL = re.compile(r"(?:.*::)?DispatchStub<.*, ([\w:]+?)(?:_DECLARE_DISPATCH_type)?>::(\w+)")


def slot_name(place: str, demangle: Callable[[str], str]) -> str:
    """What the function is called that stands at `place`."""
    match = _PLACE.fullmatch(place)
    if match is None:
        return place
    symbol, table, slot = match.groups()
    name = demangle(symbol)
    if name.startswith(_VTABLE):
        base = f"{{base#{table}}}::" if table else ""
        return f"{name.removeprefix(_VTABLE)}::{base}{{virtual#{slot}}}"
    if kernel := _KERNEL.fullmatch(name):
        return f"{kernel[1]} [{kernel[2]}]"
    return f"{name}[{slot}]"

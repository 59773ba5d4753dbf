"""Protocol Buffers' wire format, as much as pprof needs.

Format: https://protobuf.dev/programming-guides/encoding/ - a message is fields, each a tag (its
number and wire type) and a value: a varint, or bytes with their length before them.
"""

from collections.abc import Iterable

_VARINT, _BYTES = 0, 2  # wire types


def varint(value: int) -> bytes:
    """A number of 64 bits: seven in a byte, the lowest first; negative ones as two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field: int, value: int | bool) -> bytes:
    """A field that is a number; nothing for 0, which is what readers take it for."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def message(field: int, *parts: bytes) -> bytes:
    """A field that is a message, or bytes."""
    content = b"".join(parts)
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field that is many numbers."""
    return message(field, *map(varint, values))

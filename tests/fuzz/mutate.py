"""Damaged inputs out of whole ones: pieces (records, lines) that are lost, come twice or from
elsewhere, and bytes that are not what they were."""

from __future__ import annotations

import random
import struct

Pieces = list[bytes]
NUMBERS = [
    *(0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000),
    *(n + d for n in (1 << 31, 1 << 32, 1 << 47, 1 << 48, 1 << 63) for d in (-1, 0)),
    (1 << 64) - 1,
]


def _lose(pieces: Pieces, rng: random.Random, other: Pieces) -> None:
    del pieces[rng.randrange(len(pieces))]


def _repeat(pieces: Pieces, rng: random.Random, other: Pieces) -> None:
    pieces.insert(rng.randrange(len(pieces)), rng.choice(pieces))


def _swap(pieces: Pieces, rng: random.Random, other: Pieces) -> None:
    a, b = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[a], pieces[b] = pieces[b], pieces[a]


def _splice(pieces: Pieces, rng: random.Random, other: Pieces) -> None:
    pieces[rng.randrange(len(pieces)) :] = other[rng.randrange(len(other)) :]


def _put_number(piece: bytearray, rng: random.Random) -> None:
    """At a place where one may be: of 4 or 8 bytes, aligned, one of those that go wrong."""
    size = rng.choice([4, 8])
    at = rng.randrange(len(piece)) // 4 * 4
    number = rng.choice(NUMBERS) if rng.random() < 0.7 else rng.randrange(1 << rng.randrange(1, 64))
    piece[at : at + size] = struct.pack("<Q", number)[:size]


def _put_byte(piece: bytearray, rng: random.Random) -> None:
    piece[rng.randrange(len(piece))] = rng.randrange(256)


def _flip(piece: bytearray, rng: random.Random) -> None:
    piece[rng.randrange(len(piece))] ^= 1 << rng.randrange(8)


def _cut(piece: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(piece))
    del piece[at : at + rng.randrange(1, 9)]


def _insert(piece: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(piece))
    piece[at:at] = rng.choice([rng.randbytes(rng.randrange(1, 9)), piece[: rng.randrange(200)]])


_OF_PIECES = (_lose, _repeat, _swap, _splice)
_OF_BYTES = (_put_number, _put_number, _put_number, _put_byte, _flip, _cut, _insert)


def damage(seeds: list[Pieces], rng: random.Random) -> bytes:
    """One of the seeds with a few changes; now and then the end is missing."""
    pieces = list(rng.choice(seeds))
    for _ in range(1 << rng.randrange(4)):
        if not pieces:
            break
        if rng.random() < 0.25:
            rng.choice(_OF_PIECES)(pieces, rng, rng.choice(seeds))
            continue
        at = rng.randrange(len(pieces))
        piece = bytearray(pieces[at])
        if piece:
            rng.choice(_OF_BYTES)(piece, rng)
        pieces[at] = bytes(piece)
    data = b"".join(pieces)
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data

"""Texts cut to a number of columns."""

import re
from itertools import zip_longest

PLACED = re.compile(r"(.*) \((?:.*/)?([^/()]+:\d+(?:, [^()]*)?)\)")  # `function (folder/file:line)`
LEAST_BEFORE = 8  # columns: a share, and that words are left out


def elided(names: list[str], columns: int) -> str:
    """Return `a > b > … > y > z` within `columns`: both ends, the leaf's end first."""
    if len(" > ".join(names)) <= columns:
        return " > ".join(names)
    head: list[str] = []
    tail: list[str] = []
    for front, back in zip_longest(names[:2], reversed(names[2:])):
        for side, name in ((tail, back), (head, front)):
            if name is None:
                continue
            if len(" > ".join([*head, "…", *tail, name])) > columns:
                return " > ".join([*head, "…", *reversed(tail)])
            side.append(name)
    return middle(" > ".join([*head, *reversed(tail)]), columns)


def middle(text: str, columns: int) -> str:
    """Return text with its middle left out where it is longer than `columns`."""
    if len(text) <= columns:
        return text
    half = (columns - 1) // 2
    return f"{text[: columns - 1 - half]}…{text[-half:]}"


def label_within(label: str, columns: int) -> str:
    """Return `function (…/file:line)` within `columns`: folders go first, the place never does."""
    found = PLACED.fullmatch(label)
    if len(label) <= columns or not found:
        return middle(label, columns)
    name, place = found.groups()
    short = f" (…/{place})" if "/" in label[len(name) :] else f" ({place})"
    room = columns - len(short)
    return middle(name, room) + short if room >= LEAST_BEFORE else middle(label, columns)


def around(text: str, kept: slice, columns: int) -> str:
    """Return text within `columns`: what follows `kept` goes first, then what is before it."""
    if len(text) <= columns:
        return text
    before, place, after = text[: kept.start], text[kept], text[kept.stop :]
    room = columns - len(before) - len(place)
    if room >= bool(after):
        return before + place + after[: room - 1] + "…"
    end = "…" * bool(after)
    room = columns - len(end)
    before = middle(before, max(LEAST_BEFORE, room - len(place)))
    return before + middle(place, room - len(before)) + end


def to_the_last(names: list[str], columns: int) -> str:
    """Return `a > b > … > z` within `columns`: the last name before all others."""
    text = " > ".join(names)
    if len(text) <= columns or len(names) == 1:
        return middle(text, columns)
    last = middle(names[-1], columns - len("… > "))
    head: list[str] = []
    for name in names[:-1]:
        if len(" > ".join([*head, name, "…", last])) > columns:
            break
        head.append(name)
    return " > ".join([*head, "…", last])

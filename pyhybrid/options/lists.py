"""What an option is that has several values: names, patterns, tables (see kinds.py).

Imports nothing that takes memory: see table.py.
"""

from __future__ import annotations

import os

from pyhybrid.errors import UsageError
from pyhybrid.options.kinds import UNITS_BYTES, Kind, Part, check_known, native_number

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any


class Names(Kind):
    """Accept any number of words; with `known` each is one of them, and a `noun`."""

    repeatable = True

    def __init__(self, noun: str = "", known: Iterable[str] = ()) -> None:
        self.noun, self.known = noun, known

    def taken(self, value: Any) -> Any:
        """See Kind: a text is one word."""
        return [value] if isinstance(value, str) else value

    def from_file(self, value: Any) -> list[str]:
        """See Kind."""
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise ValueError(f"{value!r} is neither a text nor a list of texts")
        return words

    def to_file(self, value: Iterable[str] | None) -> list[str] | None:
        """See Kind."""
        return None if value is None else list(value)

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        for each in value or ():
            if not each:
                raise UsageError(f"{option}: the name is empty")
            if self.known:
                check_known(self.noun, each, self.known)


class Words(Names):
    """Accept the same, also several in one with commas between: `modules,steps`."""

    def taken(self, value: Any) -> Any:
        """See Kind."""
        return [word for each in super().taken(value) or () for word in each.split(",")]

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        super().check(option, self.taken(value))


class SnapshotRules(Names):
    """Accept conditions: `step > 3 x median`, `cpu > 90 %`, `rss > 20G`, `signal USR1`.

    The CPU time is that of all threads, in percent of one processor.
    """

    @staticmethod
    def _word(rule: str, before: str, behind: str) -> float:
        """Return the number between; 0: there is none."""
        text = rule.replace(" ", "")
        if not (text.startswith(before) and text.endswith(behind)):
            return 0.0
        digits = text.removeprefix(before).removesuffix(behind)
        is_number = digits.replace(".", "", 1).isdigit() and digits.isascii() and len(digits) < 10
        return float(digits) if is_number else 0.0

    @classmethod
    def step(cls, rules: Iterable[str]) -> tuple[float, str]:
        """Return how many times the median a step takes that is meant, with the rule; 0: none."""
        found = ((cls._word(rule, "step>", "xmedian"), rule) for rule in rules)
        return next((each for each in found if each[0]), (0.0, ""))

    @classmethod
    def levels(cls, rules: Iterable[str]) -> list[tuple[str, float, str]]:
        """Return of `cpu` (percent) and `rss` (bytes) how much is meant, with the rule."""
        levels = []
        for rule in rules:
            text = rule.replace(" ", "")
            if most := cls._word(rule, "cpu>", "%"):
                levels.append(("cpu", most, rule))
            elif text[-1:] in UNITS_BYTES and (most := cls._word(rule, "rss>", text[-1:])):
                levels.append(("rss", most * UNITS_BYTES[text[-1:]], rule))
        return levels

    @staticmethod
    def signals(rules: Iterable[str]) -> list[tuple[int, str]]:
        """Return the numbers of the signals that are meant, each with its rule."""
        import _signal  # type: ignore[import-not-found]

        names = [(rule, rule.removeprefix("signal ").removeprefix("SIG")) for rule in rules]
        numbers = [
            (getattr(_signal, f"SIG{name}", 0), rule) for rule, name in names if name != rule
        ]
        never = (_signal.SIGKILL, _signal.SIGSTOP)
        return [
            (int(n), rule) for n, rule in numbers if type(n) is int and n > 0 and n not in never
        ]

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        for rule in value:
            one = [rule]
            if not (self.step(one)[0] or self.levels(one) or self.signals(one)):
                raise UsageError(
                    f"{option} is a condition like 'step > 3 x median', 'cpu > 90 %', 'rss > 20G' "
                    f"or 'signal USR1', not {rule!r}"
                )


class TorchWords(Words):
    """Accept what is recorded of PyTorch: `modules` and `steps`, unless there is a `no-` before
    them, and of the others what is named; these need counts of calls.
    """

    usual, gpu_steps = ("modules", "steps"), "10/100"
    counted = ("gpu", "shapes", "memory", "compilers")

    def __init__(self) -> None:
        known = (*self.usual, *self.counted, *(f"no-{each}" for each in self.usual))
        super().__init__("word of PyTorch", known)

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        names = []
        for word in self.taken(value):
            name, equals, part = word.partition("=")
            if equals and name == "gpu":
                Part().check(f"{option} gpu", part)
            names.append(name if name == "gpu" else word)
        super().check(option, names)

    def chosen(self, value: Iterable[str]) -> dict[str, str]:
        """Return each that is recorded, and what is behind its `=`; the last word on one wins."""
        found = dict.fromkeys(self.usual, "")
        for word in value:
            name, _, argument = word.partition("=")
            if name.startswith("no-"):
                found.pop(name.removeprefix("no-"), None)
            else:
                found[name] = argument or (self.gpu_steps if name == "gpu" else "")
        return found

    def without_counts(self, value: Iterable[str]) -> list[str]:
        """Return what of it needs no counts of calls."""
        words = self.taken(value)
        return [each for each in words if each.partition("=")[0] not in self.counted]

    def to_native(self, value: Iterable[str]) -> bool:
        """See Kind: are there windows of time, in which the GPU's work is recorded?"""
        return "gpu" in self.chosen(value)


class BitNames(Names):
    """Accept words for bits of an enum, also several with commas between; C gets their sum."""

    def __init__(self, noun: str, known: Iterable[str], enum: str) -> None:
        super().__init__(noun, known)
        self.enum = enum

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        super().check(option, self.words(value))

    def to_native(self, value: Iterable[str]) -> int:
        """See Kind."""
        return sum(native_number(self.enum, each) for each in set(self.words(value)))

    @staticmethod
    def words(value: Iterable[str]) -> list[str]:
        """Return them one by one."""
        return [word for each in value for word in each.split(",")]


class BitNamesOf(BitNames):
    """Accept the same, also of one function: `NAMES:FUNCTION`; C gets the sum of those of all."""

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        split = [each.partition(":") for each in value]
        super().check(option, [names for names, _, _ in split])
        if any(colon and not function for _, colon, function in split):
            raise UsageError(f"{option}: there is no function after the colon")

    def to_native(self, value: Iterable[str]) -> int:
        """See Kind."""
        return super().to_native(each for each in value if ":" not in each)

    def of_functions(self, value: Iterable[str]) -> Iterator[tuple[list[str], str]]:
        """Yield for each function its words."""
        for names, _, function in (each.partition(":") for each in value):
            if function:
                yield self.words([names]), function


class NumberRanges(Kind):
    """Accept whole numbers and ranges of these: `0,8,16-23`."""

    def parse(self, text: str) -> str:
        """See Kind."""
        for first, last in self.ranges(text):
            if not first <= last:
                raise ValueError(f"{first}-{last} has no numbers")
        return text

    @staticmethod
    def ranges(text: str) -> list[tuple[int, int]]:
        """Return the first and the last number of each.  Raises ValueError."""
        found = []
        for word in text.split(","):
            first, _, last = word.strip().partition("-")
            if not all(each.isascii() and each.isdigit() for each in (first, last or first)):
                raise ValueError(f"{word!r} is no number and no range of numbers (0,8,16-23)")
            found.append((int(first), int(last or first)))
        return found

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if value is not None:
            try:
                self.parse(value)
            except (AttributeError, ValueError) as error:
                raise UsageError(f"{option}: {error}") from None


class Patterns(Names):
    """Accept names of at most `longest` bytes; in C with a 0 after each, in `room` bytes."""

    def __init__(self, longest: int, room: int) -> None:
        super().__init__()
        self.longest, self.room = longest, room

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        patterns = [os.fsencode(name) for name in value]
        if any(not each or b"\0" in each or len(each) > self.longest for each in patterns):
            raise UsageError(f"{option}: names of 1 to {self.longest} bytes, or patterns")
        if len(self.to_native(value)) > self.room:
            raise UsageError(f"{option}: too long: {self.room} bytes is all there is")

    def to_native(self, value: Iterable[str]) -> bytes:
        """See Kind."""
        return b"".join(os.fsencode(name) + b"\0" for name in value)


class Sinks(Names):
    """Accept live outputs, NAME or NAME:ARGUMENT, each at most once."""

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        names = [name for name, _ in self.split(value)]
        super().check(option, names)
        if len(set(names)) < len(names):
            raise UsageError(f"a live output is asked for twice ({option})")

    @staticmethod
    def split(value: Iterable[str]) -> list[tuple[str, str]]:
        """Return each one's name and argument."""
        return [(name, argument) for name, _, argument in (each.partition(":") for each in value)]


class Tables(Kind):
    """Accept tables, each with values of its `keys`, of their kinds; the first key always.

    Values are as in files where `check` takes them, and where the option has them.
    """

    def __init__(self, keys: Mapping[str, Kind]) -> None:
        self.keys = keys

    def from_file(self, value: Any) -> list[dict[str, Any]]:
        """See Kind; the tables have their keys as they are spelled here."""
        tables = [value] if isinstance(value, dict) else value
        if not isinstance(tables, (list, tuple)) or not all(isinstance(t, dict) for t in tables):
            raise ValueError(f"{value!r} is no list of tables")
        found = [{known_key(key, self.keys): value for key, value in t.items()} for t in tables]
        for _ in self.parsed(found):
            pass
        return found

    def parsed(self, tables: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield their values.  Raises ValueError."""
        first = next(iter(self.keys))
        for table in tables:
            if first not in table:
                raise ValueError(f"a table needs {first!r}: {table!r} has none")
            values = {}
            for key, value in table.items():
                try:
                    values[key] = self.keys[key].from_file(value)
                    self.keys[key].check("it", values[key])
                except (ValueError, UsageError) as error:
                    raise ValueError(f"{key}: {error}") from None
            yield values

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        try:
            self.from_file(value)
        except ValueError as error:
            raise UsageError(f"{option}: {error}") from None


def known_key(key: str, known: Iterable[str]) -> str:
    """Return the one of `known` that is spelled so, `-` and `_` being the same.

    Raises ValueError, which names the nearest one.
    """
    by_spelling = {each.replace("-", "_"): each for each in known}
    if found := by_spelling.get(key.replace("-", "_")):
        return found
    import difflib

    [nearest] = difflib.get_close_matches(key, by_spelling.values(), n=1, cutoff=0)
    raise ValueError(f"there is no option {key!r}: the nearest one is {nearest!r}")

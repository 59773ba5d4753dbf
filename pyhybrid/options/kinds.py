"""What an option is: how a word is read as its value, how that is checked, and how C gets it.

`parse` raises ValueError, whose text argparse puts after the option's name; `check` gets the option
as its user knows it (`option`) and raises UsageError.  Imports nothing that takes memory: table.py.
"""

from __future__ import annotations

from pyhybrid.errors import UsageError

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar, dataclass_transform
else:

    def dataclass_transform(**_):
        """Let type checkers see a class's fields as its constructor's keywords."""
        return lambda cls: cls


UNITS_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_UNITS_NS |= {"m": 60 * _UNITS_NS["s"], "h": 3600 * _UNITS_NS["s"]}


class Kind:
    """Accept any text, or none."""

    takes_value = True  # and the next word is it, where `=` does not stand before it
    repeatable = False

    def taken(self, value: Any) -> Any:
        """Return the value that a program's may be another spelling of.  Raises ValueError."""
        return value

    def parse(self, text: str) -> Any:
        """Return the value that a word of the command line stands for.  Raises ValueError."""
        return text

    def from_file(self, value: Any) -> Any:
        """Return the value that one of a configuration file stands for.  Raises ValueError."""
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a text")
        return self.parse(value)

    def to_file(self, value: Any) -> Any:
        """Return what `from_file` makes this value of."""
        return value

    def check(self, option: str, value: Any) -> None:
        """Raise UsageError for a value that does not exist."""

    def to_native(self, value: Any) -> Any:
        """Return the argument of `_native.start` that stands for a checked value."""
        return value


class Flag(Kind):
    """Accept whether it is given; `value` is what it is where it is given."""

    takes_value = False

    def __init__(self, value: bool = True) -> None:
        self.value = value

    def from_file(self, value: Any) -> bool:
        """See Kind."""
        return _yes_or_no(value) == self.value

    def to_file(self, value: bool) -> bool:
        """See Kind."""
        return value == self.value


class Switch(Kind):
    """Accept `--name` and `--no-name`, and None where neither is given."""

    takes_value = False

    def from_file(self, value: Any) -> bool:
        """See Kind."""
        return _yes_or_no(value)

    def to_native(self, value: bool | None) -> int:
        """Return 1: yes, -1: no, 0: as seems best."""
        return 0 if value is None else 1 if value else -1


class Number(Kind):
    """Accept a whole number from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def parse(self, text: str) -> int:
        """Parse decimal digits.  Raises ValueError."""
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not self.low <= number <= self.high:
            raise ValueError(f"{text!r} is not a whole number from {self.low} to {self.high}")
        return number

    def from_file(self, value: Any) -> int:
        """See Kind."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValueError(f"{value!r} is not a whole number from {self.low} to {self.high}")
        return value

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if not (isinstance(value, int) and self.low <= value <= self.high):
            between = f"from {self.low} to {self.high}"
            raise UsageError(f"{option} must be a whole number {between}, not {value!r}")


class PowerOfTwo(Number):
    """Accept such a number of two's powers, or 0."""

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        super().check(option, value)
        if value & (value - 1):
            raise UsageError(f"{option} must be a power of two")


class Rate(Number):
    """Accept so many a second; C gets the time from one to the next, in nanoseconds."""

    def to_native(self, value: int) -> int:
        """See Kind."""
        return 1_000_000_000 // value


class Part(Kind):
    """Accept so many of each so many, `10/100`."""

    @staticmethod
    def numbers(value: str) -> tuple[int, int]:
        """Return both; (0, 0) for what is none."""
        words = value.split("/") if isinstance(value, str) else []
        if len(words) != 2 or not all(w.isascii() and w.isdigit() and len(w) < 10 for w in words):
            return 0, 0
        part, all_of_them = map(int, words)
        return (part, all_of_them) if 0 < part <= all_of_them else (0, 0)

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if self.numbers(value) == (0, 0):
            raise UsageError(f"{option} is so many of each so many, like 10/100, not {value!r}")


class StartAt(Kind):
    """Accept None, a number of steps, `step=100`, or full seconds of the time of day, `/10s`."""

    @staticmethod
    def step(value: str | None) -> int:
        """Return after how many steps; 0: that is not asked for."""
        return _count(value, "step=", "")

    @staticmethod
    def every_s(value: str | None) -> int:
        """Return of how many seconds a full number; 0: that is not asked for."""
        return _count(value, "/", "s")

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if value is not None and not self.step(value) and not 0 < self.every_s(value) <= 600:
            raise UsageError(f"{option} is step=100 or /10s (600 at most), not {value!r}")


def _count(value: str | None, before: str, behind: str) -> int:
    if not isinstance(value, str) or not (value.startswith(before) and value.endswith(behind)):
        return 0
    digits = value.removeprefix(before).removesuffix(behind)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def native_number(enum: str, word: str) -> int:
    """Return the number of ENUM_WORD, which `_native` exports: wanted when that has been loaded."""
    from pyhybrid import _native

    number: int = getattr(_native, f"{enum}_{word}".upper())
    return number


class Choice(Kind):
    """Accept one of `known`, each a `noun`; C gets its number in the enum, if one is named."""

    def __init__(self, noun: str, known: Iterable[str], enum: str = "") -> None:
        self.noun, self.known, self.enum = noun, known, enum

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        check_known(self.noun, value, self.known)

    def to_native(self, value: str) -> Any:
        """See Kind."""
        return native_number(self.enum, value) if self.enum else value


class Duration(Kind):
    """Accept a length of time, `1.5ms`; its value is in nanoseconds."""

    def parse(self, text: str) -> Any:
        """Parse a number with its unit.  Raises ValueError."""
        import re

        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|[smh])", text)
        if not match:
            raise ValueError(
                f"{text!r} is not a time: a number with ns, us, ms, s, m or h, like 1.5ms"
            )
        return round(float(match[1]) * _UNITS_NS[match[2]])


class Seconds(Duration):
    """Accept the same in seconds, more than none; C gets nanoseconds, 0 for None."""

    def parse(self, text: str) -> float:
        """See Duration."""
        return float(super().parse(text) / 1e9)

    def to_file(self, value: float | None) -> str | None:
        """See Kind."""
        return None if value is None else f"{value:.9f}".rstrip("0").rstrip(".") + "s"

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if value is not None and not 0 < value < 1e9:
            limits = "more than 0 seconds and less than 1e9"
            raise UsageError(f"{option} must be {limits}, not {value!r}")

    def to_native(self, value: float | None) -> int:
        """See Kind."""
        return round((value or 0) * 1e9)


class Log(Seconds):
    """Accept None (False), all (True), or the last so many seconds: `--log`, `--log=10s`.

    C gets whether there is one; the time is `last_ns`.
    """

    takes_value = False

    def taken(self, value: Any) -> Any:
        """See Kind: a time may be a text."""
        return self.parse(value) if isinstance(value, str) else value

    def parse(self, text: str) -> float | bool:
        """See Seconds; nothing stands for all."""
        return super().parse(text) if text else True

    def from_file(self, value: Any) -> float | bool:
        """See Kind."""
        return value if isinstance(value, bool) else super().from_file(value or "0")

    def to_file(self, value: Any) -> Any:
        """See Kind."""
        return value if isinstance(value, bool) else super().to_file(value)

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if not isinstance(value, bool):
            super().check(option, value)

    def to_native(self, value: Any) -> bool:
        """See Kind."""
        return bool(value)

    @staticmethod
    def last_ns(value: float | bool) -> int:
        """Return the time; 0: there is no bound."""
        return 0 if isinstance(value, bool) else round(value * 1e9)


class Size(Number):
    """Accept a number of bytes, from `low` on, or 0 for no bound."""

    def parse(self, text: str) -> int:
        """Parse a number like `64M`, also with K, M or G.  Raises ValueError."""
        unit = UNITS_BYTES.get(text[-1:], 0)
        number = text[:-1] if unit else text
        is_number = number.isascii() and number.isdigit() and len(number) < 20
        value = int(number) * (unit or 1) if is_number else -1
        if value == 0 or self.low <= value <= self.high:
            return value
        raise ValueError(f"{text!r} is not a size of {self.low >> 10}K or more, like 64M or 2G")

    def from_file(self, value: Any) -> int:
        """See Kind."""
        return self.parse(value) if isinstance(value, str) else super().from_file(value)

    def check(self, option: str, value: Any) -> None:
        """See Kind."""
        if value != 0:
            super().check(option, value)


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def check_known(noun: str, value: Any, known: Iterable[str]) -> None:
    """Raise UsageError where the value is none of these."""
    if value not in known:
        raise UsageError(f"unknown {noun} {value!r}: there are {', '.join(known)}")


# Fields of a class that are options: what the table of options (table.py) is written in.

MODES = ("sample", "trace", "hybrid", "none")
_SAME = object()


class Option:
    """An option's `name` is that of the field that it is written to.

    `group`: under which heading `--help-all` has it.  `brief`: its help in few words, for `--help`,
    which shows only those that have one.
    """

    name: str

    def __init__(
        self,
        *flags: str,
        group: str,
        kind: Kind,
        default: object,
        help: str | None,
        brief: str = "",
        metavar: str | None = None,
        modes: tuple[str, ...] = MODES,
        native: str | None = None,
        at_command_line: object = _SAME,
        keyword_help: str | None = None,
        in_files: bool = True,
    ) -> None:
        self.flags, self.kind, self.metavar = flags, kind, metavar
        self.group, self.brief = group, brief
        self.help, self.keyword_help = help, keyword_help
        self.default, self.modes, self.native = default, modes, native
        self.at_command_line = default if at_command_line is _SAME else at_command_line
        self._in_files = in_files

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def flag(self) -> str:
        """Return it as users of the command line know it."""
        return self.flags[0] if self.flags else self.name

    @property
    def key(self) -> str:
        """Return it as users of configuration files know it; empty: they have no such key."""
        long = [flag.removeprefix("--") for flag in self.flags if flag.startswith("--")]
        return (long or [self.name])[0] if self._in_files else ""


def option(
    *flags: str, group: str, kind: Kind, default: object, help: str | None, **more: Any
) -> Any:
    """Return an Option, to type checkers a value of its field's type."""
    return Option(*flags, group=group, kind=kind, default=default, help=help, **more)


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Declared:
    """Take any of its options as keywords; each is an attribute then."""

    options: ClassVar[dict[str, Option]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        cls.options = {**cls.options, **own}

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in self.options:
                raise TypeError(f"there is no option {name!r}: there are {', '.join(self.options)}")
        for name, each in self.options.items():
            setattr(self, name, given.get(name, each.default))

"""What all subcommands' options have in common."""

import argparse
import re

from pyhybrid.errors import UsageError

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Parser(argparse.ArgumentParser):
    """Errors are one line, exit code 2."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise UsageError instead of printing the usage."""
        raise UsageError(f"{message} (see --help)")


class Number:
    """The type of an option that is a whole number from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __call__(self, text: str) -> int:
        """Parse; raises ArgumentTypeError."""
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not self.low <= number <= self.high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {self.low} to {self.high}"
            )
        return number


class Duration:
    """The type of an option that is a length of time, `1.5ms`; its value is in nanoseconds."""

    def __call__(self, text: str) -> int:
        """Parse; raises ArgumentTypeError."""
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|s)", text)
        if not match:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a time: a number with ns, us, ms or s, like 1.5ms"
            )
        return round(float(match[1]) * _UNITS_NS[match[2]])

"""What all subcommands' options have in common."""

import argparse

from pyhybrid.errors import UsageError


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

"""What all subcommands' options have in common."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from pyhybrid.cli.without_profile import TAKE_VALUES, split
from pyhybrid.errors import UsageError
from pyhybrid.options.kinds import Choice, Duration, Flag, Kind, Log, Option, Switch
from pyhybrid.options.lists import Names

# What stands for `--` among the words of a parser that divides: no file has such a name.
DIVIDER = "\0"


class Parser(argparse.ArgumentParser):
    """Report errors in one line, with exit code 2.

    Where it `divides`, `--` is a word between others, DIVIDER, and options may stand on both sides;
    but behind the first one are words of other command lines, `args.rest`, where the option
    `rest_with` stands before it.  Where it `passes_on`, all words that are none of its options are
    those of a run, or of `pyhybrid attach`: `args.words`, with `args.program` behind options.
    """

    divides = passes_on = False
    rest_with = ""

    def __init__(
        self, *, formatter_class: Callable[..., Any] = argparse.HelpFormatter, **words: Any
    ) -> None:
        self._shows = False

        def make(**given: Any) -> Any:
            """Check arguments in any width: that of the terminal takes an import."""
            return formatter_class(**given, width=None if self._shows else 80)

        super().__init__(formatter_class=make, **words)

    def format_help(self) -> str:
        """Format as argparse's."""
        self._shows = True
        return super().format_help()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse's."""
        if self.passes_on:
            ours, others, program = self._split(args)
            found = super().parse_args(ours, namespace)
            found.words, found.program = [*others, *program], program
            return found
        if not self.divides:
            return super().parse_args(args, namespace)
        at = args.index("--") if "--" in args else len(args)
        found = self.parse_intermixed_args(args[:at], namespace)
        if getattr(found, self.rest_with, None) is not None:
            found.rest = args[at + 1 :]
            return found
        words = [DIVIDER if each == "--" else each for each in args]
        return self.parse_intermixed_args(words, namespace)

    def _split(self, words: list[str]) -> tuple[list[str], list[str], list[str]]:
        """Return our options with their values, others, and what comes behind options."""
        options, program = split(words, tuple(self._flags_with_values()))
        ours, others, at = list[str](), list[str](), 0
        while at < len(options):
            flag = options[at].partition("=")[0]
            known = self._option_string_actions.get(flag)
            takes = options[at] in self._flags_with_values() or options[at] in TAKE_VALUES
            end = at + 2 if takes else at + 1
            (others if known is None else ours).extend(options[at:end])
            at = end
        return ours, others, program

    def _flags_with_values(self) -> set[str]:
        actions = self._option_string_actions
        return {flag for flag, action in actions.items() if action.nargs is None}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse's; of an option that there is not the error names the nearest one."""
        # What may have a value has it behind a `=`: the next word is the program's.
        words = [f"{each}=" if self._may_have_value(each) else each for each in args]
        known, others = super().parse_known_args(words, namespace)
        for wrong in others:
            if wrong.startswith("--"):
                from difflib import get_close_matches

                name = wrong.partition("=")[0]
                near = get_close_matches(name, self._option_string_actions, n=1, cutoff=0.7)
                self.error(f"there is no option {name}" + "".join(f": {n}?" for n in near))
        return known, others

    def _may_have_value(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs == argparse.OPTIONAL

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise UsageError instead of printing the usage."""
        raise UsageError(f"{message} (see --help)")


def word(kind: Kind) -> Callable[[str], Any]:
    """Return the type of an argument of such a kind."""

    def parse(text: str) -> Any:
        try:
            return kind.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


DURATION = word(Duration())  # of a time, `1.5ms`, in nanoseconds


def seconds(text: str) -> float:
    """Return a time, of which a number alone is in seconds."""
    return float(text) if text.replace(".", "", 1).isdecimal() else float(DURATION(text)) / 1e9


def add_options(
    parser: argparse.ArgumentParser, options: Iterable[Option], *, defaults: bool = True
) -> None:
    """Declare those that have flags; each one's value is an attribute of its name then.

    Without `defaults` only those that are given are attributes.  Their help is help_text.py's.
    """
    for each in options:
        if each.flags:
            how = {"default": each.at_command_line, **_of_kind(each)}
            if not defaults:
                how["default"] = argparse.SUPPRESS
            parser.add_argument(*each.flags, dest=each.name, help=argparse.SUPPRESS, **how)


def _of_kind(option: Option) -> dict[str, Any]:
    kind = option.kind
    match kind:
        case Flag():
            return {"action": "store_const", "const": kind.value}
        case Switch():
            return {"action": argparse.BooleanOptionalAction}
        case Log():
            return {"nargs": argparse.OPTIONAL, "type": word(kind), "metavar": option.metavar}
        case Choice():
            return {"choices": list(kind.known), "metavar": option.metavar}
        case Names():
            values: Any = option.at_command_line
            default = None if values is None else list(values)
            return {"action": "append", "metavar": option.metavar, "default": default}
    return {"type": word(kind), "metavar": option.metavar}

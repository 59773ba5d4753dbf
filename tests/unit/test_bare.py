"""What the command line needs to know where it cannot be parsed: no memory, no descriptors."""

from __future__ import annotations

import argparse

from pyhybrid.cli.run import make_parser
from pyhybrid.cli.without_profile import TAKE_VALUES, _without_us, split


def test_which_options_take_a_value() -> None:
    """The parser's own knowledge."""
    known = {
        option
        for action in make_parser()._actions
        if action.nargs is None and not isinstance(action, argparse._VersionAction)
        for option in action.option_strings
    }
    assert known == TAKE_VALUES


def test_where_the_program_begins() -> None:
    for words in ("--hz 5 -q a.py -q", "-q -m a.b -c", "-t f -c code x", "-o -m - x", "--hz=5 a"):
        ours, program = split(words.split())
        assert [*ours, *program] == words.split()
        assert program[0] in ("a.py", "-m", "-c", "-", "a")
    assert split(["-q", "--", "-x.py"]) == (["-q"], ["-x.py"])


def test_the_command_line_without_us() -> None:
    for words, bare in {
        "python -m pyhybrid": "python",
        "python -X dev -P -m pyhybrid": "python -X dev -P",
        "python -BPm pyhybrid": "python -BP",
        "python -Pmpyhybrid": "python -P",
        "python -mpyhybrid": "python",
        "python -u /usr/bin/pyhybrid": "python -u",
    }.items():
        assert _without_us(words.split()) == bare.split()
    for words in ("python", "python launcher.py", "python -c code", "python -m other"):
        assert _without_us(words.split()) is None

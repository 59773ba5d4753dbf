"""What the command line needs to know where it cannot be parsed: no memory, no descriptors."""

from __future__ import annotations

from pyhybrid.cli.without_profile import TAKE_VALUES, _without_us, split


def test_which_options_take_a_value() -> None:
    assert {"--hz", "-o", "--output", "-t", "--ring-bytes"} < set(TAKE_VALUES)
    assert not set(TAKE_VALUES) & {"--kernel", "--c-calls", "-q", "-p", "--strict", "--version"}


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

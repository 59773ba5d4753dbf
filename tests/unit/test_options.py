"""The table of options: command line, API and settings are made from it, and say the same."""

import inspect
import re
from typing import Any

import pytest

from pyhybrid import Profiler
from pyhybrid.cli import SUBCOMMANDS, command
from pyhybrid.cli.help_text import spelled
from pyhybrid.cli.parser import Parser
from pyhybrid.cli.run import make_parser
from pyhybrid.cli.without_profile import TAKE_VALUES, split
from pyhybrid.errors import UsageError
from pyhybrid.options.settings import CommandLineSettings, Settings
from pyhybrid.options.table import GROUPS, Options, ProfilerOptions, followed_by_a_value


def test_the_command_line_sets_what_the_table_has() -> None:
    asked = vars(make_parser().parse_args([]))
    table = {name: each for name, each in Options.options.items() if each.flags}
    assert asked.keys() == table.keys()
    settings = CommandLineSettings(**asked)
    assert (settings.hz, settings.summary, settings.formats) == (
        999,
        True,
        ("folded", "perf", "perf-map"),
    )


@pytest.mark.parametrize(
    ("words", "formats"),
    [
        ("-q", ("folded", "perf", "perf-map")),
        ("--mode trace", ("folded",)),
        ("--mode trace -q", ()),
        ("--mode trace -q --format folded", ("folded",)),
    ],
)
def test_what_is_written_unasked(words: str, formats: tuple[str, ...]) -> None:
    settings = CommandLineSettings(**vars(make_parser().parse_args(words.split())))
    assert tuple(settings.formats) == formats


def test_the_command_line_and_keywords_agree() -> None:
    words = "--hz 7 -t f -t g --events=1.5s --no-kernel --c-calls -o x --max-depth 9 -q"
    asked = make_parser().parse_args([*words.split(), "--format", "folded"])
    program = Settings(
        hz=7,
        functions=["f", "g"],
        events=1.5,
        kernel=False,
        c_calls=True,
        output="x",
        max_depth=9,
        formats=["folded"],
    )
    of_words = CommandLineSettings(**vars(asked))
    assert of_words.native() == program.native()
    assert of_words.native() == program.native() | {
        "period_ns": 1_000_000_000 // 7,
        "keep_events_ns": 1_500_000_000,
        "kernel_frames": -1,
        "max_frames": 9,
        "events": True,
    }
    for name in ("output", "summary", "functions", "formats"):
        assert getattr(of_words, name) == getattr(program, name)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ("", {"modules": "", "steps": ""}),
        ("gpu,shapes", {"modules": "", "steps": "", "gpu": "10/100", "shapes": ""}),
        ("gpu=1/2,no-modules", {"steps": "", "gpu": "1/2"}),
        ("no-steps,no-modules,modules,compilers", {"modules": "", "compilers": ""}),
    ],
)
def test_words_of_pytorch(words: str, chosen: dict[str, str]) -> None:
    """All spellings say the same."""
    flags = [f"--torch={each}" for each in words.split(",") if each]
    of_flags = CommandLineSettings(**vars(make_parser().parse_args(flags)))
    spelled = [words, words.split(",")] if words else [()]
    for each in (*(Settings(torch=each) for each in spelled), of_flags):
        assert each.of_torch == chosen
        assert each.native()["event_windows"] is ("gpu" in chosen)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"torch": "gpus"}, "unknown word of PyTorch 'gpus': there are modules, steps, gpu"),
        ({"torch": "shapes=3"}, "unknown word of PyTorch 'shapes=3'"),
        ({"torch": "gpu=3"}, "torch gpu is so many of each so many, like 10/100, not '3'"),
        ({"torch": "gpu,no-steps"}, "torch gpu counts steps: not with no-steps"),
        ({"torch": "compilers", "mode": "sample"}, "torch compilers needs mode hybrid or trace"),
        ({"clock": "wall", "mode": "trace"}, "clock needs mode "),
        ({"regions": "itt,nvtxt"}, "unknown source of regions 'nvtxt': there are perfstubs, itt"),
        ({"events": "soon"}, "events: 'soon' is not a time"),
        ({"events": 0}, "events must be more than 0 seconds"),
        ({"emit": "print:announce"}, "emit print:announce is of chosen functions: name some"),
    ],
)
def test_what_does_not_go(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        Settings(**given)


@pytest.mark.parametrize("events", [False, True, 10.0, "10s", "1.5ms"])
def test_events(events: bool | float | str) -> None:
    native = Settings(events=events).native()
    last_ns = {10.0: 10**10, "10s": 10**10, "1.5ms": 1_500_000}.get(events, 0)
    assert (native["events"], native["keep_events_ns"]) == (events is not False, last_ns)


def test_what_may_have_a_value_does_not_take_the_next_word() -> None:
    assert split(["--events", "script.py", "-x"]) == (["--events"], ["script.py", "-x"])
    parser = make_parser(defaults=False)
    parser.add_argument("script")
    assert vars(parser.parse_args(["--events", "f.py"])) == {"events": True, "script": "f.py"}
    assert vars(parser.parse_args(["--events=2s", "f.py"])) == {"events": 2.0, "script": "f.py"}


# --- help -----------------------------------------------------------------------------------------


def test_help_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = make_parser().format_help().splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    for name in SUBCOMMANDS:
        assert [line for line in lines if line.startswith(f"  {name} ")]
    brief = [each for each in Options.options.values() if each.brief]
    assert len(brief) == 16
    for each in brief:
        assert [line for line in lines if line.startswith(f"  {spelled(each)}")]


def test_all_help_has_all_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["--help-all"])
    lines = capsys.readouterr().out.splitlines()
    at = {group: lines.index(f"{group}:") for group in GROUPS}
    assert list(at.values()) == sorted(at.values())
    ends = [*at.values(), len(lines)]
    for each in Options.options.values():
        if each.flags and each.help:
            row = lines.index(f"  {spelled(each)}")
            assert at[each.group] < row < ends[GROUPS.index(each.group) + 1]


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_has_no_names_of_ours(name: str) -> None:
    found = command(name)
    parser = Parser(prog=name, description=found.__doc__)
    found.prepare_parser(parser)
    assert not re.search(r"\b[a-z_]+\.[A-Z]\w*[a-z]", parser.format_help())


def test_profiler_says_what_it_takes() -> None:
    parameters = inspect.signature(Profiler).parameters
    assert list(parameters) == list(ProfilerOptions.options)
    assert parameters["max_nodes"].default == 2_000_000
    documentation = inspect.getdoc(Profiler) or ""
    for name in parameters:
        assert f"\n{name}\n    " in documentation
    assert "--" not in documentation  # flags are spelled as keywords
    assert '`clock="wall"`' in documentation


@pytest.mark.parametrize("name", ["speed", "paused", "unwinder"])
def test_profiler_takes_nothing_else(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        Profiler(**{name: True})


def test_errors_name_options_as_they_were_given() -> None:
    for settings, said in ((Settings, "c_calls needs mode"), (CommandLineSettings, "--c-calls")):
        with pytest.raises(UsageError, match=said):
            settings(mode="sample", c_calls=True)


def test_which_options_take_a_value_is_known_without_them() -> None:
    """Where there is no memory for the options, the program is found among the words."""
    assert sorted(TAKE_VALUES) == sorted(followed_by_a_value())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0", [0]), ("0,2", [0, 2]), ("1-2", [1, 2]), ("0, 2-9", [0, 2, 3]), ("7", [])],
)
def test_some_ranks_alone(text: str, wanted: list[int]) -> None:
    settings = CommandLineSettings(ranks=text)
    assert [rank for rank in range(4) if settings.wants_rank(rank)] == wanted
    assert settings.wants_rank(None)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,", "-2", "1-2-3", "1.5"])
def test_what_are_no_ranks(text: str) -> None:
    with pytest.raises(UsageError, match="--ranks"):
        CommandLineSettings(ranks=text)

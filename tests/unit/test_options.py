"""The table of options: command line, API and settings are made from it, and say the same."""

import inspect

import pytest

from pyhybrid import Profiler
from pyhybrid.capture.options import Options, ProfilerOptions
from pyhybrid.capture.settings import CommandLineSettings, Settings
from pyhybrid.cli.run import make_parser
from pyhybrid.errors import UsageError


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
    words = "--hz 7 -t f -t g --last-events 1.5s --no-kernel --c-calls -o x --max-depth 9 -q"
    asked = make_parser().parse_args([*words.split(), "--format", "folded"])
    program = Settings(
        hz=7,
        functions=["f", "g"],
        last_events=1.5,
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

"""`pyhybrid config`: which options are in force here, and where each one's value is from."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from pyhybrid.base.terminal_text import write_lines
from pyhybrid.cli.parser import add_options
from pyhybrid.cli.run import in_force
from pyhybrid.options.config_file import (
    NAMES_OR_TABLES,
    TABLES,
    Configuration,
    known,
    of_command_line,
)
from pyhybrid.options.kinds import Option
from pyhybrid.options.settings import CommandLineSettings
from pyhybrid.options.table import Options

_COLUMN = 40  # of the remarks


class Config:
    """Prints the configuration files that a run here would read, and with --show all options, as a
    TOML file with a remark where each value is from.  It takes the options of a run, too
    (`pyhybrid --help-all`).
    """

    name = "config"
    words = "[options]"
    help = "print which options are in force, and why"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--show", action="store_true", help="print all options, as TOML")
        add_options(parser, Options.options.values(), defaults=False)

    def run(self, args: argparse.Namespace) -> int:
        """Print; returns the exit code.  Raises PyhybridError."""
        given = vars(args)
        show = given.pop("show")
        files = of_command_line(given)
        settings = CommandLineSettings(**in_force(given, files))
        lines = files.files or ["no configuration file"]
        if show:
            lines = [*(f"# {line}" for line in lines), *_lines(settings, given, files)]
        write_lines(lines, sys.stdout)
        return 0


def _lines(
    settings: CommandLineSettings, given: dict[str, Any], files: Configuration
) -> Iterator[str]:
    sources = {**files.sources, **dict.fromkeys(given, "command line")}
    for each in known():
        names, value = [each.name], getattr(settings, each.name)
        if each.key == NAMES_OR_TABLES:
            names, value = [each.name, TABLES], [*value, *settings.function_settings]
        origin = ", ".join(dict.fromkeys(sources[name] for name in names if name in sources))
        if each.help is not None or origin:
            yield f"{_setting(each, value):<{_COLUMN}}  # {origin or 'default'}"


def _setting(option: Option, value: Any) -> str:
    """Return `key = value`; what has no value is a remark."""
    shown = option.kind.to_file(value)
    return f"# {option.key} =" if shown is None else f"{option.key} = {_toml(shown)}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

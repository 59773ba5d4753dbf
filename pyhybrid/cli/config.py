"""`pyhybrid config`: which options are in force here, and where each one's value is from."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from pyhybrid.capture.config_file import Configuration, known, of_command_line
from pyhybrid.capture.options import Option, Options
from pyhybrid.capture.settings import CommandLineSettings
from pyhybrid.cli.parser import add_options
from pyhybrid.cli.run import in_force
from pyhybrid.terminal_text import write_lines

_COLUMN = 40  # of the remarks


class Config:
    """Prints the configuration files that a run here would read, and with --show all options, as a
    TOML file with a remark where each value is from.  Options of a run are taken into account.
    """

    name = "config"
    help = "print which options are in force, and where from"

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
    for each in known():
        source = files.sources.get(each.name, "default")
        if each.name in given:
            source = "command line"
        if each.help is not None or source != "default":
            yield f"{_setting(each, getattr(settings, each.name)):<{_COLUMN}}  # {source}"


def _setting(option: Option, value: object) -> str:
    """`key = value`; what has no value is a remark."""
    shown = option.kind.to_file(value)
    if shown is None:
        return f"# {option.key} ="
    return f"{option.key} = {json.dumps(shown, ensure_ascii=False)}".replace("\x7f", "\\u007f")

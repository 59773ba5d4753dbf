"""Pages that are made from the source: options from the parsers, tables from pyhybrid.tables.

```{options} run          the options of `pyhybrid`, or of a subcommand, or of a view
```{schema}               the profile file, a section for each table and view
```{formats}              the exporters
```{map}                  the source, one line a file (scripts/map.py)
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from pyhybrid import tables
from pyhybrid.cli import command
from pyhybrid.cli.help_text import explained, spelled
from pyhybrid.cli.report_views import VIEWS
from pyhybrid.exporters import EXPORTERS
from pyhybrid.options.table import GROUPS
from pyhybrid.options.table import Options as AllOptions
from pyhybrid.tables.schema import TABLES, views

CLONE = Path(__file__).parents[2]
_OBJECT = re.compile(r"CREATE (TABLE|VIEW) (\w+)")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a subcommand, or of a view: `report tree`."""
    first, _, view = name.partition(" ")
    parser = argparse.ArgumentParser(prog=f"pyhybrid {name}", add_help=False)
    (VIEWS[view]() if view else command(first)).prepare_parser(parser)
    return parser


class Arguments(argparse.HelpFormatter):
    """Of a parser's help: its arguments."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self.shown: list[argparse.Action] = []

    def add_argument(self, action: argparse.Action) -> None:
        """One that the help shows."""
        if action.help != argparse.SUPPRESS:
            self.shown.append(action)


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What its help shows."""
    made: list[Arguments] = []
    parser.formatter_class = lambda prog: made.append(Arguments(prog)) or made[-1]
    parser.format_help()
    return [action for each in made for action in each.shown]


def run_lines() -> list[str]:
    """A definition list of the options of a run for each group of them."""
    lines: list[str] = []
    for group in GROUPS:
        lines += [f"**{group[:1].upper()}{group[1:]}**", ""]
        for each in AllOptions.options.values():
            if each.group == group and each.flags and each.help is not None:
                lines += definition(spelled(each), explained(each))
    return lines


def definition(heading: str, text: str) -> list[str]:
    """One option, with its argument, and its help."""
    text = re.sub(r"(?<![\w`-])(--?[a-z][a-z-]*)", r"`\1`", text)
    return [f"`{heading}`", f": {text[:1].upper()}{text[1:]}.".replace("..", "."), ""]


def option_lines(parser: argparse.ArgumentParser) -> list[str]:
    """A definition list: each option with its argument, then its help."""
    lines: list[str] = []
    for action in arguments_of(parser):
        value = action.metavar or (action.choices and "{" + ",".join(action.choices) + "}")
        takes = "" if action.nargs == 0 or not value else f" {value}"
        names = action.option_strings or [str(action.metavar or action.dest)]
        text = " ".join((action.help or "").split()) % {"default": action.default}
        lines += definition(", ".join(names) + (takes if action.option_strings else ""), text)
    return lines


def statements(sql: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each statement's lines, after those of the comment above it."""
    comment: list[str] = []
    code: list[str] = []
    for line in sql.splitlines():
        if line.startswith("--") and not code:
            comment.append(line.removeprefix("--").strip())
        elif line.strip():
            code.append(line)
            if line.split("--")[0].rstrip().endswith(";"):
                yield comment, code
                comment, code = [], []
        elif not code:
            comment.append("")


def schema_lines() -> list[str]:
    """A section for each table and view: what it is, then its declaration."""
    lines = ["## Conventions", "", *_escaped(tables.__doc__ or ""), ""]
    for name, row in TABLES.items():
        table = row.table
        lines += [f"## `{name}`", "", *_escaped(table.doc), ""]
        lines += ["```sql", *table.create.splitlines(), "```", ""]
    for comment, code in statements(views()):
        if found := _OBJECT.match(code[0]):
            lines += [f"## `{found[2]}`", ""]
        lines += _escaped("\n".join(comment))
        lines += ["", "```sql", *code, "```", ""]
    return lines


def _escaped(text: str) -> list[str]:
    """Lines of a docstring or comment as Markdown."""
    return [re.sub(r"([*_<\[])", r"\\\1", line.strip()) for line in text.splitlines()]


def format_lines() -> list[str]:
    """A definition list of the exporters."""
    lines: list[str] = []
    for name, each in EXPORTERS.items():
        lines += [f"`{name}`", f": {each.help[:1].upper()}{each.help[1:]}.", ""]
    return lines


class Generated(Directive):
    """Markdown that `make` returns, in the place of the directive."""

    def run(self) -> list[nodes.Node]:
        """Parse the generated lines where the directive stands."""
        text = StringList(self.make(), source=self.name)
        node = nodes.container()
        self.state.nested_parse(text, 0, node, match_titles=True)
        return node.children

    def make(self) -> list[str]:
        """The lines."""
        raise NotImplementedError


class Options(Generated):
    """The options of one command."""

    required_arguments = 1
    final_argument_whitespace = True

    def make(self) -> list[str]:
        """The lines."""
        name = self.arguments[0]
        return run_lines() if name == "run" else option_lines(parser_of(name))


class Schema(Generated):
    """The profile file's schema."""

    def make(self) -> list[str]:
        """The lines."""
        return schema_lines()


class Formats(Generated):
    """The formats that a profile is exported to."""

    def make(self) -> list[str]:
        """The lines."""
        return format_lines()


class Map(Generated):
    """The map of the source."""

    def make(self) -> list[str]:
        """The lines."""
        sys.path.insert(0, str(CLONE / "scripts"))
        from map import tables

        return tables()


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known."""
    for directive in (Options, Schema, Formats, Map):
        app.add_directive(directive.__name__.lower(), directive)
    return {"parallel_read_safe": True}

"""The commands and the Python in README.md and docs/ are real: options are known, code compiles."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from pyhybrid.capture.config_file import Configuration, read
from pyhybrid.cli import SUBCOMMANDS
from pyhybrid.cli import command as command_of
from pyhybrid.cli.parser import Parser
from pyhybrid.cli.run import make_parser
from pyhybrid.cli.without_profile import split

CLONE = Path(__file__).parents[2]
PAGES = [CLONE / "README.md", *sorted((CLONE / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:python -m )?pyhybrid (?!python )([^\n]*)", re.MULTILINE)


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]


def commands() -> list[str]:
    shown = [text for page in PAGES for text in blocks(page, "sh", "")]
    found = [line for text in shown for line in COMMAND.findall(text)]
    return sorted({line for line in found if "[options]" not in line})


def parser_of(subcommand: str) -> argparse.ArgumentParser:
    parser = Parser(prog=subcommand)
    command_of(subcommand).prepare_parser(parser)
    return parser


def test_there_are_commands() -> None:
    assert len(commands()) > 20


@pytest.mark.parametrize("command", commands())
def test_options_are_known(command: str) -> None:
    words = shlex.split(command.split(" >")[0], comments=True)
    if words[0] in SUBCOMMANDS:
        parser_of(words[0]).parse_args(words[1:])
        return
    ours, program = split(words)
    make_parser().parse_args(ours)
    assert program


@pytest.mark.parametrize("language", ["toml", "json", "yaml"])
def test_configuration_files_are_read(language: str, tmp_path: Path) -> None:
    shown = [text for page in PAGES for text in blocks(page, language)]
    for text in shown:
        path = tmp_path / ("pyproject.toml" if "[tool." in text else f"a.{language}")
        path.write_text(text)
        Configuration().add(str(path), read(str(path)))
    assert shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_compiles(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, str(page), "exec")


@pytest.mark.parametrize(("page", "most"), [("README.md", 150), ("ARCHITECTURE.md", 250)])
def test_what_is_read_first_is_short(page: str, most: int) -> None:
    assert len((CLONE / page).read_text().splitlines()) <= most

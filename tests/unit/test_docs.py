"""The commands and the Python in README.md and docs/ are real: options are known, code compiles."""

import re
import shlex
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from pyhybrid.cli import SUBCOMMANDS
from pyhybrid.cli import command as command_of
from pyhybrid.cli.parser import Parser
from pyhybrid.cli.report import Report
from pyhybrid.cli.run import make_parser
from pyhybrid.cli.without_profile import split
from pyhybrid.options.config_file import Configuration, read
from pyhybrid.views import findings

CLONE = Path(__file__).parents[2]
PAGES = [CLONE / "README.md", *sorted((CLONE / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"\[|\||\.\.\.|(?:^| )(?:[A-Z]+|--slower-than)$|[A-Z]{4}")
INLINE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"^(?:python -m )?pyhybrid (?!python )([^\n]*)", re.MULTILINE)


def blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]


def commands() -> list[str]:
    """Those in blocks, in the text (whole ones, and `report ...`), and those that findings name;
    without placeholders.
    """
    found = [line for p in PAGES for text in blocks(p, "sh", "") for line in COMMAND.findall(text)]
    for page in PAGES:
        for text in INLINE.findall(BLOCK.sub("", page.read_text())):
            whole = COMMAND.match(text)
            words = whole[1] if whole else text
            if words.split()[0] in ("report", "page") or (whole and " " in words):
                found.append(words)
    rules = tomllib.loads(files(findings).joinpath("findings.toml").read_text())["rule"]
    found += [line for each in rules for line in COMMAND.findall(each["command"])]
    single = {
        part
        for line in found
        for part in re.split(r" && (?:python -m pyhybrid )?| >(?! ?\d)", line)
    }
    return sorted(line for line in single if not PLACEHOLDER.search(line))


def test_there_are_commands() -> None:
    assert len(commands()) > 20


@pytest.mark.parametrize("command", commands())
def test_options_are_known(command: str) -> None:
    words = shlex.split(command, comments=True)
    if words[0] in SUBCOMMANDS:
        found = command_of(words[0])
        if isinstance(found, Report):
            found, words[1:] = found.view(words[1:])
        parser = Parser(prog=words[0])
        found.prepare_parser(parser)
        parser.parse_args(words[1:])
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

"""The tables of rules: as they are read at the end of a run, and as they are written."""

import json
import tomllib
from pathlib import Path

import pytest

import pyhybrid

PACKAGE = Path(pyhybrid.__file__).parent
TABLES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.toml"))


@pytest.mark.needs("installed")
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_tables_say_the_same_as_json(table: Path) -> None:
    said = json.loads((PACKAGE / table).with_suffix(".json").read_text())
    assert said == tomllib.loads((PACKAGE / table).read_text())


def test_there_are_tables() -> None:
    assert len(TABLES) >= 5

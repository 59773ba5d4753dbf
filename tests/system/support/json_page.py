"""The page docs/reference/json.md as a check of what `report VIEW --json` prints."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
_SECTION = re.compile(r"^##+ `?(?:report )?([^`\n]+?)`?\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)
_LINK = re.compile(r"\[([a-z ]+)\]\(#[\w-]+\)")
_PLAIN = {"text": str, "int": int, "number": (int, float), "bool": bool}


@cache
def objects() -> dict[str, dict[str, str]]:
    """Of each view and each object the types of its keys."""
    found = {}
    for name, text in _SECTION.findall(PAGE.read_text()):
        if rows := dict(_ROW.findall(text)):
            found[name] = {key: _LINK.sub(r"\1", kind) for key, kind in rows.items()}
    return found


def check_report(words: list[str], printed: str) -> None:
    """What `report` with these words printed, if it is JSON, is as the page says."""
    if "--json" in words:
        views = [each for each in words if each in objects()]
        check(json.loads(printed), views[0] if views else "summary", "")


def check(value: Any, kind: str, where: str) -> None:
    """Is the value of this kind?"""
    if value is None or kind.endswith(" or null"):
        assert kind.endswith(" or null"), f"{where}: null is not {kind}"
        if value is not None:
            check(value, kind.removesuffix(" or null"), where)
    elif kind.startswith("list of "):
        assert isinstance(value, list), f"{where}: {kind}"
        for each in value:
            check(each, kind.removeprefix("list of "), f"{where}[]")
    elif kind.startswith("map to "):
        assert isinstance(value, dict), f"{where}: {kind}"
        for key, each in value.items():
            check(each, kind.removeprefix("map to "), f"{where}.{key}")
    elif kind == "[int, int]":
        assert [type(each) for each in value] == [int, int], f"{where}: {kind}"
    elif kind in _PLAIN:
        is_it = isinstance(value, _PLAIN[kind]) and (kind == "bool") == isinstance(value, bool)
        assert is_it, f"{where}: {value!r} is not {kind}"
    elif kind != "any":
        keys = objects()[kind]
        assert list(value) == list(keys), f"{where}: keys of {kind}"
        for key, each in value.items():
            check(each, keys[key], f"{where}.{key}")

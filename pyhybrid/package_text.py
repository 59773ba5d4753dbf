"""Text files of the package: tables as data, the schema."""

import json
import os
from typing import Any


def text_beside(module: str, name: str) -> str:
    """The file `name` in the folder of a module, of which `module` is the `__file__`.

    Without pathlib, which takes as long to import as all modules of a room.
    """
    with open(os.path.join(os.path.dirname(module), name), encoding="utf-8") as file:
        return file.read()


def table_beside(module: str, name: str) -> dict[str, Any]:
    """What the file `name`.toml there says.

    It is installed as JSON, too (meson.build), which is read in a fiftieth of the time.
    """
    try:
        text = text_beside(module, f"{name}.json")
    except FileNotFoundError:  # this is not installed, but in a clone
        import tomllib

        return tomllib.loads(text_beside(module, f"{name}.toml"))
    table: dict[str, Any] = json.loads(text)
    return table

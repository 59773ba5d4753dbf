"""Text files of the package: tables as data, the schema."""

import os


def text_beside(module: str, name: str) -> str:
    """The file `name` in the folder of a module, of which `module` is the `__file__`.

    Without pathlib, which takes as long to import as all modules of a room.
    """
    with open(os.path.join(os.path.dirname(module), name), encoding="utf-8") as file:
        return file.read()

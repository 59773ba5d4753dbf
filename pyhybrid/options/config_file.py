"""Options from files: TOML, JSON or YAML, each key an option by its long name (table.py).

A run reads the nearest pyproject.toml that has `[tool.pyhybrid]`, then what `--config` names, or
else the variable PYHYBRID_CONFIG; what is read later wins, and the command line wins over all.
A parser is imported for a file that is there, and no other module.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from pyhybrid.errors import UsageError
from pyhybrid.options.kinds import Declared, Option
from pyhybrid.options.lists import known_key
from pyhybrid.options.table import Options

VARIABLE = "PYHYBRID_CONFIG"
PYPROJECT = "pyproject.toml"
NAMES_OR_TABLES = "function"  # names as -t has them, or `[[function]]`, which are
TABLES = "function_settings"


class Configuration:
    """Hold the values that files give to options, by the option's field, and where each is from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.files: list[str] = []

    def add(self, path: str, keys: dict[str, Any]) -> None:
        """Add those of a file; they win over what is there.  Raises UsageError."""
        self.files.append(path)
        for key, option, value in _options(path, keys):
            where = f"{path}: {key}"
            try:
                self.values[option.name] = parsed = option.kind.from_file(value)
            except ValueError as error:
                raise UsageError(f"{where}: {error}") from None
            try:
                option.kind.check(where, parsed)
            except UsageError as error:  # some do not name what
                text = str(error)
                raise UsageError(text if where in text else f"{where}: {text}") from None
            self.sources[option.name] = path


def of_command_line(given: dict[str, Any]) -> Configuration:
    """Return what holds beside the options that are `given` there.  Raises UsageError."""
    found = Configuration()
    if given.get("no_config"):
        return found
    for path, keys in _pyproject():
        found.add(path, keys)
    variable = os.environ.get(VARIABLE)
    for path in given.get("config") or ([variable] if variable else []):
        found.add(path, read(path))
    return found


def with_files(given: dict[str, Any], table: type[Declared]) -> dict[str, Any]:
    """Return the keywords `given`, and beside them what is in the files that their `config` names.

    What is no option of the `table` is left out: a file may be the command line's, too.
    """
    named = given.get("config") or ()
    if not named:
        return given
    found = Configuration()
    for path in [named] if isinstance(named, str) else named:
        found.add(path, read(path))
    values = {name: value for name, value in found.values.items() if name in table.options}
    return {**values, **given, "config": found.files}


def read(path: str) -> dict[str, Any]:
    """Return the keys of a file whose name shows its format.  Raises UsageError."""
    extension = _extension(path)
    if extension not in _PARSERS:
        *others, last = _PARSERS
        raise UsageError(f"{path}: its name must end in {', '.join(others)} or {last}")
    try:
        with open(path, "rb") as file:
            keys = _keys(path, file.read())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return _table(path, keys) if os.path.basename(path) == PYPROJECT else keys


def parse(path: str, data: bytes) -> Any:
    """Return what is in a file of this name, by default JSON.  Raises ValueError, UsageError."""
    try:
        return _PARSERS.get(_extension(path), _json)(data.decode())
    except ImportError:
        raise UsageError(f"{path}: YAML needs PyYAML (pip install PyYAML)") from None
    except RecursionError:
        raise ValueError("too deep") from None


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _keys(path: str, data: bytes) -> dict[str, Any]:
    try:
        keys = parse(path, data)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path} is not valid {_extension(path)[1:].upper()}: {reason}") from None
    if not isinstance(keys, dict):
        raise UsageError(f"{path} is not a table of options")
    return keys


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)


def _json(text: str) -> Any:
    import json

    return json.loads(text)


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


_PARSERS = {".toml": _toml, ".json": _json, ".yaml": _yaml, ".yml": _yaml}


def _table(path: str, keys: dict[str, Any]) -> dict[str, Any]:
    """Return `[tool.pyhybrid]` of a pyproject.toml."""
    tool = keys.get("tool", {})
    table = tool.get("pyhybrid", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.pyhybrid is not a table of options")
    return table


def _pyproject() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the nearest one with our table, if there is one: up to the repository's root.

    It must belong to whom the current folder does, or to this user, or to root: an option may name
    a library to load.
    """
    try:
        folder = os.getcwd()
        owners = {os.stat(folder).st_uid, os.geteuid(), 0}
    except OSError:
        return
    while True:
        path = os.path.join(folder, PYPROJECT)
        try:
            # Without waiting for what somebody has put there: a FIFO, for example.
            with open(path, "rb", opener=_without_waiting) as file:
                status = os.fstat(file.fileno())
                ours = stat.S_ISREG(status.st_mode) and status.st_uid in owners
                data = file.read() if ours else b""
        except OSError:
            data = b""
        if _mentions_us(data):
            table = _table(path, _keys(path, data))
            if table:
                yield path, table
                return
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return
        folder = parent


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _mentions_us(data: bytes) -> bool:
    """May it have our table?  Most have none, and need no parser."""
    if b"pyhybrid" not in data:
        return False
    lines = (line.lstrip() for line in data.splitlines() if b"pyhybrid" in line)
    return any(line.startswith((b"[", b"tool", b"pyhybrid")) for line in lines)


def known() -> Iterable[Option]:
    """Return the options that a file may have."""
    return (each for each in Options.options.values() if each.key)


def _options(path: str, keys: dict[str, Any]) -> Iterator[tuple[str, Option, Any]]:
    """Yield each key as it is written, its option, and the value."""
    by_key = {each.key: each for each in known()}
    written: dict[str, str] = {}
    for key, value in keys.items():
        if isinstance(value, dict) and key in ("tool", "pyhybrid"):
            raise UsageError(
                f"{path}: options stand at the top level, not in a table: [tool.pyhybrid] is for "
                f"a file called {PYPROJECT}"
            )
        try:
            name = known_key(key, by_key)
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from None
        if name in written:
            raise UsageError(f"{path}: {written[name]!r} and {key!r} are one option")
        written[name] = key
        if name == NAMES_OR_TABLES and isinstance(value, dict):
            raise UsageError(
                f"{path}: {key} is a list of tables: [[{key}]] in TOML, with two brackets"
            )
        if name == NAMES_OR_TABLES and isinstance(value, list):
            tables = [each for each in value if isinstance(each, dict)]
            value = [each for each in value if not isinstance(each, dict)]
            if tables:
                yield key, Options.options[TABLES], tables
            if not value and tables:
                continue
        yield key, by_key[name], value

"""The schema of a profile file, schema.sql, and what a file says that has it."""

import re

from pyhybrid.package_text import text_beside

TEXT = text_beside(__file__, "schema.sql")


def _pragma(name: str) -> int:
    found = re.search(rf"^PRAGMA {name} = (\w+);", TEXT, re.MULTILINE)
    assert found
    return int(found[1], 0)


def create_table(name: str) -> str:
    """The statement that makes a table."""
    found = re.search(rf"^CREATE TABLE {name} \(.*?\);", TEXT, re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


TABLES = frozenset(re.findall(r"^CREATE TABLE (\w+) \(", TEXT, re.MULTILINE))  # that are read
APPLICATION_ID = _pragma("application_id")
VERSION = _pragma("user_version")
OLDEST = 3  # that is read: Profile says what it lacks

"""The schema of a profile file, schema.sql, and what a file says that has it."""

import re
from pathlib import Path

TEXT = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


def _pragma(name: str) -> int:
    found = re.search(rf"^PRAGMA {name} = (\w+);", TEXT, re.MULTILINE)
    assert found
    return int(found[1], 0)


APPLICATION_ID = _pragma("application_id")
VERSION = _pragma("user_version")
OLDEST = 3  # that is read: Profile says what it lacks

"""Is a library on disk the one that ran?  Asked where no build-id tells."""

import os
from collections.abc import Mapping
from typing import Any

_SLACK_NS = 1_000_000_000  # wall-clock time is set meanwhile


def is_newer(path: str, load_ns: int, meta: Mapping[str, Any]) -> bool:
    """Was the file at `path` changed or put there after it was loaded, at `load_ns`?

    False where there is no such file, or the profile's meta data do not tell when that was.
    """
    start_ns, start_unix_ns = meta.get("start_ns"), meta.get("start_unix_ns")
    if not start_ns or not start_unix_ns:
        return False
    try:
        changed_ns = os.stat(path).st_ctime_ns
    except OSError:
        return False
    loaded_unix_ns = int(start_unix_ns) + max(0, load_ns - int(start_ns))
    return changed_ns > loaded_unix_ns + _SLACK_NS

"""pyhybrid: one call tree for Python and the native code below it.

From within a program: `Profiler`, `@profile`, `region`, `enable`, `disable` (pyhybrid/api.py).
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyhybrid.api import Profiler as Profiler
    from pyhybrid.api import disable as disable
    from pyhybrid.api import enable as enable
    from pyhybrid.api import profile as profile
    from pyhybrid.api import region as region

__version__ = "0.1.0"

# In the root of a clone this folder hides the installed package, which has the extension modules.
if not any(name.startswith("_native.c") for name in os.listdir(__path__[0])):
    __path__ += [
        folder
        for folder in (os.path.join(entry, "pyhybrid") for entry in sys.path if entry)
        if folder != __path__[0] and os.path.isdir(folder)
    ]

_API = frozenset(["Profiler", "disable", "enable", "profile", "region"])


def __getattr__(name: str) -> object:
    """The API, imported when it is first used: the command line starts without it."""
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyhybrid import api

    globals().update((each, getattr(api, each)) for each in _API)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})

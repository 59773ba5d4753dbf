"""pyhybrid: one call tree for Python and the native code below it.

From within a program: `Profiler`, `region`, `enable`, `disable` (capture/api.py); `@profile` and
`write_profile` (capture/decorator.py, capture/shared_profile.py).
"""

import os
import sys

TYPE_CHECKING = False  # without `typing`, which takes a megabyte: there may be none
if TYPE_CHECKING:
    from pyhybrid.capture.api import Profiler as Profiler
    from pyhybrid.capture.api import disable as disable
    from pyhybrid.capture.api import enable as enable
    from pyhybrid.capture.api import region as region
    from pyhybrid.capture.decorator import profile as profile
    from pyhybrid.capture.shared_profile import write_profile as write_profile

__version__ = "0.1.0"

# In the root of a clone this folder hides the installed package, which has the extension modules.
if not any(name.startswith("_native.c") for name in os.listdir(__path__[0])):
    __path__ += [
        folder
        for folder in (os.path.join(entry, "pyhybrid") for entry in sys.path if entry)
        if folder != __path__[0] and os.path.isdir(folder)
    ]

_API = {  # name: module
    "Profiler": "capture.api",
    "disable": "capture.api",
    "enable": "capture.api",
    "profile": "capture.decorator",
    "region": "capture.api",
    "write_profile": "capture.shared_profile",
}


def __getattr__(name: str) -> object:
    """The API, imported when it is first used: the command line starts without it."""
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"pyhybrid.{_API[name]}")
    return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})

"""pyhybrid: one call tree for Python and the native code below it.

From within a program: `Profiler`, `enable`, `disable`, `step`, `snapshot` (capture/api.py);
`region` (src/instrument/region.h); `@profile` and `write_profile` (capture/decorator.py,
capture/shared_profile.py); `load` reads a profile (loading.py).  For native code:
`get_include`, `get_library`.

PYTEST_DONT_REWRITE: to pytest, whose plugin is in here, though there is nothing to assert.
"""

import os
import sys

TYPE_CHECKING = False  # without `typing`, which takes a megabyte: there may be none
if TYPE_CHECKING:
    from pyhybrid._native import region as region
    from pyhybrid.capture.api import Profiler as Profiler
    from pyhybrid.capture.api import disable as disable
    from pyhybrid.capture.api import enable as enable
    from pyhybrid.capture.api import snapshot as snapshot
    from pyhybrid.capture.api import step as step
    from pyhybrid.capture.decorator import profile as profile
    from pyhybrid.capture.listening import listen as listen
    from pyhybrid.capture.shared_profile import write_profile as write_profile
    from pyhybrid.loading import Profile as Profile
    from pyhybrid.loading import load as load
    from pyhybrid.notebook.magic import load_ipython_extension as load_ipython_extension

    open = load

__version__ = "0.1.0"

# In the root of a clone this folder hides the installed package, which has the extension modules.
# (No folder: an editable installation, whose finder knows them.)
if os.path.isdir(__path__[0]) and not any(
    name.startswith("_native.c") for name in os.listdir(__path__[0])
):
    __path__ += [
        folder
        for folder in (os.path.join(entry, "pyhybrid") for entry in sys.path if entry)
        if folder != __path__[0] and os.path.isdir(folder)
    ]

_API = {  # name: where it is
    "Profile": "loading.Profile",
    "Profiler": "capture.api.Profiler",
    "disable": "capture.api.disable",
    "enable": "capture.api.enable",
    "load_ipython_extension": "notebook.magic.load_ipython_extension",
    "listen": "capture.listening.listen",
    "load": "loading.load",
    "open": "loading.load",
    "profile": "capture.decorator.profile",
    # Where a run is, nothing has to be imported: a fork meanwhile leaves the child a module's lock
    # that nobody gives back.
    "region": "_native.region",
    "snapshot": "capture.api.snapshot",
    "step": "capture.api.step",
    "write_profile": "capture.shared_profile.write_profile",
}


def get_include() -> str:
    """Return the folder of `pyhybrid.h`, for a compiler (src/capi/pyhybrid.h)."""
    return os.path.join(_extension_folder(), "include")


def get_library() -> str:
    """Return the path of `libpyhybrid.so`, to be linked or loaded."""
    return os.path.join(_extension_folder(), "libpyhybrid.so")


def _extension_folder() -> str:
    """Return the folder of the extension modules, which is not ours in the root of a clone."""
    from pyhybrid import _native

    return os.path.dirname(_native.__file__)


def __getattr__(name: str) -> object:
    """Return a part of the API, imported at its first use: the command line starts without it."""
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = f"pyhybrid.{_API[name]}".rpartition(".")
    __import__(module)
    found: object = getattr(sys.modules[module], there)
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})

"""Where the interface for native code lies (src/capi/pyhybrid.h): what a compiler is to be told."""

import os


def _folder() -> str:
    """Of the extension modules, which is not ours in the root of a clone."""
    from pyhybrid import _native

    return os.path.dirname(_native.__file__)


def get_include() -> str:
    """The folder of `pyhybrid.h`."""
    return os.path.join(_folder(), "include")


def get_library() -> str:
    """The path of `libpyhybrid.so`, to be linked or loaded."""
    return os.path.join(_folder(), "libpyhybrid.so")

"""The interpreter that finishes a profile: a file that is one, found without running it.

`sys.executable` need not be one: frozen applications and programs that embed CPython are their own,
and started as an interpreter they would run themselves again.  Servers that embed it (uWSGI) name
themselves or nothing.  So what is taken is called as an interpreter of this version is, and has its
standard library where the interpreter looks for it (CPython Modules/getpath.py).

Imports nothing but `os` and `sys`: the program waits for it.
"""

import os
import sys

_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
_NAME = f"python{_VERSION}{sys.abiflags}"
_NAMES = {_NAME, f"python{_VERSION}", "python3", "python"}
_IN_BUILD_FOLDER = "pybuilddir.txt"  # of an interpreter that is run where it was made


def find() -> str | None:
    """The path of an interpreter of this version; None where none is known."""
    # The second one where that is a virtual environment's.
    named = [sys.executable, getattr(sys, "_base_executable", None)]
    if getattr(sys, "frozen", False):
        named = []
    usual = [
        os.path.join(prefix, "bin", _NAME) for prefix in (sys.base_prefix, sys.base_exec_prefix)
    ]
    return next((path for path in (*named, *usual) if path and _is_one(path)), None)


def _is_one(path: str) -> bool:
    try:
        real = os.path.realpath(path, strict=True)
    except (OSError, ValueError):
        return False
    folder, name = os.path.split(real)
    # Without a version in its name it may be any: but not the one that runs.
    if name not in _NAMES or not (_VERSION in name or _is_running(real)):
        return False
    if not os.access(real, os.X_OK) or not os.path.isfile(real):
        return False
    if os.path.exists(os.path.join(folder, _IN_BUILD_FOLDER)):
        return True
    prefix = os.path.dirname(folder)
    libraries = {sys.platlibdir, "lib"}
    return any(
        os.path.exists(os.path.join(prefix, library, f"python{_VERSION}", "os.py"))
        for library in libraries
    )


def _is_running(real: str) -> bool:
    try:
        return os.path.samefile(real, "/proc/self/exe")
    except OSError:
        return False

"""The one exception family: what a user can cause or repair, reported in one line.

The command line prints ``pyhybrid: MESSAGE`` and exits with `exit_code`; everything else that
escapes is a defect and keeps its traceback.
"""


class PyhybridError(Exception):
    """Report a failure in one line: a file that is missing, damaged, or cannot be written."""

    exit_code = 1


class UsageError(PyhybridError):
    """The request itself makes no sense: unknown option values, an unsupported interpreter."""

    exit_code = 2


def not_built(error: ImportError) -> UsageError:
    """Return what to raise where an extension module is for another interpreter, or not there."""
    import os
    import sys

    try:
        names = os.listdir(os.path.dirname(__file__))
    except OSError:
        names = []
    tags = [name.split("-")[1] for name in names if name.startswith("_native.cpython-")]
    there = [f"3.{tag[1:]}" for tag in tags if tag[1:].isdigit()]
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    why = str(error)
    if there and here not in there:
        why = f"built for CPython {' and '.join(sorted(there))}, and this is {here}"
    return UsageError(f"not built for this interpreter or system: {why}")


class OutputError(PyhybridError):
    """Nothing can be written at the place where the files are to be."""

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


class OutputError(PyhybridError):
    """Nothing can be written at the place where the files are to be."""

"""What every exporter offers."""

from typing import BinaryIO

from pyhybrid.tables.profile import Profile


class Exporter:
    """A format; `name` is the word after `-f`."""

    name: str
    help: str
    suffix = ""  # of its file's name, after what the profile's begins with
    keeps_old = False  # what stands in the file's place stays, as PATH.old
    mode = 0o666  # of its file, less what the umask says

    def default_path(self, profile: Profile, prefix: str) -> str | None:
        """Where it goes if nobody says; `prefix` is what the profile file's name begins with.

        None: it writes no file.
        """
        return prefix + self.suffix

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write all of it; `file` can be sought.  Raises PyhybridError.

        With `limit_bytes` the formats that are written unasked (table.FORMATS) keep below it, by
        being coarser.  All others somebody named: they are whole.  Their size has the bounds of
        what they tell of: paths (--max-nodes), samples in time (--max-timeline), calls
        (--max-calls, --events).  Returns what is to be said of the file: what follows its
        name.
        """
        raise NotImplementedError

    def prepare(self, profile: Profile, path: str) -> None:
        """It is about to be written, and to be put at `path`, where something may stand."""

    def refuses(self, profile: Profile, path: str) -> str:
        """Why it must not be put at `path` after all; "" where it may.  Raises OSError."""
        return ""

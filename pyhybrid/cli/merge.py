"""`pyhybrid merge`: the profiles of several processes as one."""

import argparse
import contextlib
import os
from collections import Counter

from pyhybrid.base.terminal_text import say
from pyhybrid.capture.children import PART
from pyhybrid.capture.output_lock import PROFILE, check_folder
from pyhybrid.errors import UsageError
from pyhybrid.exporters.destination import replacing
from pyhybrid.merge.merge import merge


class Merge:
    """Makes one profile of several, which were measured alike: functions and call paths are shared,
    figures add up.  Reports and exports are of all processes then.
    """

    name = "merge"
    words = "-o OUT FILE..."
    help = "make one profile of several"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "files",
            nargs="+",
            help="profiles, what killed runs left (.part), "
            "or a folder of what children have (.pyhybrid.parts)",
        )
        parser.add_argument("-o", "--output", required=True, help="the profile to write")

    def run(self, args: argparse.Namespace) -> int:
        """Write it; returns the exit code.  Raises PyhybridError."""
        files = [each for path in args.files for each in _files(path)]
        if len(files) < 2:
            raise UsageError("merge: there is nothing to merge: name several profiles")
        for path, n in Counter(map(os.path.realpath, files)).items():
            if n > 1:
                raise UsageError(f"merge: {path} is named twice: it would count twice")
        prefix = args.output.removesuffix(PROFILE)
        output = prefix + PROFILE
        check_folder(os.path.abspath(prefix), makes=False)
        for path in files:
            with contextlib.suppress(OSError):  # who opens it reports what is not there
                if os.path.samefile(path, output):
                    raise UsageError(f"merge: -o {args.output} is one of its inputs")
        with replacing(output) as temporary:
            merge(files, temporary)
        say(f"{output}: {len(files)} profiles")
        return 0


def _files(path: str) -> list[str]:
    """Return the file, or those that a run's children have left in a folder."""
    if not os.path.isdir(path):
        return [path]
    return sorted(
        os.path.join(path, name)
        for name in os.listdir(path)
        if name.endswith(PART) and os.path.getsize(os.path.join(path, name))
    )

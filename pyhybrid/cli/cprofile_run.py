"""Run a program as pyhybrid runs it, but under the standard library's cProfile.

python -m pyhybrid.cli.cprofile_run FILE SCRIPT [ARGS...]

writes FILE when the interpreter ends: `marshal` of [(file, line, qualified name, calls, total ns),
...] of the program's Python functions.  What pyhybrid has imported when the program begins is
imported here too, for the program to find the same built-in modules loaded, and folders read.
"""

import marshal
import os
import sys

from pyhybrid.base import own_modules

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from cProfile import Profile

    Count = tuple[str, int, str, int, int]

_OWN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def _counts(profiler: "Profile") -> "list[Count]":
    """Return the program's functions, our own left out; a built-in function has no code."""
    return [
        (
            *(each.code.co_filename, each.code.co_firstlineno, each.code.co_qualname),
            *(each.callcount, round(each.totaltime * 1e9)),
        )
        for each in profiler.getstats()
        if not isinstance(each.code, str) and not each.code.co_filename.startswith(_OWN)
    ]


def main() -> None:
    """Run it, and end as it does."""
    own_modules.begin()
    import _posixsubprocess  # noqa: F401
    import atexit
    import cProfile
    import fcntl  # noqa: F401
    import json  # noqa: F401

    import pyhybrid._native  # noqa: F401
    from pyhybrid.base.terminal_text import visible
    from pyhybrid.capture.run_program import Program
    from pyhybrid.cli.run import make_parser
    from pyhybrid.errors import PyhybridError

    make_parser()  # argparse imports what it needs when it needs it
    path, *words = sys.argv[1:]
    try:
        program = Program(words)
    except PyhybridError as error:
        sys.stderr.write(f"{visible(str(error))}\n")
        sys.exit(error.exit_code)
    profiler, pid = cProfile.Profile(), os.getpid()

    def write() -> None:
        if os.getpid() != pid:
            return
        profiler.disable()
        with open(path, "wb") as file:
            marshal.dump(_counts(profiler), file)

    atexit.register(write)  # first, so that it runs last
    program.prepare()
    program.run(lambda: profiler.enable(builtins=False))  # 3.14 forgets its constructor's


if __name__ == "__main__":
    main()

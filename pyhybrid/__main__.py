"""`python -m pyhybrid`: see `pyhybrid.cli`."""

import sys

if sys.version_info < (3, 12):  # noqa: UP036
    version = sys.version.split()[0]
    sys.stderr.write("pyhybrid: CPython 3.12 or newer is needed, this is " + version + "\n")
    sys.exit(2)

from pyhybrid.cli import main

main()

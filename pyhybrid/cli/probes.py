"""`pyhybrid probes`: the USDT probes of programs that run with --emit usdt, for scripts."""

import argparse
import os

import pyhybrid

# src/emit/usdt.c has the places and the registers.
_PLACE = ("str qualname", "str file", "int firstline", "int offset")
PROBES = {
    "PY_START": _PLACE,
    "PY_RESUME": _PLACE,
    "PY_THROW": (*_PLACE, "str exception"),
    "PY_RETURN": (*_PLACE, "str value"),
    "PY_YIELD": (*_PLACE, "str value"),
    "PY_UNWIND": (*_PLACE, "str exception"),
    "CALL": (*_PLACE, "str callable"),
    "LINE": ("str qualname", "str file", "int line", "int offset"),
    "REGION_BEGIN": ("str name",),
    "REGION_END": ("str name",),
}

LIBRARY = "libpyhybrid_usdt.so"
_ACTION = "{ @[str(arg0)] = count(); }"
_ALIASES = """
The first eight are also pyusdt:..., with the plain name as arg0; and begins, ends and lines are
python:function__entry, python:function__return and python:line: str file, str name, int line."""


class Probes:
    """Prints the library that has the USDT probes, and each probe with its arguments."""

    name = "probes"
    words = ""
    help = "print the USDT probes of --emit usdt"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--path", action="store_true", help="print the library's path alone")

    def run(self, options: argparse.Namespace) -> int:
        """Print them."""
        path = os.path.join(os.path.dirname(pyhybrid.get_library()), LIBRARY)
        if options.path:
            print(path)
            return 0
        print(f"library  {path}")
        print("program  python -m pyhybrid --mode none --emit usdt script.py")
        print(f"tracer   bpftrace -p PID -e 'usdt:{path}:pyhybrid:PY_START {_ACTION}'\n")
        for probe, arguments in PROBES.items():
            shown = ", ".join(f"arg{i} {each}" for i, each in enumerate(arguments))
            print(f"pyhybrid:{probe:<14}{shown}")
        print(_ALIASES)
        return 0

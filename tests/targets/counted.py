"""Run a program of counted/ with all that it imports imported before, alone or under cProfile.

python counted.py PROGRAM             for a profiler to watch
python counted.py PROGRAM FILE        under cProfile, its counts into FILE as JSON:
                                      [[callee, calls, {caller: calls}], ...]
python counted.py PROGRAM FILE c      the same with C functions

The program is the code object named `<module>` of its file.
"""

import _pydecimal  # noqa: F401
import ast
import asyncio  # noqa: F401
import contextlib  # noqa: F401
import functools  # noqa: F401
import itertools  # noqa: F401
import json
import re
import sys

with open(sys.argv[1]) as file:
    program = compile(file.read(), sys.argv[1], "exec")
tree = ast.parse("a")
ast.unparse(tree), ast.dump(tree)  # what they import when they are first called
space = {"__name__": "__main__"}

if len(sys.argv) == 2:
    exec(program, space)
else:
    import cProfile

    def name(code):
        if isinstance(code, str):
            return re.sub(" of type object at 0x.*(?=>)", "", code)
        return f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}"

    with_c = len(sys.argv) > 3
    profile = cProfile.Profile()
    re.purge()
    profile.enable(builtins=with_c)  # 3.14 forgets what its constructor was told
    exec(program, space)
    profile.disable()
    entries = [e for e in profile.getstats() if with_c or not isinstance(e.code, str)]
    callers = {name(e.code): {} for e in entries}
    for entry in entries:
        for called in entry.calls or ():
            if with_c or not isinstance(called.code, str):
                of = callers[name(called.code)]
                of[name(entry.code)] = of.get(name(entry.code), 0) + called.callcount
    counts = {}
    for entry in entries:
        counts[name(entry.code)] = counts.get(name(entry.code), 0) + entry.callcount
    with open(sys.argv[2], "w") as file:
        json.dump([[key, n, callers[key]] for key, n in counts.items()], file)

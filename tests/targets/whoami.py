"""Prints all that a program can see of the way in which it was started."""

import sys

NAMES = sorted(globals())


def show():
    main = sys.modules["__main__"]
    print("names", NAMES, "same module", vars(main) is globals(), main.__name__)
    for name in ("name", "file", "package", "cached", "doc", "annotations"):
        print(name, repr(globals().get(f"__{name}__", "missing")))
    loader = globals().get("__loader__")
    print("__loader__", loader if isinstance(loader, type) else type(loader))
    print("__builtins__", __builtins__)
    if __spec__:
        spec = __spec__
        print("__spec__", type(spec.loader), spec.name, spec.origin, spec.parent, spec.cached)
    else:
        print("__spec__", __spec__)
    print("argv", sys.argv)
    print("path", sys.path)
    print("flags", sys.flags, sys._xoptions, sys.warnoptions)
    print("streams", sys.stdin, sys.stdout, sys.stderr)


show()
if "read" in sys.argv:
    print("stdin", repr(sys.stdin.read()))
sys.stderr.write("and on stderr\n")

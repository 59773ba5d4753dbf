"""Every instruction of Python calls of all kinds, and the stack there (frame_steps.c).

python frame_steps.py build LIBRARY [SOURCE [HEADERS]]
python frame_steps.py run LIBRARY RESULT [monitored | again]

`again`: twice before it is specialized.
RESULT: JSON, "callers": of each function the only one; "stacks": of each how often, its first
instructions, and the names, outermost first.
"""

import ctypes
import functools
import gc
import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
SOURCES = {
    "base": ["memread.c"],
    "unwind": ["cfi.c", "cfi_fde.c", "libraries.c", "libraries_update.c", "loader_lock.c"],
    "pyframes": [
        "instance_table.c",
        "join.c",
        "launcher.c",
        "pyframe.c",
        "pyframe_calibrate.c",
        "records.c",
    ],
}
SOURCES["unwind"] += ["rules.c", "stack_bounds.c", "unwind.c"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden"]
FLAGS += ["-fno-strict-aliasing", "-ftls-model=initial-exec"]
FLAGS += [f"-I{SRC / room}" for room in SOURCES]
FLAGS += ["-I", str(Path(__file__).parents[1] / "c")]
SOURCE, HEADERS = __file__.replace(".py", ".c"), sysconfig.get_path("include")


def build(library: str, source: str = SOURCE, headers: str = HEADERS) -> None:
    sources = [source, *(SRC / room / name for room in SOURCES for name in SOURCES[room])]
    command = ["gcc", *FLAGS, "-I", headers, "-shared", "-o", library, *sources]
    subprocess.run(command, check=True)


CALLERS = {"run": "<module>", "sums.<locals>.<genexpr>": "sums"}


def called_by(caller):
    def note(function):
        CALLERS[function.__qualname__] = caller
        return function

    return note


# Frames of several sizes come and go at the same places, so that stale links are plausible ones.


@called_by("main")
def small(x):
    return x


@called_by("main")
def large(x):
    a = b = c = d = e = f = g = h = x
    return [a, b, c, d, e, f, g, h]


@called_by("main")
def outer(x):
    a = b = c = inner_small(x)
    return inner(a) + b + c


@called_by("outer")
def inner_small(x):
    return x


@called_by("outer")
def inner(x):
    return innermost(x)


@called_by("inner")
def innermost(x):
    return x


class Slots:
    @called_by("main")
    def __init__(self, x):
        self.x = in_init(x)

    @property
    @called_by("main")
    def value(self):
        return in_property(self.x)

    @called_by("main")
    def __getitem__(self, i):
        return in_item(i)

    @called_by("main")
    def __call__(self, x):
        return in_call(x)

    @called_by("main")
    def __getattr__(self, name):
        return in_attribute(name)

    @called_by("main")
    def __enter__(self):
        return in_enter(self)

    @called_by("main")
    def __exit__(self, *_exception):
        in_exit(1)


@called_by("Slots.__init__")
def in_init(x):
    return x


@called_by("Slots.value")
def in_property(x):
    return x


@called_by("Slots.__getitem__")
def in_item(x):
    return x


@called_by("Slots.__call__")
def in_call(x):
    return x


@called_by("Slots.__getattr__")
def in_attribute(x):
    return x


@called_by("Slots.__enter__")
def in_enter(x):
    return x


@called_by("Slots.__exit__")
def in_exit(x):
    return x


@called_by("main")
def unpacks(*args, **_named):
    return in_unpacks(args[0])


@called_by("unpacks")
def in_unpacks(x):
    return x


@called_by("main")
def consumes():
    return [in_consumes(each) for each in generates_3(3)]


@called_by("consumes")
def in_consumes(x):
    return x


@called_by("consumes")
def generates_3(n):
    for each in generates_2(n):  # noqa: UP028
        yield each


@called_by("generates_3")
def generates_2(n):
    yield from generates(n)


@called_by("generates_2")
def generates(n):
    for i in range(n):
        yield in_generates(i)


@called_by("generates")
def in_generates(x):
    return x


@called_by("main")
def abandons():
    half = is_abandoned(5)
    next(half)
    half.send(1)
    del half


@called_by("abandons")
def is_abandoned(n):
    try:
        for i in range(n):
            yield in_abandoned(i)
    finally:
        cleans_up(1)


@called_by("is_abandoned")
def in_abandoned(x):
    return x


@called_by("is_abandoned")
def cleans_up(x):
    return x


@called_by("main")
def throws():
    delegating = delegates()
    next(delegating)
    delegating.throw(ValueError)
    list(delegating)


@called_by("throws")
def delegates():
    yield from is_thrown_into()


@called_by("delegates")
def is_thrown_into():
    try:
        yield 1
    except ValueError:
        yield after_throw(1)


@called_by("is_thrown_into")
def after_throw(x):
    return x


@called_by("main")
def sums():
    return sum(each_of(each) for each in range(3))


@called_by("sums.<locals>.<genexpr>")
def each_of(x):
    return x


@called_by("main")
def catches():
    try:
        raises_further(1)
    except ValueError:
        after_catch(1)


@called_by("catches")
def after_catch(x):
    return x


@called_by("catches")
def raises_further(x):
    raises(x)


@called_by("raises_further")
def raises(x):
    before_raise(x)
    raise ValueError


@called_by("raises")
def before_raise(x):
    return x


@called_by("main")
def through_c():
    list(map(mapped, range(3)))
    sorted([3, 1, 2], key=sorted_by)


@called_by("through_c")
def mapped(x):
    return in_mapped(x)


@called_by("mapped")
def in_mapped(x):
    return x


@called_by("through_c")
def sorted_by(x):
    return x


@called_by("main")
def drives():
    try:
        coroutine_1().send(None)
    except StopIteration:
        after_coroutine(1)


@called_by("drives")
def after_coroutine(x):
    return x


@called_by("drives")
async def coroutine_1():
    async with Asynchronous() as each:
        pass
    return await coroutine_2() + each


class Asynchronous:
    @called_by("coroutine_1")
    async def __aenter__(self):
        return in_aenter(1)

    @called_by("coroutine_1")
    async def __aexit__(self, *_exception):
        return None


@called_by("Asynchronous.__aenter__")
def in_aenter(x):
    return x


@called_by("coroutine_1")
async def coroutine_2():
    return await coroutine_3()


@called_by("coroutine_2")
async def coroutine_3():
    return in_coroutine(1)


@called_by("coroutine_3")
def in_coroutine(x):
    return x


@called_by("main")
def recurses(n):
    return 1 + recurses_further(n) if n else 0


@called_by("recurses")
def recurses_further(n):
    return recurses_again(n - 1)


@called_by("recurses_further")
def recurses_again(n):
    return in_recursion(n)


@called_by("recurses_again")
def in_recursion(n):
    return n


@called_by("main")
def builds():
    list(displays(1, 2, [3, 4]))


@called_by("builds")
def displays(a, b, c):
    """A generator, whose frame is no neighbour of its caller's.  While 3.12 builds a set, it counts
    in the register that has the frame else."""
    yield {a}, {a, b}, {a, b, in_display(a)}, {*c, a}, [a, b], [*c, a], (a, *c), slice(a, b)
    yield (
        {a: b, b: a},
        {**NAMED, b: a},
        {x: x + b for x in c},
        [x + b for x in c],
        {x + b for x in c},
    )
    yield f"{a}{b!r}{a:>3}", f"{a}", c[a:b], c[a - 1], a < b < 3, not a, -b, a is b, a in c
    d, *e = c
    (f, g), c[0], c[0:1] = (a, d), b, e
    match [f, g]:
        case [int(), 3]:
            yield lambda: f
        case {"a": _} | None:
            pass
    del d


@called_by("displays")
def in_display(x):
    return x


EXECUTED = compile("in_exec(3)", "executed", "exec").replace(co_qualname="executed")
CALLERS["executed"] = "executes"


@called_by("main")
def executes():
    exec(EXECUTED, globals())


@called_by("executed")
def in_exec(x):
    return x


NUMBERS, NAMED = (1, 2), {"b": 3}


@called_by("run")
def main(rounds):
    for each in range(rounds):
        outer(each)
        slots = Slots(3)
        large(1)
        slots.value, slots[1], slots(2), slots.other
        small(1)
        with slots:
            pass
        unpacks(1, 2, a=3)
        consumes()
        builds()
        unpacks(*NUMBERS, **NAMED)
        large(1)
        abandons()
        throws()
        large(1)
        catches()
        sums()
        through_c()
        small(1)
        drives()
        recurses(3)
        large(1)
        executes()


def monitors(listener) -> None:
    """All that is instrumented takes the eval loop's other ways; a C function hears of it."""
    monitoring = sys.monitoring
    monitoring.use_tool_id(3, "steps")
    events = 0
    for event in ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "CALL", "LINE", "PY_UNWIND"):
        number = getattr(monitoring.events, event)
        monitoring.register_callback(3, number, listener)
        events |= number
    monitoring.set_events(3, events)


def run(library: str, result: str, how: str) -> None:
    steps = ctypes.PyDLL(library)
    steps.steps_init.restype = ctypes.c_char_p
    steps.steps_listener.restype = ctypes.py_object
    steps.steps_run.argtypes = [ctypes.py_object]
    wrong = steps.steps_init()
    if wrong:
        sys.exit(wrong.decode())
    gc.disable()
    lost = 0
    if how == "monitored":
        monitors(steps.steps_listener())
    else:
        lost += steps.steps_run(functools.partial(main, 2 if how == "again" else 1))
    main(100)  # specialized now, and compiled
    lost += steps.steps_run(functools.partial(main, 1))
    if lost:
        sys.exit(f"{lost} stacks found no room")
    with tempfile.NamedTemporaryFile() as written:
        steps.steps_write(written.name.encode())
        lines = Path(written.name).read_text().splitlines()
    stacks = [[int(count), places, names] for count, places, *names in map(str.split, lines)]
    Path(result).write_text(json.dumps({"callers": CALLERS, "stacks": stacks}))


if sys.argv[1] == "build":
    build(*sys.argv[2:])
else:
    run(sys.argv[2], sys.argv[3], "".join(sys.argv[4:]))

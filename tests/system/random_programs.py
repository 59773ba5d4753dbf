"""Random programs of calls, generators and exceptions: their source, and what happens in them.

A program is a list of functions, a function a list of actions (tuples).  Any function may call any
other one: the program's fuel bounds it, each action takes one.  `source` is the program in Python;
`Model` carries the same actions out on paper and knows what CPython's frames do meanwhile, so its
counts are the truth for the exact half: path of functions and regions -> calls, resumes, raised.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

FUEL = 40
ROUNDS = 4  # the same again: the interpreter specializes what runs more than once

# How a function is called: the expression, `{}` being the function's name, and how often it runs.
CALLS = {
    "plain": ("{f}(1, 2, 3, 4)", 1),
    "partial": ("functools.partial({f}, 1)()", 1),
    "sorted": ("sorted([1], key={f})", 1),
    "max": ("max([[1]], key={f})", 1),
    "map": ("list(map({f}, [1, 2]))", 2),
    "filter": ("[*filter({f}, (1, 2))]", 2),
    "reduce": ("functools.reduce({f}, [1, 2, 3])", 2),
    "sub": ("NAME.sub({f}, 'a b')", 2),
    "property": ("{f}_type().value", 1),
    "getattr": ("{f}_type().missing", 1),
    "getitem": ("{f}_type()[1]", 1),
    "call": ("{f}_type()()", 1),
    "init": ("{f}_init()", 1),
    "eq": ("{f}_type() == 1", 1),
    "del": ("{f}_del()", 1),
    "thread": ("in_thread({f})", 1),
}
# How a generator is made and used up.
DRAINS = {
    "list": "list({g}())",
    "star": "[*{g}()]",
    "comprehension": "[None for _ in {g}()]",
    "any": "any({g}())",
    "map": "tuple(map(bool, {g}()))",
}
ERRORS = ("E0", "E0", "E0", "E1", "E2")
HANDLERS = (*ERRORS, "BaseException")

PRELUDE = """\
import functools, gc, json, re, sys, _thread
from pyhybrid import region
gc.disable()
sys.unraisablehook = repr
NAME = re.compile("[a-z]")
LOG = []
L = LOG.append
F = [0]
G = []
E0, E1, E2 = [type(name, (Exception,), {}) for name in ("E0", "E1", "E2")]
def thread_main(f, done):
    try:
        f()
    except BaseException:
        pass
    finally:
        done.release()
def in_thread(f):
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(thread_main, (f, done))
    done.acquire()
"""

Actions = list[tuple[Any, ...]]


@dataclass
class Program:
    plain: list[Actions]
    generators: list[Actions]


# --- making them --------------------------------------------------------------------------------


@st.composite
def _actions(draw: st.DrawFn, program: tuple[int, int], generator: bool, depth: int = 0) -> Actions:
    n_plain, n_generators = program
    kinds = ["call"] * 4 + ["raise", "return", "drain", "peek", "new", "next", "next"]
    kinds += ["send", "throw", "throw", "throws", "throws", "close"]
    if depth < 2:
        kinds += ["try", "try", "finally", "for", "for", "with", "region", "region", "genexpr"]
    if generator:
        kinds += ["yield"] * 5 + ["from"] * 4 + ["from_map"] + ["catch"] * 4
    small = st.integers(0, 7)
    function, other = st.integers(0, n_plain - 1), st.integers(0, n_generators - 1)
    inside = _actions(program, generator, depth + 1)
    made: Actions = []
    for kind in draw(
        st.lists(st.sampled_from(kinds), min_size=(2, 0, 0)[depth], max_size=(7, 4, 3)[depth])
    ):
        match kind:
            case "call":
                values = (draw(st.sampled_from(list(CALLS))), draw(function))
            case "raise" | "catch":
                values = (draw(st.sampled_from(ERRORS)),)
            case "drain":
                values = (draw(st.sampled_from(list(DRAINS))), draw(other))
            case "throws":
                values = (draw(other), draw(st.sampled_from(ERRORS)))
            case "peek" | "new" | "from":
                values = (draw(other),)
            case "next" | "send" | "close":
                values = (draw(small),)
            case "throw":
                values = (draw(small), draw(st.sampled_from(ERRORS)))
            case "try":
                values = (draw(inside), draw(st.sampled_from(HANDLERS)), draw(inside))
            case "finally":
                values = (draw(inside), draw(inside))
            case "for":
                values = (draw(other), draw(st.integers(1, 3)), draw(inside))
            case "region":
                values = (draw(st.sampled_from(REGIONS)), draw(inside))
            case "with":
                values = (draw(function), draw(function), draw(inside))
            case "genexpr" | "from_map":
                values = (draw(function),)
            case _:
                values = ()
        made.append((kind, *values))
    return made


@st.composite
def programs(draw: st.DrawFn) -> Program:
    sizes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Program(
        [draw(_actions(sizes, False)) for _ in range(sizes[0])],
        [draw(_actions(sizes, True)) for _ in range(sizes[1])],
    )


# --- as source ----------------------------------------------------------------------------------


def _lines(actions: Actions, p: str, name: str, depth: int = 0) -> Iterator[str]:
    """`p` begins the names of the program's functions; `name` is the function that these lines are
    of; `depth` is that of its loops."""
    if not actions:
        yield "pass"
    for kind, *values in actions:
        yield "if F[0] > 0:"
        yield "    F[0] -= 1"
        for line in _action(kind, values, p, name, depth):
            yield "    " + line


def _on_old_generator(k: int, operation: str) -> list[str]:
    """Of the generators made before, the one with this number, if it does not run."""
    return [
        f"if G and not G[{k} % len(G)].gi_running:",
        "    try:",
        f"        G[{k} % len(G)].{operation}",
        "    except StopIteration:",
        "        pass",
    ]


def _block(head: str, actions: Actions, p: str, name: str, depth: int) -> list[str]:
    return [head, *("    " + line for line in _lines(actions, p, name, depth))]


def _action(kind: str, values: list[Any], p: str, name: str, depth: int) -> list[str]:
    match kind, *values:
        case "call", how, f:
            return [CALLS[how][0].format(f=f"{p}f{f}")]
        case "raise", error:
            return [f"raise {error}"]
        case ("return",):
            return ["return"]
        case "drain", how, g:
            return [DRAINS[how].format(g=f"{p}g{g}")]
        case "peek", g:
            return [f"next({p}g{g}(), None)"]
        case "new", g:
            return [f"G.append({p}g{g}())"]
        case "next", k:
            return [f"if G and not G[{k} % len(G)].gi_running:", f"    next(G[{k} % len(G)], None)"]
        case "send", k:
            # Only None may be sent to one that has not started.
            return _on_old_generator(k, "send(None)")
        case "throw", k, error:
            return _on_old_generator(k, f"throw({error})")
        case "throws", g, error:
            lines = _on_old_generator(-1, f"throw({error})")
            return [
                f"G.append({p}g{g}())",
                "next(G[-1], None)",
                "for _ in range(3):",
                *("    " + line for line in lines),
            ]
        case "close", k:
            return _on_old_generator(k, "close()")
        case "try", body, error, handler:
            return [
                *_block("try:", body, p, name, depth),
                *_block(f"except {error}:", handler, p, name, depth),
            ]
        case "finally", body, last:
            return [
                *_block("try:", body, p, name, depth),
                *_block("finally:", last, p, name, depth),
            ]
        case "for", g, most, body:
            return [
                f"n{depth} = 0",
                *_block(f"for _ in {p}g{g}():", body, p, name, depth + 1),
                f"    n{depth} += 1",
                f"    if n{depth} >= {most}:",
                "        break",
            ]
        case "with", enter, leave, body:
            return _block(f"with {p}with_{enter}_{leave}():", body, p, name, depth)
        case "region", region, body:
            return _block(f"with region('{region}'):", body, p, name, depth)
        case "genexpr", f:
            return [f"any({p}f{f}() for _ in (1, 2))"]
        case ("yield",):
            return ["yield", f"L('{name} again')"]
        case "catch", error:
            lines = ["try:", "    yield", f"except {error}:", "    pass"]
            return ["for _ in range(3):", *("    " + line for line in lines)]
        case "from", g:
            return [f"yield from {p}g{g}()"]
        case "from_map", f:
            return [f"yield from map({p}f{f}, (1, 2))"]
    raise AssertionError(kind)


def source(all_programs: list[Program]) -> str:
    """All of them, one after the other, in one file; the log of what ran goes to log.json."""
    lines = [PRELUDE]
    for number, program in enumerate(all_programs):
        p = f"p{number}"
        for i, actions in enumerate(program.plain):
            f = f"{p}f{i}"
            lines += [f"def {f}(a=None, b=None, c=None, d=None):", f"    L('{f}')"]
            lines += ["    " + line for line in _lines(actions, p, f)]
            names = ("__getattr__", "__getitem__", "__call__", "__eq__")
            members = ", ".join(f"'{name}': {f}" for name in names)
            lines.append(f"{f}_type = type('T', (), {{{members}, 'value': property({f})}})")
            lines.append(f"{f}_init = type('T', (), {{'__init__': {f}}})")
            lines.append(f"{f}_del = type('T', (), {{'__del__': {f}}})")
        for i, actions in enumerate(program.generators):
            g = f"{p}g{i}"
            lines += [f"def {g}():", f"    L('{g}')", "    if False: yield"]
            lines += ["    " + line for line in _lines(actions, p, g)]
        for i in range(len(program.plain)):
            for j in range(len(program.plain)):
                members = f"'__enter__': {p}f{i}, '__exit__': {p}f{j}"
                lines.append(f"{p}with_{i}_{j} = type('T', (), {{{members}}})")
        lines.append(MAIN.format(p=p, fuel=FUEL, rounds=ROUNDS))
    return "\n".join(
        [*lines, "with open('log.json', 'w') as file:", "    json.dump(LOG, file)", ""]
    )


MAIN = """\
def {p}main():
    F[0] = {fuel}
    try:
        {p}f0()
    except BaseException:
        pass
    F[0] = 0  # from here on all that is closed ends at once
    for g in G:
        try:
            g.close()
        except BaseException:
            pass
    G.clear()
for _ in range({rounds}):
    {p}main()
"""


# --- what happens -------------------------------------------------------------------------------


def closes_silently() -> bool:
    """Is a generator that waits at a `yield` outside of any `try` closed without being resumed?

    3.13 does so; 3.14 not where somebody listens for PY_UNWIND (_PyEval_NoToolsForUnwind)."""
    tool, event, heard = 5, sys.monitoring.events.PY_UNWIND, []
    sys.monitoring.use_tool_id(tool, "closes_silently")
    sys.monitoring.register_callback(tool, event, lambda *_: heard.append(1))
    sys.monitoring.set_events(tool, event)
    waiting = (n for n in [1])
    next(waiting)
    waiting.close()
    sys.monitoring.set_events(tool, 0)
    sys.monitoring.register_callback(tool, event, None)
    sys.monitoring.free_tool_id(tool)
    return not heard


SILENT_CLOSE = closes_silently()

Path = tuple[str, ...]


@dataclass
class Truth:
    calls: int = 0
    resumes: int = 0
    raised: int = 0


REGIONS = ("r0", "r1")
MAY_YIELD = ("try", "finally", "for", "with", "region", "yield", "catch", "from", "from_map")


class Raised(Exception):
    """An exception of the program's."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def matches(self, handler: str) -> bool:
        return handler in ("BaseException", self.kind)


class Returned(Exception):
    """A `return` statement on its way out."""


@dataclass
class Model:
    """Programs, carried out.  The body of each function is a (real) generator, which yields where
    that of the program does; `path` is the functions that run."""

    counts: dict[Path, Truth] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    path: Path = ()
    fuel: int = 0
    made: list[Generator] = field(default_factory=list)  # by the program, kept by it
    kept: list[Generator] = field(default_factory=list)  # all: that Python may not close one

    def run(self, number: int, program: Program) -> None:
        self.program, self.prefix = program, f"p{number}"
        for _ in range(ROUNDS):
            self.fuel = FUEL
            self.path = (f"{self.prefix}main",)
            self.count().calls += 1
            with contextlib.suppress(Raised):
                self.call(0)
            self.fuel = 0
            for generator in self.made:
                with contextlib.suppress(Raised):
                    generator.close()
            self.made.clear()

    def count(self) -> Truth:
        return self.counts.setdefault(self.path, Truth())

    def call(self, number: int) -> None:
        outside = self.path
        self.path = (*outside, f"{self.prefix}f{number}")
        count = self.count()
        count.calls += 1
        self.log.append(self.path[-1])
        try:
            for _ in self.body(None, self.program.plain[number], 0):
                raise AssertionError
        except Returned:
            pass
        except Raised:
            count.raised += 1
            self.path = outside
            raise
        self.path = outside

    def body(self, me: Generator | None, actions: Actions, depth: int) -> Iterator[None]:
        """`me`: the generator whose body it is; `depth`: of handlers around."""
        for kind, *values in actions:
            if self.fuel > 0:
                self.fuel -= 1
                if kind in MAY_YIELD:
                    yield from getattr(self, f"do_{kind}")(me, depth, *values)
                else:
                    getattr(self, f"do_{kind}")(*values)

    def do_call(self, how: str, number: int) -> None:
        try:
            if how == "thread":
                self.in_thread(number)
                return
            for _ in range(CALLS[how][1]):
                self.call(number)
        except Raised:
            if how != "del":
                raise

    def in_thread(self, number: int) -> None:
        outside = self.path
        self.path = (*outside, "in_thread")
        self.count().calls += 1
        self.path = ("thread_main",)
        self.count().calls += 1
        with contextlib.suppress(Raised):
            self.call(number)
        self.path = outside

    def do_raise(self, error: str) -> None:
        raise Raised(error)

    def do_return(self) -> None:
        raise Returned

    def do_drain(self, how: str, number: int) -> None:
        generator = Generator(self, number)
        while generator.resume():
            pass

    def do_peek(self, number: int) -> None:
        generator = Generator(self, number)
        generator.resume()
        generator.drop()

    def do_new(self, number: int) -> None:
        self.made.append(Generator(self, number))

    def old(self, k: int) -> Generator | None:
        generator = self.made[k % len(self.made)] if self.made else None
        return generator if generator and not generator.running else None

    def do_next(self, k: int) -> None:
        if generator := self.old(k):
            generator.resume()

    do_send = do_next

    def do_throw(self, k: int, error: str) -> None:
        if generator := self.old(k):
            generator.throw(Raised(error))

    def do_throws(self, number: int, error: str) -> None:
        self.made.append(Generator(self, number))
        self.made[-1].resume()
        for _ in range(3):
            if generator := self.old(-1):
                generator.throw(Raised(error))

    def do_close(self, k: int) -> None:
        if generator := self.old(k):
            generator.close()

    def do_genexpr(self, number: int) -> None:
        outside = self.path
        function = next(name for name in reversed(outside) if name not in REGIONS)
        self.path = (*outside, f"{function}.<locals>.<genexpr>")
        count = self.count()
        count.calls += 1
        try:
            for _ in range(2):
                self.call(number)
                count.resumes += 1
        except Raised:
            count.raised += 1
            raise
        finally:
            self.path = outside

    def do_try(
        self, me: Generator | None, depth: int, body: Actions, error: str, handler: Actions
    ) -> Iterator[None]:
        try:
            yield from self.body(me, body, depth + 1)
            return
        except Raised as raised:
            if not raised.matches(error):
                raise
        yield from self.handle(me, handler, depth + 1)

    def handle(self, me: Generator | None, body: Actions, depth: int) -> Iterator[None]:
        """What is done while an exception is."""
        if me:
            me.handling += 1
        try:
            yield from self.body(me, body, depth)
        finally:
            if me:
                me.handling -= 1

    def do_finally(
        self, me: Generator | None, depth: int, body: Actions, last: Actions
    ) -> Iterator[None]:
        try:
            yield from self.body(me, body, depth + 1)
        except Raised:
            yield from self.handle(me, last, depth + 1)
            raise
        except Returned:
            yield from self.body(me, last, depth)
            raise
        yield from self.body(me, last, depth)

    def do_with(
        self, me: Generator | None, depth: int, enter: int, leave: int, body: Actions
    ) -> Iterator[None]:
        self.call(enter)
        try:
            yield from self.body(me, body, depth + 1)
        except (Raised, Returned):
            self.call(leave)
            raise
        self.call(leave)

    def do_region(
        self, me: Generator | None, depth: int, name: str, body: Actions
    ) -> Iterator[None]:
        regions = me.regions if me else []
        regions.append(name)
        self.path = (*self.path, name)
        self.count().calls += 1
        try:
            yield from self.body(me, body, depth + 1)
        except (Raised, Returned):
            self.leave(regions)
            raise
        self.leave(regions)

    def leave(self, regions: list[str]) -> None:
        assert self.path[-1] == regions.pop()
        self.path = self.path[:-1]

    def do_for(
        self, me: Generator | None, depth: int, number: int, most: int, body: Actions
    ) -> Iterator[None]:
        generator = Generator(self, number)
        held = me.held if me else []
        held.append(generator)
        turns = 0
        try:
            while turns < most and generator.resume():
                yield from self.body(me, body, depth)
                turns += 1
        except (Raised, Returned):
            held.remove(generator)
            generator.drop()
            raise
        held.remove(generator)
        generator.drop()

    def do_yield(self, me: Generator, depth: int) -> Iterator[None]:
        me.depth = depth
        yield
        self.log.append(f"{me.name} again")

    def do_catch(self, me: Generator, depth: int, error: str) -> Iterator[None]:
        for _ in range(3):
            me.depth = depth + 1
            try:
                yield
            except Raised as raised:
                if raised.kind != error:
                    raise

    def do_from(self, me: Generator, depth: int, number: int) -> Iterator[None]:
        inner = me.inner = Generator(self, number)
        me.held.append(inner)
        try:
            while not inner.ended and inner.resume():
                yield
        except Raised:
            me.inner = None
            me.held.remove(inner)
            inner.drop()
            raise
        me.inner = None
        me.held.remove(inner)

    def do_from_map(self, me: Generator, depth: int, number: int) -> Iterator[None]:
        for _ in range(2):
            self.call(number)
            me.depth = depth + 1
            yield


class Generator:
    """One of the program's generators."""

    def __init__(self, model: Model, number: int) -> None:
        self.model = model
        self.name = f"{model.prefix}g{number}"
        self.body = model.body(self, model.program.generators[number], 0)
        self.begun = self.ended = self.running = False
        self.depth = 0  # of handlers where it waits
        self.handling = 0  # exceptions whose handlers run
        self.inner: Generator | None = None  # that of `yield from`
        self.held: list[Generator] = []  # on its own stack: loops, `yield from`
        self.regions: list[str] = []  # that it is in
        model.kept.append(self)

    def _turn(self, thrown: Raised | None) -> bool:
        """Until the next `yield` (True) or the end."""
        model, outside = self.model, self.model.path
        model.path = (*outside, self.name)
        count = model.count()
        if self.begun or thrown:
            count.resumes += 1
        else:
            count.calls += 1
            model.log.append(self.name)
        try:
            self.running = True
            self.enter_regions()
            if thrown:
                self.body.throw(thrown)
            else:
                self.begun = True
                next(self.body)
            return True
        except (StopIteration, Returned):
            self.ended = True
            return False
        except Raised:
            self.ended = True
            count.raised += 1
            raise
        finally:
            self.running = False
            model.path = outside

    def enter_regions(self) -> None:
        """Again: they are suspended with it."""
        for name in self.regions:
            self.model.path = (*self.model.path, name)
            self.model.count().resumes += 1

    def resume(self) -> bool:
        return not self.ended and self._turn(None)

    def throw(self, error: Raised) -> bool:
        if self.ended:
            raise error
        if not self.inner:
            return self._turn(error)
        # CPython puts the outer one's frame below the inner one's, without an event.
        model, outside = self.model, self.model.path
        model.path = (*outside, self.name)
        model.count().resumes += 1
        self.running = True
        self.enter_regions()
        try:
            if self.inner.throw(error):
                return True
        except Raised as raised:
            error = raised
        else:
            error = None
        finally:
            self.running = False
            model.path = outside
        return self._turn(error)

    def close(self) -> None:
        if self.ended or not self.begun:
            self.ended = True
            return
        error = Raised("GeneratorExit")
        if self.inner:
            self.running = True
            try:
                self.inner.close()
            except Raised as raised:
                error = raised
            self.running = False
        elif SILENT_CLOSE and self.depth == 0:
            self.ended = True
            self._let_go()
            return
        try:
            if self._turn(error):
                raise Raised("RuntimeError")
        except Raised as raised:
            if raised.kind != "GeneratorExit":
                raise

    def drop(self) -> None:
        """Nobody has it any more."""
        try:
            self.close()
        except Raised:  # it goes on, and nobody hears of it
            # An exception being handled has the frame, and the frame has the exception: both stay.
            if not self.handling:
                self._let_go()

    def _let_go(self) -> None:
        for generator in self.held:
            generator.drop()
        self.held.clear()

"""Random programs of calls, generators and exceptions: their source, and what happens in them.

A program is a list of functions, a function a list of actions (tuples).  Any function may call any
other one: the program's fuel bounds it, each action takes one.  `source` is the program in Python;
`Model` carries the same actions out on paper and knows what CPython's frames do meanwhile, so its
counts are the truth for the exact half: path of functions and regions -> calls, resumes, raised.

They are the same each time, unless PYHYBRID_FUZZ_SEED says which ones: `make fuzz` draws others for
PYHYBRID_FUZZ_S seconds, and so does `make test-slice`, once.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

SEED = int(os.environ.get("PYHYBRID_FUZZ_SEED", "1"))
SECONDS = float(os.environ.get("PYHYBRID_FUZZ_S", "0"))
BATCHES, PROGRAMS = 6, 30  # at least so many batches, of so many programs

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


def _actions(draw: Random, program: tuple[int, int], generator: bool, depth: int = 0) -> Actions:
    kinds = ["call"] * 4 + ["raise", "return", "drain", "peek", "new", "next", "next"]
    kinds += ["send", "throw", "throw", "throws", "throws", "close"]
    if depth < 2:
        kinds += ["try", "try", "finally", "for", "for", "with", "region", "region", "genexpr"]
    if generator:
        kinds += ["yield"] * 5 + ["from"] * 4 + ["from_map"] + ["catch"] * 4

    def inside() -> Actions:
        return _actions(draw, program, generator, depth + 1)

    made: Actions = []
    for _ in range(draw.randint((2, 0, 0)[depth], (7, 4, 3)[depth])):
        function, other = (draw.randrange(n) for n in program)
        small, error = draw.randrange(8), draw.choice(ERRORS)
        values: tuple[Any, ...]
        match kind := draw.choice(kinds):
            case "call":
                values = (draw.choice(list(CALLS)), function)
            case "raise" | "catch":
                values = (error,)
            case "drain":
                values = (draw.choice(list(DRAINS)), other)
            case "throws":
                values = (other, error)
            case "peek" | "new" | "from":
                values = (other,)
            case "next" | "send" | "close":
                values = (small,)
            case "throw":
                values = (small, error)
            case "try":
                values = (inside(), draw.choice(HANDLERS), inside())
            case "finally":
                values = (inside(), inside())
            case "for":
                values = (other, draw.randint(1, 3), inside())
            case "region":
                values = (draw.choice(REGIONS), inside())
            case "with":
                values = (function, draw.randrange(program[0]), inside())
            case "genexpr" | "from_map":
                values = (function,)
            case _:
                values = ()
        made.append((kind, *values))
    return made


def batches(draw: int) -> Iterator[list[Program]]:
    """Of a test; `draw`: which of its draws."""
    end = time.monotonic() + SECONDS
    for number in itertools.count():
        if number >= BATCHES and time.monotonic() >= end:
            break
        random = Random(f"{SEED} {draw} {number}")
        yield [_program(random) for _ in range(PROGRAMS)]


def _program(draw: Random) -> Program:
    sizes = draw.randint(1, 3), draw.randint(1, 3)
    return Program(
        [_actions(draw, sizes, False) for _ in range(sizes[0])],
        [_actions(draw, sizes, True) for _ in range(sizes[1])],
    )


def smaller(program: Program) -> list[Program]:
    """It without a function's actions, without one action, or with what is inside of one instead of
    it: the smallest first."""
    found = []
    for functions in ("plain", "generators"):
        bodies = getattr(program, functions)
        for i, body in enumerate(bodies):
            less = [[], *_fewer(body)] if body else []
            found += [
                replace(program, **{functions: [*bodies[:i], each, *bodies[i + 1 :]]})
                for each in less
            ]
    return sorted(found, key=lambda each: len(repr(each)))


def _fewer(actions: Actions) -> Iterator[Actions]:
    for i, action in enumerate(actions):
        before, after = actions[:i], actions[i + 1 :]
        yield before + after
        for j, value in enumerate(action):
            if isinstance(value, list):
                yield before + value + after
                for less in _fewer(value):
                    yield [*before, (*action[:j], less, *action[j + 1 :]), *after]


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


class Error:
    """An exception of the program's, and what it keeps alive: the frames of its traceback, and the
    exception that was handled when it was raised."""

    def __init__(self, kind: str, context: Error | None = None) -> None:
        self.kind = kind
        self.context = context
        self.frames: list[Frame] = []

    def matches(self, handler: str) -> bool:
        return handler in ("BaseException", self.kind)

    def chain(self, context: Error | None) -> None:
        """As CPython's _PyErr_SetObject does, which makes no circle."""
        older = context
        while older and older.context is not self:
            older = older.context
        if older:
            older.context = None
        self.context = context


class Frame:
    """What a function has on its stack: generators (of loops, of `yield from`) and errors.  That of
    a generator may outlive it: a traceback can have it.

    Frames and errors are freed when the program's are, since references to them are those that the
    program has: no variable keeps one meanwhile, and circles of them stay."""

    def __init__(self, *stack: Generator | Error | None) -> None:
        self.stack = list(stack)

    def __del__(self) -> None:
        while self.stack:
            item = self.stack.pop(0)
            if isinstance(item, Generator):
                item.drop()
            del item


class Raised(Exception):
    """An error, on its way to whoever takes it."""

    def __init__(self, error: Error) -> None:
        self.error = error
        self.args = ()  # or it would be there, too

    def take(self) -> Error:
        error = self.error
        del self.error
        return error


class State:
    """Of a thread, or of a generator: the error that it handles."""

    handled: Error | None = None


class Returned(Exception):
    """A `return` statement on its way out."""


class Function:
    """One that runs, or a generator."""

    def __init__(self, state: State, *stack: Error | None) -> None:
        self.state = state  # a function's is that of who called it
        self.frame: Frame | None = Frame(*stack)
        self.regions: list[str] = []  # that it is in

    def begin_handler(self, error: Error, again: bool) -> None:
        """`again`: the error is to be raised again, so it is kept on the stack; that of an `except`
        is not, unless another one is handled meanwhile."""
        self.frame.stack.append(self.state.handled)
        self.state.handled = error
        if again:
            self.frame.stack.append(error)

    def end_handler(self, again: bool) -> Error | None:
        error = self.frame.stack.pop() if again else None
        self.state.handled = self.frame.stack.pop()
        return error


@dataclass
class Model:
    """Programs, carried out.  The body of each function is a (real) generator, which yields where
    that of the program does; `path` is the functions that run."""

    counts: dict[Path, Truth] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    path: Path = ()
    fuel: int = 0
    states: list[State] = field(default_factory=lambda: [State()])  # of what runs, innermost last
    made: list[Generator] = field(default_factory=list)  # by the program, kept by it
    kept: list[Generator] = field(default_factory=list)  # all: that Python may not close one

    def run(self, number: int, program: Program) -> None:
        self.program, self.prefix = program, f"p{number}"
        collects = gc.isenabled()
        gc.disable()
        for _ in range(ROUNDS):
            self.fuel = FUEL
            self.path = (f"{self.prefix}main",)
            self.count().calls += 1
            self.swallow(self.call, 0)
            self.fuel = 0
            for generator in self.made:
                self.swallow(generator.close)
                assert generator.ended
            self.made.clear()
        for generator in self.kept:  # the program ends with these
            generator.ended = True
        if collects:
            gc.enable()

    def count(self) -> Truth:
        return self.counts.setdefault(self.path, Truth())

    def handled(self) -> Error | None:
        """What sys.exception() returns."""
        return next((state.handled for state in reversed(self.states) if state.handled), None)

    def swallow(self, call: Callable[..., None], *arguments: int) -> None:
        try:
            call(*arguments)
        except Raised as raised:
            raised.take()

    def call(self, number: int, argument: Error | None = None) -> None:
        outside = self.path
        self.path = (*outside, f"{self.prefix}f{number}")
        count = self.count()
        count.calls += 1
        self.log.append(self.path[-1])
        me = Function(self.states[-1], argument)
        del argument
        try:
            for _ in self.body(me, self.program.plain[number], 0):
                raise AssertionError
        except Returned:
            pass
        except Raised:
            count.raised += 1
            raise
        finally:
            self.path = outside
            me.frame = None

    def body(self, me: Function, actions: Actions, depth: int) -> Iterator[None]:
        """`me`: whose body it is; `depth`: of handlers around."""
        for kind, *values in actions:
            if self.fuel > 0:
                self.fuel -= 1
                try:
                    if kind in MAY_YIELD:
                        yield from getattr(self, f"do_{kind}")(me, depth, *values)
                    else:
                        getattr(self, f"do_{kind}")(*values)
                except Raised as raised:
                    raised.error.frames.append(me.frame)
                    raise

    def do_call(self, how: str, number: int) -> None:
        if how == "thread":
            self.in_thread(number)
        elif how == "del":
            self.swallow(self.call, number)
        else:
            for _ in range(CALLS[how][1]):
                self.call(number)

    def in_thread(self, number: int) -> None:
        outside, states = self.path, self.states
        self.path = (*outside, "in_thread")
        self.count().calls += 1
        self.path, self.states = ("thread_main",), [State()]
        self.count().calls += 1
        self.swallow(self.call, number)
        self.path, self.states = outside, states

    def do_raise(self, error: str) -> None:
        raise Raised(Error(error, self.handled()))

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
            generator.throw(Raised(Error(error)))

    def do_throws(self, number: int, error: str) -> None:
        self.made.append(Generator(self, number))
        self.made[-1].resume()
        for _ in range(3):
            if generator := self.old(-1):
                generator.throw(Raised(Error(error)))

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
        self, me: Function, depth: int, body: Actions, error: str, handler: Actions
    ) -> Iterator[None]:
        try:
            yield from self.body(me, body, depth + 1)
            return
        except Raised as raised:
            if not raised.error.matches(error):
                raise
            me.begin_handler(raised.take(), again=False)
        yield from self.handle(me, self.body(me, handler, depth + 1), again=False)

    def handle(self, me: Function, handler: Iterator[None], again: bool) -> Iterator[None]:
        """What is done while an error is handled."""
        try:
            yield from handler
        except (Raised, Returned):
            me.end_handler(again)
            raise
        if again:
            raise Raised(me.end_handler(again))
        me.end_handler(again)

    def do_finally(self, me: Function, depth: int, body: Actions, last: Actions) -> Iterator[None]:
        handles = returned = False
        try:
            yield from self.body(me, body, depth + 1)
        except Raised as raised:
            me.begin_handler(raised.take(), again=True)
            handles = True
        except Returned:
            returned = True
        if handles:
            yield from self.handle(me, self.body(me, last, depth + 1), again=True)
        else:
            yield from self.body(me, last, depth)
        if returned:
            raise Returned

    def do_with(
        self, me: Function, depth: int, enter: int, leave: int, body: Actions
    ) -> Iterator[None]:
        self.call(enter)
        try:
            yield from self.body(me, body, depth + 1)
        except Raised as raised:
            me.begin_handler(raised.take(), again=True)
        except Returned:
            self.call(leave)
            raise
        else:
            self.call(leave)
            return
        yield from self.handle(me, self.leave_with(me.state, leave), again=True)

    def leave_with(self, state: State, number: int) -> Iterator[None]:
        self.call(number, state.handled)
        yield from ()

    def do_region(self, me: Function, depth: int, name: str, body: Actions) -> Iterator[None]:
        me.regions.append(name)
        self.path = (*self.path, name)
        self.count().calls += 1
        try:
            yield from self.body(me, body, depth + 1)
        except (Raised, Returned):
            self.leave(me.regions)
            raise
        self.leave(me.regions)

    def leave(self, regions: list[str]) -> None:
        assert self.path[-1] == regions.pop()
        self.path = self.path[:-1]

    def do_for(
        self, me: Function, depth: int, number: int, most: int, body: Actions
    ) -> Iterator[None]:
        generator = Generator(self, number)
        me.frame.stack.append(generator)
        turns = 0
        try:
            while turns < most and generator.resume():
                yield from self.body(me, body, depth)
                turns += 1
        except (Raised, Returned):
            me.frame.stack.pop()
            generator.drop()
            raise
        me.frame.stack.pop()
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
                if raised.error.kind != error:
                    raise
                raised.take()

    def do_from(self, me: Generator, depth: int, number: int) -> Iterator[None]:
        inner = me.inner = Generator(self, number)
        me.frame.stack.append(inner)
        try:
            while not inner.ended and inner.resume():
                yield
        except Raised:
            me.inner = None
            me.frame.stack.pop()
            inner.drop()
            raise
        me.inner = None
        me.frame.stack.pop()

    def do_from_map(self, me: Generator, depth: int, number: int) -> Iterator[None]:
        for _ in range(2):
            self.call(number)
            me.depth = depth + 1
            yield


class Generator(Function):
    """One of the program's generators."""

    def __init__(self, model: Model, number: int) -> None:
        super().__init__(State())
        self.model = model
        self.name = f"{model.prefix}g{number}"
        self.body = model.body(self, model.program.generators[number], 0)
        self.begun = self.ended = self.running = False
        self.depth = 0  # of handlers where it waits
        self.inner: Generator | None = None  # that of `yield from`
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
        self.running = True
        self.enter_regions()
        model.states.append(self.state)
        try:
            if thrown:
                thrown.error.chain(model.handled())
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
            model.states.pop()
            model.path = outside
            if self.ended:
                self.let_go()

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
        error = Raised(Error("GeneratorExit"))
        if self.inner:
            self.running = True
            try:
                self.inner.close()
            except Raised as raised:
                error = raised
            self.running = False
        elif SILENT_CLOSE and self.depth == 0:
            self.ended = True
            self.let_go()
            return
        try:
            if self._turn(error):
                raise Raised(Error("RuntimeError", self.model.handled()))
        except Raised as raised:
            if raised.error.kind != "GeneratorExit":
                raise
            raised.take()

    def drop(self) -> None:
        """Nobody has it any more, so it is closed; if it goes on, nobody hears of that."""
        self.model.swallow(self.close)
        self.let_go()

    def let_go(self) -> None:
        self.frame = None
        self.state.handled = None

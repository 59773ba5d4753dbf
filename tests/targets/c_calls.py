"""Programs that call C functions a known number of times.

Each writes what is true as its last line, as JSON: {"calls": {name: [calls, raised]}, ...}.

python c_calls.py NAME [FOLDER]         FOLDER: where the extension `chain` is
"""

import contextlib
import functools
import json
import sys
import threading
import time
import types

if len(sys.argv) > 2:
    sys.path.insert(0, sys.argv[2])
    import chain


def key(x):
    return -abs(x)


def callbacks():
    """C that calls Python that calls C."""
    for _ in range(10):
        sorted(range(5), key=key)
        max(map(key, range(3)), default=sum([1]))
    functools.reduce(lambda a, b: min(a, b), [3, 1, 2])
    return {
        "calls": {
            "<built-in method builtins.sorted>": [10, 0],
            "<built-in method builtins.max>": [10, 0],
            "<built-in method builtins.sum>": [10, 0],
            "<built-in method builtins.abs>": [80, 0],
            "<built-in method builtins.min>": [2, 0],
            "<built-in method _functools.reduce>": [1, 0],
        }
    }


def raising():
    """By C, through C, and arguments that do not fit."""

    def fails(x):
        [].pop()

    for _ in range(7):
        for f in (lambda: [].pop(), lambda: sorted([1], key=fails), lambda: len(), lambda: len(3)):
            with contextlib.suppress(IndexError, TypeError):
                f()
        with contextlib.suppress(TypeError):
            len(*3)  # never called
    return {
        "calls": {
            "<method 'pop' of 'list' objects>": [14, 14],
            "<built-in method builtins.sorted>": [7, 7],
            "<built-in method builtins.len>": [14, 14],
        }
    }


def kinds():
    """The ways of calling, and what can be called."""

    class Python:
        def __init__(self):
            super().__init__()

        def __call__(self):
            return self

    class Bare(dict):
        pass

    append, method, args, nothing = [].append, types.MethodType(len, [1]), ([1],), {}
    for _ in range(6):
        append(1)  # bound
        [].append(1)
        list.append([], 1)
        [].append(*args)
        method()
        method(*())
        len(*args, **nothing)
        Python()()()
        Bare(a=1)
        Bare.__base__()
        object.__repr__(3)
        (3).__repr__()
        functools.partial(key, 1)()
    return {
        "calls": {
            "<method 'append' of 'list' objects>": [24, 0],
            "<built-in method builtins.len>": [18, 0],
            "<class 'super'>": [6, 0],
            "<slot wrapper '__init__' of 'object' objects>": [6, 0],
            # The subclass has no function of its own to make its objects, and no `vectorcall`.
            "<class 'dict'>": [12, 0],
            "<slot wrapper '__repr__' of 'object' objects>": [6, 0],
            "<slot wrapper '__repr__' of 'int' objects>": [6, 0],
            "<class 'functools.partial'>": [6, 0],
            "<slot wrapper '__call__' of 'functools.partial' objects>": [6, 0],
            "<built-in method builtins.abs>": [6, 0],
        }
    }


def generators():
    """C calls on both sides of suspensions, and a generator driven by C."""

    def inner():
        abs(1)
        got = yield abs(2)
        try:
            yield got
        except KeyError:
            abs(3)
        return abs(4)

    def outer():
        divmod((yield from inner()), 2)
        yield abs(5)

    for _ in range(20):
        g = outer()
        next(g)
        g.send(1)
        g.throw(KeyError)
        list(outer())
    return {
        "calls": {
            "<built-in method builtins.abs>": [20 * (5 + 4), 0],
            "<built-in method builtins.divmod>": [40, 0],
            "<built-in method builtins.next>": [20, 0],
            "<method 'send' of 'generator' objects>": [20, 0],
            "<method 'throw' of 'generator' objects>": [20, 0],
            "<class 'list'>": [20, 0],
        }
    }


def iterators():
    """The same function by a call, and by a loop that makes no call."""
    for _ in range(10):
        m = map(key, range(8))
        m.__next__()
        for _ in m:
            pass
    return {"calls": {"<slot wrapper '__next__' of 'map' objects>": [10, 0]}}


def threads():
    def work():
        for _ in range(100):
            divmod(7, 2)
            sorted([2, 1], key=key)

    all_threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return {
        "calls": {
            "<built-in method builtins.divmod>": [400, 0],
            "<built-in method builtins.sorted>": [400, 0],
        }
    }


def times():
    """What takes long: seconds at least."""

    def called_back():
        chain.spin(100_000)

    def work():
        chain.spin(200_000)
        chain.call_a(called_back)
        time.sleep(0.1)

    started = time.perf_counter()
    work()
    return {
        "calls": {
            "<built-in method chain.spin>": [2, 0],
            "<built-in method chain.call_a>": [1, 0],
            "<built-in method time.sleep>": [1, 0],
        },
        "seconds": {
            "<built-in method chain.spin>": 0.3,
            "<built-in method chain.call_a>": 0.1,
            "<built-in method time.sleep>": 0.1,
        },
        "wall": time.perf_counter() - started,
    }


print(json.dumps(globals()[sys.argv[1]]()))

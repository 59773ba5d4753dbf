"""Functions whose lines say how often they are begun: `#: N`; a line without it never is.

What stands there is what LINE events mean: a `with` line is begun again at its end, a loop that is
all on one line once, the first line of a call in several lines again for the call itself.  `#: ?`
differs between versions of CPython.
"""

import asyncio
import contextlib
import threading


def loops(n):
    total = 0  #: 1
    for i in range(n):  #: 9
        if i % 3 == 0:  #: 9
            continue  #: 3
        elif i == 8:  #: 6
            break  #: 1
        total += i  #: 5
    else:
        total = -1
    while total > 17:  #: 3
        total -= 1  #: 2
    return total  #: 1


def one_line():
    total = 0  #: 1
    # fmt: off
    for i in range(100): total += i  #: 1
    # fmt: on
    return total  #: 1


def fails(n):
    if n:  #: 8
        raise KeyError(n)  #: 4
    return n  #: 4


def handles():
    n = 0  #: 4
    try:  #: 4
        fails(n)  #: 4
        fails(n + 1)  #: 4
        n += 1
    except ValueError:  #: 4
        n = 100
    except KeyError:  #: 4
        n = 2  #: 4
    else:
        n = 3
    finally:
        n += 1  #: 4
    return n  #: 4


def passes_through():
    try:  #: 1
        fails_later()  #: 1
    finally:
        done = True  #: 1
    return done


def fails_later():
    with contextlib.suppress(ValueError):  #: 2
        raise LookupError  #: 1
    return 1


def with_statement():
    with contextlib.nullcontext() as x:  #: 2
        x = 1  #: 1
    with contextlib.suppress(KeyError):  #: 2
        raise KeyError  #: 1
    return x  #: 1


def comprehensions():
    squares = [  #: ?
        i * i  #: 10
        for i in range(10)  #: ?
        if i >= 0  #: 10
    ]
    pairs = {k: k for k in range(2)}  #: 1
    later = (  #: ?
        x + 1  #: 10
        for x in squares  #: ?
    )
    return sum(later), pairs  #: 1


def numbers(n):
    for i in range(n):  #: 3
        yield i  #: 3
    return


def closes_early():
    it = numbers(10)  #: 1
    next(it)  #: 1
    next(it)  #: 1
    next(it)  #: 1
    it.close()  #: 1


def delegates():
    x = yield from inner()  #: 2
    while x:  #: 3
        x -= yield 1  #: 2


def inner():
    try:  #: 1
        yield 1  #: 1
    except KeyError:  #: 1
        got = 2  #: 1
    return got  #: 1


def throws():
    it = delegates()  #: 1
    next(it)  #: 1
    it.throw(KeyError)  #: 1
    for _ in range(1):  #: 2
        it.send(1)  #: 1
    with contextlib.suppress(StopIteration):  #: 2
        it.send(1)  #: 1


def factorial(n):
    if n < 2:  #: 10
        return 1  #: 1
    return n * factorial(n - 1)  #: 9


async def waits(n):
    for _ in range(n):  #: 8
        await asyncio.sleep(0)  #: 6
    async with asyncio.Lock():  #: 4
        pass  #: 2
    async for i in ticks(3):  #: 8
        assert i < 3  #: 6
    return n  #: 2


async def ticks(n):
    for i in range(n):  #: 8
        yield i  #: 6


async def both():
    return await asyncio.gather(waits(3), waits(3))  #: 1


def in_threads(n):
    total = 0  #: 4
    for i in range(n):  #: 404
        total += i  #: 400
    return total  #: 4


def chooses(x):
    match x:  #: 3
        case 1:  #: 3
            return "one"  #: 1
        case [a, _]:  #: 2
            return a  #: 1
        case _:  #: 1
            pass  #: 1
    return (lambda: x)()  #: 2


def many(
    *values,
):
    """A docstring is no line."""
    result = max(  #: 6
        1,  #: 2
        *values,  #: 2
    )
    return result  #: 2


def run():
    loops(10)
    one_line()
    for _ in range(4):
        handles()
    with contextlib.suppress(LookupError):
        passes_through()
    with_statement()
    comprehensions()
    closes_early()
    throws()
    factorial(10)
    asyncio.run(both())
    threads = [threading.Thread(target=in_threads, args=(100,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x in (1, [2, 3], 4):
        chooses(x)
    many(1)
    many(1, 2)


if __name__ == "__main__":
    run()

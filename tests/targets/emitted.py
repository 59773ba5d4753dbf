"""Calls of all kinds, for live outputs: known names, begins and ends."""

import contextlib
import threading

import pyhybrid


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def numbers():
    yield 1
    yield 2


def fails():
    raise ValueError


def odd():
    with pyhybrid.region("\x1b[31mepoch"):
        fib(1)


def main():
    list(numbers())
    fib(5)
    with contextlib.suppress(ValueError):
        fails()
    odd()
    thread = threading.Thread(target=fib, args=(2,), name="wor\nker")
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()

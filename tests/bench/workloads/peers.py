"""What peers.py runs beside examples/train.py: Python functions that call each other, 2 s or so."""


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def key(n):
    return fib(n % 12)


for _ in range(30):
    fib(24)
    sorted(range(6000), key=key)

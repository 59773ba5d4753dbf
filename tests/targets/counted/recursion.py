"""Plain, mutual and deep recursion."""


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def deep(n):
    return n and deep(n - 1)


def hanoi(n, a, b, c):
    if n:
        hanoi(n - 1, a, c, b)
        hanoi(n - 1, c, b, a)


fib(15)
even(100)
deep(800)
hanoi(7, "a", "b", "c")

"""Closures, nested functions, defaults, keyword arguments, functions made in a loop."""


def counter():
    n = 0

    def step(by=1):
        nonlocal n
        n += by
        return n

    return step


def compose(*functions):
    def composed(x):
        for function in functions:
            x = function(x)
        return x

    return composed


def curried(a):
    def with_b(b):
        def with_c(c):
            return a + b + c

        return with_c

    return with_b


steps = [counter() for _ in range(20)]
for step in steps:
    step()
    step(by=2)
    step(*[3])
    step(**{"by": 4})
pipeline = compose(*steps, lambda x: -x, curried(1)(2))
[pipeline(i) for i in range(10)]

"""Exceptions: raised, caught on the way, in `finally`, `__init__`, generators and callbacks."""


class Refused(Exception):
    def __init__(self, n):
        super().__init__(n)
        self.n = n


class Broken:
    def __init__(self, n):
        fail(n)


def fail(n):
    raise Refused(n)


def through(n):
    try:
        fail(n) if n == 0 else through(n - 1)
    finally:
        cleanup()


def cleanup():
    pass


def caught(n):
    try:
        through(n)
    except Refused as error:
        return error.n


def failing_generator(n):
    for i in range(n):
        yield i
    fail(n)


def failing_key(x):
    if x == 7:
        fail(x)
    return x


for i in range(20):
    caught(i)
    try:
        Broken(i)
    except Refused:
        pass
    try:
        list(failing_generator(3))
    except Refused:
        pass
    try:
        sorted(range(10), key=failing_key)
    except Refused:
        pass

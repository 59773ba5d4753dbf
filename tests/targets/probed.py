"""Does what it is told on standard input, and answers: for tracers that come and go meanwhile.

events MASK   waits until these events of sys.monitoring are on for our tool, and no other ones
run           known calls
child         the same in a forked process
pause, resume profiling
"""

import contextlib
import os
import sys
import time

import pyhybrid


class Tensor:
    def __repr__(self):
        raise SystemExit("its repr() ran")


class Model:
    def forward(self, x):
        return float(x)


def numbers():
    with contextlib.suppress(KeyError):
        yield 1
    yield 2


def fails():
    raise ValueError("no such thing")


def values(value):
    return value


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def lines():
    a = 1
    b = 2
    return a + b


def run():
    fib(5)
    Model().forward(3)
    generator = numbers()
    next(generator)
    generator.throw(KeyError("its key"))
    list(generator)
    with contextlib.suppress(ValueError):
        fails()
    for value in (None, True, 12, 1 << 80, 1.5, "täxt", "x" * 500, [1], (1, 2), {3: 4}, Tensor()):
        values(value)
    with pyhybrid.region("epoch"):
        lines()


def reads():
    file = os.open(__file__, os.O_RDONLY)
    os.read(file, 1)
    os.read(file, 1)
    os.close(file)


def sleeps():
    time.sleep(0.06)


def wait():
    reads()
    sleeps()


def child():
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        run()
        os._exit(0)


def our_events():
    monitoring = sys.monitoring
    ours = [tool for tool in range(6) if monitoring.get_tool(tool) == "pyhybrid"]
    return monitoring.get_events(ours[0])


def wait_for_events(mask):
    deadline = time.monotonic() + 300
    while our_events() != mask:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the events are {our_events()}, not {mask}")
        time.sleep(0.001)


def main():
    commands = {"run": run, "child": child, "wait": wait}
    commands |= {"pause": pyhybrid.disable, "resume": pyhybrid.enable}
    print("ready", flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "events":
            wait_for_events(int(arguments[0]))
        else:
            commands[command]()
        print("done", flush=True)


if __name__ == "__main__":
    main()

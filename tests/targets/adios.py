"""Writes and reads with ADIOS2, whose timers are PerfStubs', on the main and another thread."""

import sys
import threading

sys.modules["torch"] = None  # adios2 imports it where it is, which takes twenty times as long

import adios2  # noqa: E402
import numpy as np  # noqa: E402

data = np.arange(400_000.0)  # 20 steps take some ticks of the kernel


def save(path, steps):
    with adios2.Stream(path, "w") as stream:
        for _ in stream.steps(steps):
            stream.write("x", data, [len(data)], [0], [len(data)])


def load(path):
    with adios2.Stream(path, "r") as stream:
        for _ in stream.steps():
            stream.read("x")


def main(folder):
    for i in range(3):
        save(f"{folder}/a{i}.bp", 5)
        load(f"{folder}/a{i}.bp")
    thread = threading.Thread(target=save, args=(f"{folder}/t.bp", 5), name="saver")
    thread.start()
    thread.join()


main(sys.argv[1])

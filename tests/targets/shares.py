"""Three functions that take turns of random length, by wall-clock time, for argv[1] s.

Prints how long the thread could have run and did not, in ns: others had the processor.
"""

import random
import sys
import time


def third(until):
    while time.perf_counter() < until:
        pass


def sleeper(until):
    time.sleep(max(0, until - time.perf_counter()))


def rest(until):
    n = 0
    while time.perf_counter() < until:
        n += 1


rng = random.Random(int(sys.argv[2]))
end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    function = rng.choices([third, sleeper, rest], [3, 2, 5])[0]
    function(time.perf_counter() + rng.expovariate(200))
with open("/proc/thread-self/schedstat") as file:
    print(file.read().split()[1])

"""What the exact tree's size and depth cost: prints JSON.

python paths.py nodes       resident bytes for each distinct path, at a million of them
python paths.py depth       the handler's median, in us, below 1 and below LEVELS calls from C
python paths.py halves      the exact share of one of two busy functions, the sampled one, samples
"""

import functools
import json
import sys
import time

import pyhybrid
from pyhybrid.views.stack_quality import HandlerCost

BRANCHES, DEPTH = 100, 3
LEVELS = 490  # of some five C frames each; CPython 3.12 allows not many more


def make(level):
    def function(digits):
        if digits:
            FUNCTIONS[digits[0]](digits[1:])

    code = function.__code__.replace(co_name=f"f{level}", co_qualname=f"f{level}")
    function.__code__ = code
    return function


FUNCTIONS = [make(i) for i in range(BRANCHES)]


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def nodes():
    paths = [(i // 10000 % 100, i // 100 % 100, i % 100) for i in range(BRANCHES**DEPTH)]
    FUNCTIONS[0](paths[0])
    with pyhybrid.Profiler(mode="trace", output="nodes") as p:
        before = resident()
        for path in paths:
            FUNCTIONS[path[0]](path[1:])
        time.sleep(1.2)  # the collector has seen them all
        after = resident()
    n = len(p.profile.exact)
    return {"nodes": n, "bytes": (after - before) / n}


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def descend(levels, _=0):
    if not levels:
        spin(2)
    else:
        functools.reduce(lambda _, n: descend(levels - 1), (0, 1))


def depth():
    sys.setrecursionlimit(20_000)
    medians = {}
    for levels in (1, LEVELS):
        with pyhybrid.Profiler(mode="hybrid", output="depth") as p:
            descend(levels)
        medians[levels] = HandlerCost(p.profile).quantile_ns(0.5) / 1e3
    return medians


def small():
    spin(0.003)


def large():
    spin(0.007)


def halves():
    with pyhybrid.Profiler(mode="hybrid", clock="wall", hz=10_000, output="halves") as p:
        end = time.monotonic() + 11
        while time.monotonic() < end:
            small()
            large()
    profile = p.profile
    frames, node_frames, parents = profile.frames, profile.nodes.frame, profile.nodes.parent

    def share(rows):
        weights = {"small": 0, "large": 0}
        for node, weight in rows:
            while node and frames[node_frames[node]].name not in weights:
                node = parents[node]
            if node:
                weights[frames[node_frames[node]].name] += weight
        return weights["small"] / sum(weights.values())

    return {
        "exact": share((row.node, row.self_ns) for row in profile.exact),
        "sampled": share(
            (profile.stacks.node[row.stack], row.weight_ns) for row in profile.sampled
        ),
        "samples": sum(row.samples for row in profile.sampled),
    }


print(json.dumps({"nodes": nodes, "depth": depth, "halves": halves}[sys.argv[1]]()))

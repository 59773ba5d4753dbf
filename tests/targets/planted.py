"""One thing that stands out, argv[1], for a second or two of CPU time; `clean`: nothing does."""

import gc
import mmap
import sys
import threading
import time

BEGAN = time.monotonic()


def until(seconds, work):
    end = time.process_time() + seconds
    while time.process_time() < end:
        work()


def count(n=100_000):
    x = 0
    for at in range(n):
        x = (x * 31 + at) & 0xFFFF
    return x


def clean():
    until(0.6, count)


def gil():
    threads = [threading.Thread(target=until, args=(1, count)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def tiny(x):
    return x + 1


def tiny_calls():
    x = 0
    for _ in range(2_000_000):
        x = tiny(x)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def tiny_recursion():
    fib(27)


def key(row):
    return sum(map(ord, row))


def called_from_c():
    rows = [f"row {at * 7919 % 100_003}" * 20 for at in range(4000)]
    until(1, lambda: sorted(rows, key=key))


class Node:
    pass


def collection():
    nodes = [Node() for _ in range(100_000)]
    for each in nodes:
        each.me = each
    until(0.6, gc.collect)


def make_objects():
    made = []
    for _ in range(100_000):
        made.append([])


def automatic_collection():
    kept = [Node() for _ in range(200_000)]
    gc.set_threshold(700, 2, 2)
    until(0.6, make_objects)
    kept.clear()


def same(x):
    for at in range(5):
        x += at
    return x


def mapped():
    until(0.6, lambda: list(map(same, range(1000))))


def touch():
    with mmap.mmap(-1, 32 << 20) as memory:
        for at in range(0, 32 << 20, 4096):
            memory[at] = 1


def page_faults():
    until(0.6, touch)


def allocate():
    for _ in range(100):
        bytes(48 << 20)  # so much is always mapped and unmapped, and hardly touched


def allocation():
    until(1, allocate)


def hand_over(taken, given, rounds):
    for _ in range(rounds):
        taken.acquire()
        given.release()


def locks(rounds=120_000):
    here, there = threading.Lock(), threading.Lock()
    there.acquire()
    other = threading.Thread(target=hand_over, args=(there, here, rounds))
    other.start()
    hand_over(here, there, rounds)
    other.join()


def imports():
    import planted_module  # noqa: F401


def waiting():
    time.sleep(1.5)


def sync():
    time.sleep(0.04)  # as a file system would


def blocked():
    for _ in range(50):
        sync()
        count(10_000)


def waiting_threads():
    def work():
        for _ in range(15):
            sync()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def blocks_loop():
    import asyncio

    async def main():
        for _ in range(50):
            sync()
            await asyncio.sleep(0.01)

    asyncio.run(main())


def idle_loop():
    import asyncio

    async def main():
        for _ in range(10):
            count()
            await asyncio.sleep(0.1)

    asyncio.run(main())


def idle_threads():
    """A pool, and a worker with a queue of its own."""
    import queue
    from concurrent.futures import ThreadPoolExecutor

    def work():
        while items.get():
            count()

    items = queue.SimpleQueue()
    with ThreadPoolExecutor(2) as pool:
        worker = threading.Thread(target=work)
        worker.start()
        while time.monotonic() < BEGAN + 1.5:
            pool.submit(count)
            items.put(1)
            threading.Event().wait(0.1)
        items.put(0)
        worker.join()


CLIENT = """
import sys, time, urllib.request
for _ in range(10):
    with urllib.request.urlopen(sys.argv[1]) as answer: answer.read()
    time.sleep(0.1)
"""


def idle_server():
    import http.server
    import subprocess

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            count()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    def stop():
        client.wait()
        server.shutdown()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}/"
    client = subprocess.Popen([sys.executable, "-S", "-c", CLIENT, address])
    threading.Thread(target=stop).start()
    server.serve_forever()
    server.server_close()


def spinning():
    import torch

    torch.set_num_threads(4)
    one = torch.randn(64, 4096)
    until(1 + time.process_time(), lambda: (one + 1).sum())  # more than the import took


def resting():
    import torch

    torch.set_num_threads(4)
    torch.randn(64, 4096).add_(1).sum()
    time.sleep(3 + 2 * (time.monotonic() - BEGAN))  # as long as the import took, and more


globals()[sys.argv[1]]()

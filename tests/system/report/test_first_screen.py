"""What a run prints at its end: the slow function, with its seconds, whatever makes it slow."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Run

# Each has a function `slow`, which takes most of what somebody who waits for the program waits for.
PROGRAMS = {
    "CPU": """
        import json
        def quick(rows): return json.dumps(rows)
        def slow(rows):
            total = 0
            for row in rows:
                for character in row * 12: total += ord(character) * 31 % 7
            return total
        def main():
            rows = [str(i) * 10 for i in range(4000)]
            for _ in range(2): quick(rows), slow(rows)
        main()
        """,
    "waiting": """
        import time
        def slow(): time.sleep(0.05)
        def quick(): return sum(i * i for i in range(20_000))
        for _ in range(12): slow(), quick()
        """,
    "threads": """
        import hashlib, queue, threading
        work = queue.Queue(10)
        def produce():
            for i in range(200): work.put(str(i).encode())
            for _ in range(3): work.put(None)
        def slow(data): hashlib.pbkdf2_hmac("sha256", data, b"salt", 2000)
        def consume():
            while (data := work.get()) is not None: slow(data)
        threads = [threading.Thread(target=consume) for _ in range(3)]
        for each in threads: each.start()
        produce()
        for each in threads: each.join()
        """,
    "asyncio": """
        import asyncio
        async def fetch(i):
            await asyncio.sleep(0.01)
            return list(range(300))
        def slow(rows):
            return "".join("".join(sorted(str(row * 7919))) for row in rows)
        async def handle(i): return slow(await fetch(i))
        async def main():
            for _ in range(20): await asyncio.gather(*(handle(i) for i in range(40)))
        asyncio.run(main())
        """,
    "generator": """
        def numbers(n):
            for i in range(n): yield i
        def slow(items):
            for item in items:
                if all(item % divisor for divisor in range(2, 12)): yield item
        print(sum(slow(numbers(150_000))))
        """,
    "server": """
        import http.server, threading, urllib.request
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = slow(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *_): pass
        def slow(path):
            rows = [(i * 7919) % 1000 for i in range(6000)]
            rows.sort(key=lambda row: (row % 10, row))
            return str(rows).encode()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(60): urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
        server.shutdown()
        """,
    "subprocess": """
        import subprocess, sys
        def slow(): subprocess.run([sys.executable, "-c", "sum(i * i for i in range(300_000))"])
        def quick(): return [str(i) for i in range(30_000)]
        for _ in range(5): slow(), quick()
        """,
    "C": """
        import zlib
        def slow(data): return zlib.compress(data, 9)
        def quick(data): return data.upper()
        data = b"".join(b"%d" % (i * 7919) for i in range(100_000))
        for _ in range(5): slow(data), quick(data)
        """,
}
ROW = r"^ *(?:\d+\.\d% +)?(\d+\.\d{3}) s +[\d,]+ +.*\bslow \(program\.py:\d+\)$"


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("what", PROGRAMS)
def test_the_slow_function_is_there(
    pyhybrid: Callable[..., Run], tmp_path: Path, what: str
) -> None:
    (tmp_path / "program.py").write_text(re.sub("^ {8}", "", PROGRAMS[what], flags=re.MULTILINE))
    run = pyhybrid("--format", "folded", "program.py", env={"COLUMNS": "100"})
    lines = run.result.stderr.splitlines()
    assert len(lines) <= 24
    (found,) = [match for line in lines if (match := re.match(ROW, line))]
    profile = run.profile()
    (frame,) = [frame.id for frame in profile.frames.values() if frame.name == "slow"]
    exact_ns = sum(row.total_ns for row in profile.exact if profile.nodes.frame[row.node] == frame)
    assert float(found[1]) == pytest.approx(exact_ns / 1e9, abs=0.001)
    assert exact_ns > 0.1e9

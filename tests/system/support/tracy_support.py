"""Tracy's own programs, of the package iree-base-runtime: a client, and what captures from it."""

from __future__ import annotations

import importlib.util
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support import PATIENCE_S

FOLDER = "iree._runtime_libs_tracy"


def folder() -> Path | None:
    """Where they are; None: not installed."""
    try:
        spec = importlib.util.find_spec(FOLDER)
    except ImportError:
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def client() -> Path:
    found = folder()
    assert found
    return found / "_runtime.abi3.so"


def other_client() -> Path:
    """One of another protocol."""
    spec = importlib.util.find_spec("pytracy")
    assert spec and spec.origin
    return Path(spec.origin)


def capture_program() -> Path:
    found = folder()
    assert found
    return found / "iree-tracy-capture"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def zones_told(output: str) -> int:
    """How many zones a capture says that it has."""
    return int(re.findall(r"Zones: ([\d,]+)", output)[-1].replace(",", ""))


class Captured:
    """What the capture program has told and written, after the program that it listened to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.output = ""

    @property
    def zones(self) -> int:
        return zones_told(self.output)

    def names(self) -> bytes:
        return unpack(self.file)


@contextmanager
def capturing(file: Path) -> Iterator[tuple[Captured, dict[str, str]]]:
    """Runs a capture; programs within that have this environment are what it listens to."""
    port = str(free_port())
    captured = Captured(file)
    options = ("-f", "-o", file, "-a", "127.0.0.1", "-p", port)
    log = file.with_suffix(".log")
    with (
        log.open("w") as out,
        subprocess.Popen([capture_program(), *options], stdout=out, stderr=out) as process,
    ):
        try:
            yield captured, {**QUIET, "TRACY_PORT": port, "TRACY_NO_EXIT": "1"}
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    captured.output = log.read_text()


# The client neither traces the whole system nor listens for others.
QUIET = {"TRACY_NO_SYS_TRACE": "1", "TRACY_ONLY_LOCALHOST": "1", "TRACY_ONLY_IPV4": "1"}


def unpack(file: Path) -> bytes:
    """A .tracy file's content (server/TracyFileRead.hpp): blocks of zstd streams in turn."""
    try:
        from compression.zstd import ZstdDecompressor  # type: ignore[import-not-found]
    except ImportError:
        from zstandard import ZstdDecompressor as Old

        def ZstdDecompressor():  # type: ignore[no-untyped-def]
            return Old().decompressobj()

    data = file.read_bytes()
    magic, kind, n_streams = data[:4], data[4], data[5]
    assert (magic, kind) == (b"tr\xfdP", 1)
    streams = [ZstdDecompressor() for _ in range(n_streams)]
    at, turn, parts = 6, 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        parts.append(streams[turn % n_streams].decompress(data[at + 4 : at + 4 + size]))
        at += 4 + size
        turn += 1
    return b"".join(parts)


# A zone of a thread (server/TracyWorker.cpp, WriteTimeline, 0.11): source, begin since what came
# before, extra, number of zones within; these; end since what came before.
ZONE, END = struct.Struct("<hqIi"), struct.Struct("<q")
LONGEST_NS = 10**11
type Zones = list[tuple[int, Zones]]  # each one's source, and the zones within it


def zones_at(data: bytes, at: int, n: int) -> tuple[Zones, int]:
    """`n` zones that begin there, and where they end.  ValueError: there are none."""
    zones: Zones = []
    for _ in range(n):
        if at + ZONE.size + END.size > len(data):
            raise ValueError
        source, since, extra, n_within = ZONE.unpack_from(data, at)
        if not (source and 0 <= since < LONGEST_NS and extra < 10**5 and 0 <= n_within < 10**5):
            raise ValueError
        within, at = zones_at(data, at + ZONE.size, n_within)
        if at + END.size > len(data) or not 0 <= END.unpack_from(data, at)[0] < LONGEST_NS:
            raise ValueError
        zones.append((source, within))
        at += END.size
    return zones, at


def longest_timeline(data: bytes) -> Zones:
    """The zones of the thread that has most.  Where they begin is sought: nothing else looks so."""

    def size(zones: Zones) -> int:
        return sum(1 + size(within) for _, within in zones)

    found: list[Zones] = []
    for at in range(len(data) - 4):
        (n,) = struct.unpack_from("<I", data, at)
        if 2 <= n < 10**5:
            with suppress(ValueError):
                found.append(zones_at(data, at + 4, n)[0])
    return max(found, key=size)


def source_of(data: bytes, line: int, colour: int) -> int:
    """The number of the source location with that line and colour (SourceLocationBase): its
    address stands before it, and the list of addresses begins with 0."""
    at = data.index(struct.pack("<I", line) + colour.to_bytes(3, "big") + b"\0") - 3 * 9
    address = data[at - 8 : at]
    place = data.index(address, at)
    number = 0
    while data[place - 8 * number : place - 8 * number + 8] != bytes(8):
        number += 1
    return number

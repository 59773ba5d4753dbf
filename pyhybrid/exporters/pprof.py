"""A profile for pprof (`go tool pprof`), gzipped.

Format: https://github.com/google/pprof/blob/main/proto/profile.proto - samples are values of a path
of locations, the leaf first; a location is an address with the lines of the functions that are
there, the innermost of those inlined first; text is numbered.

Values are the samples and their weight; with `exact_times`, or where there are no samples, also the
exact calls and self times, as samples of their own without lines.  Functions' names are qualified
ones alone, since pprof cuts names at brackets and slashes.
"""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from pyhybrid.exporters import Exporter
from pyhybrid.exporters.viewer_names import encodable, facts, functions
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.call_tree.sampled_paths import Location, SampledPaths

# Protocol Buffers' wire format, as much as pprof needs.
#
# Format: https://protobuf.dev/programming-guides/encoding/ - a message is fields, each a tag (its
# number and wire type) and a value: a varint, or bytes with their length before them.

_VARINT, _BYTES = 0, 2  # wire types


def varint(value: int) -> bytes:
    """Encode 64 bits, seven in a byte, the lowest first; negative ones as two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field: int, value: int | bool) -> bytes:
    """Encode a field that is a number; nothing for 0, which is what readers take it for."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def message(field: int, *parts: bytes) -> bytes:
    """Encode a field that is a message, or bytes."""
    content = b"".join(parts)
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """Encode a field that is many numbers."""
    return message(field, *map(varint, values))


EXECUTABLE = 1  # of a segment's flags


class Pprof(Exporter):
    """Write the folded call paths, all threads in one profile, with labels that name them."""

    name = "pprof"
    help = "for `go tool pprof`: samples by function, line and label"
    suffix = ".pb.gz"
    is_text = False
    exact_times = False  # exact calls and self times, too
    begin_unix_ns: int | None = None  # of the samples that were chosen; None: the run's
    duration_ns = 0  # with it

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write it."""
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as out:
            exact = self.exact_times or not profile.sampled
            parts = _Parts(profile)
            if self.begin_unix_ns is not None:
                parts.times = self.begin_unix_ns, self.duration_ns
            for part in parts.all(exact):
                out.write(part)
        return []


class _Parts:
    """Make the messages of one profile, in an order in which each one's numbers are known."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._strings = {"": 0}
        self._locations: dict[Location, int] = {}  # by number less 1
        self._labels: dict[tuple[int, str, int], bytes] = {}
        process = profile.process
        lasted_ns = (process.end_ns or 0) - (process.start_ns or 0) if process.end_ns else 0
        self.times = profile.meta.get("start_unix_ns", 0), lasted_ns

    def all(self, exact: bool) -> Iterator[bytes]:
        """Yield them field by field."""
        profile, meta = self._profile, self._profile.meta
        clock = "wall" if meta.get("clock") == "wall" else "cpu"
        types = [("samples", "count"), (clock, "nanoseconds")] if profile.sampled else []
        types += [("calls", "count"), ("exact", "nanoseconds")] if exact else []
        for kind in types:
            yield message(1, self._type(*kind))
        if profile.sampled:
            yield from self._samples([0, 0] if exact else [])
            yield message(11, self._type(clock, "nanoseconds")) + number(12, profile.period_ns)
        if exact:
            yield from self._exact([0, 0] if profile.sampled else [])
        yield number(14, self._text(types[1][0]))
        yield number(9, self.times[0]) + number(10, self.times[1])
        command, *others = (f"{heading}: {text}" for heading, text in facts(profile))
        yield packed(13, map(self._text, (command, "; ".join(others))))
        yield from self._mappings()
        yield from self._places()
        yield from self._functions()
        for text in self._strings:
            yield message(6, text.encode())

    def _text(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _type(self, kind: str, unit: str) -> bytes:
        return number(1, self._text(kind)) + number(2, self._text(unit))

    def _samples(self, exact: list[int]) -> Iterator[bytes]:
        """Yield one for each path, thread and state; of exact values they have `exact`."""
        sampled = SampledPaths(self._profile)
        totals: dict[tuple[int, int, str, int], list[int]] = {}
        for row in self._profile.sampled:
            path = sampled.of_row[row.stack]
            total = totals.setdefault((path, row.thread, row.gil, row.waits), [0, 0])
            total[0] += row.samples
            total[1] += row.weight_ns
        number_of = [self._location(each) for each in sampled.locations[1:]]
        encoded = [b"", *map(varint, number_of)]
        steps = _Steps(sampled.parent, [encoded[each] for each in sampled.location])
        for (path, thread, gil, waits), values in totals.items():
            yield self._sample(steps.of(path), [*values, *exact], self._label(thread, gil, waits))

    def _exact(self, samples: list[int]) -> Iterator[bytes]:
        """Yield one for each functions' path and thread; of samples' values it has `samples`."""
        profile, tree = self._profile, FoldedTree.of(self._profile)
        totals: dict[tuple[int, int], list[int]] = {}
        exact = profile.exact
        for thread, node, calls, self_ns in zip(
            exact.thread, exact.node, exact.calls, exact.self_ns, strict=True
        ):
            total = totals.setdefault((tree.of_node[node], thread), [0, 0])
            total[0] += calls
            total[1] += self_ns
        frames = profile.frames
        encoded = {
            frame: varint(self._location(Location(None, ((frame, frames[frame].line or 0),))))
            for frame in set(tree.frame) - {0}
        }
        steps = _Steps(tree.parent, [encoded.get(frame, b"") for frame in tree.frame])
        for (node, thread), values in totals.items():
            yield self._sample(steps.of(node), [*samples, *values], self._label(thread))

    def _sample(self, path: bytes, values: Iterable[int], labels: bytes) -> bytes:
        return message(2, message(1, path), packed(2, values), labels)

    def _label(self, thread: int, gil: str = "", waits: int = 0) -> bytes:
        key = (thread, gil, waits)
        if key not in self._labels:
            row = self._profile.threads[thread]
            texts = {"thread": encodable(self._profile.thread_name(thread)), "gil": gil}
            if gil and self._profile.meta.get("clock") == "wall":
                texts["state"] = "off CPU" if waits else "on CPU"
            self._labels[key] = b"".join(
                message(3, number(1, self._text(name)), number(2, self._text(text)))
                for name, text in texts.items()
                if text
            ) + message(3, number(1, self._text("tid")), number(3, row.tid))
        return self._labels[key]

    def _location(self, location: Location) -> int:
        return self._locations.setdefault(location, len(self._locations)) + 1

    def _module_of(self, location: Location) -> int | None:
        outermost = self._profile.frames[location.lines[0][0]]
        return outermost.module if location.address is not None else None

    def _mappings(self) -> Iterator[bytes]:
        """Yield the libraries that locations are in: names are known, pprof need not look.

        The first one is what pprof calls the profile's file: the executable is below all others,
        and stands there even where no location is in it (an interpreter with a `libpython`).
        """
        used = set(map(self._module_of, self._locations))
        known = number(7, True) + number(8, True) + number(9, True) + number(10, True)
        lowest_first = sorted(self._profile.modules.values(), key=lambda module: module.base)
        for module in lowest_first:
            text = [part for part in module.segments if part[3] & EXECUTABLE]
            if not text or (module.id not in used and module is not lowest_first[0]):
                continue
            start, _, file_offset, _ = text[0]
            limit = text[-1][0] + text[-1][1]
            yield message(
                3,
                number(1, module.id) + number(2, start) + number(3, limit) + number(4, file_offset),
                number(5, self._text(encodable(module.path))),
                number(6, self._text(module.build_id or "")),
                known,
            )

    def _places(self) -> Iterator[bytes]:
        for location, at in self._locations.items():
            yield message(
                4,
                number(1, at + 1) + number(2, self._module_of(location) or 0),
                number(3, location.address or 0),
                *(message(4, number(1, f) + number(2, line)) for f, line in location.lines[::-1]),
            )

    def _functions(self) -> Iterator[bytes]:
        names, frames = functions(self._profile), self._profile.frames
        for frame in sorted({frame for each in self._locations for frame, _ in each.lines}):
            name, file, line = names[frame]
            symbol = encodable(frames[frame].symbol or "")
            if symbol == name:  # pprof would take it for mangled, and cut what is in brackets
                symbol = ""
            yield message(
                5,
                number(1, frame) + number(2, self._text(name)) + number(3, self._text(symbol)),
                number(4, self._text(file)) + number(5, line),
            )


class _Steps:
    """Hold the encoded locations of paths, the leaf first."""

    def __init__(self, parent: Sequence[int], encoded: list[bytes]) -> None:
        self._parent, self._encoded = parent, encoded
        self._made: dict[int, bytes] = {0: b""}

    def of(self, path: int) -> bytes:
        """Return that of a path and all above it."""
        steps = []
        while path not in self._made:
            steps.append(path)
            path = self._parent[path]
        made = self._made[path]
        for step in reversed(steps):
            made = self._made[step] = self._encoded[step] + made
        return made

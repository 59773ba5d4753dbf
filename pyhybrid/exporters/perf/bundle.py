"""A bundle: perf.data and all names, for another machine or a later day.

    DIR/perf.data
    DIR/.debug/.build-id/xx/yyyy.../elf        one for each module, one for Python, one for JIT code
    DIR/.debug/.build-id/xx/yyyy.../kallsyms   the kernel's, likewise
    DIR/README.txt                             the command that reads it

`.debug` is laid out like perf's build-id cache (tools/perf/util/build-id.c), but an image holds
only the functions that were sampled, by the names that the profile has (elf.py): those of
stripped libraries are there, and a bundle stays small.  perf asks for images by build-id, so that
other files at a module's path, and other processes' perf maps, are not believed.
"""

import contextlib
import os
import shlex
import shutil
import stat
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.destination import Output, export_to
from pyhybrid.exporters.perf.addresses import (
    PAGE,
    PF_X,
    Images,
    Mapping,
    SyntheticAddresses,
    node_addresses,
    stack_addresses,
)
from pyhybrid.exporters.perf.elf import Segment, Symbol, disjoint, elf_file
from pyhybrid.exporters.perf.names_map import UNSAFE, Entry, entries
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.symbols import resolve
from pyhybrid.tables import Frame, Module
from pyhybrid.tables.profile import Profile

# What the samples of perf.data hit, as symbols of the modules that it lies in.

_WORD = 1 << 64  # kernel addresses are negative in profiles

# Where names are as compilers write them; perf demangles them itself.
_TABLES = frozenset(("symtab", "debug file", "debugdata", "dynsym"))

ModuleKey = tuple[str, str | None]  # path and build-id: the loads of one file


class Hits:
    """Collect what was hit: `modules`, the loads of each file; `kernel`, its addresses."""

    def __init__(self, profile: Profile, synthetic: SyntheticAddresses) -> None:
        """Walk the paths of both events."""
        self._frames = profile.frames
        self._loads: dict[ModuleKey, list[Module]] = defaultdict(list)
        for module in profile.modules.values():
            self._loads[module.path, module.build_id].append(module)
        self._of_frame: dict[int, set[int]] = defaultdict(set)  # absolute addresses
        stacks, nodes = profile.stacks, profile.nodes
        self._collect(
            profile.sampled_stacks,
            stacks.parent,
            [nodes.frame[node] for node in stacks.node],
            stack_addresses(profile, synthetic),
        )
        exact = {
            node
            for node, ns in zip(profile.exact.node, profile.exact.self_ns, strict=True)
            if ns > 0
        }
        self._collect(exact, nodes.parent, nodes.frame, node_addresses(profile, synthetic))
        self._of_module: dict[ModuleKey, list[Frame]] = defaultdict(list)
        for frame in (self._frames[number] for number in self._of_frame):
            if frame.kind == "native" and frame.module is not None:
                module = profile.modules[frame.module]
                self._of_module[module.path, module.build_id].append(frame)
        self.modules = {key: self._loads[key] for key in self._of_module}
        self.kernel = {
            address + _WORD
            for number, addresses in self._of_frame.items()
            if self._frames[number].kind == "kernel"
            for address in addresses
            if address < 0
        }
        homeless = (
            addresses
            for number, addresses in self._of_frame.items()
            if self._frames[number].module is None
        )
        self._homeless = sorted(set[int]().union(*homeless))

    def within(self, start: int, size: int) -> bool:
        """Was any address there hit that lies in no module?"""
        at = bisect_left(self._homeless, start)
        return at < len(self._homeless) and self._homeless[at] < start + size

    def segments(self, module: Module) -> list[Segment]:
        """Return the code of its file."""
        return [
            Segment(start - module.base, size, file_offset)
            for start, size, file_offset, flags in module.segments
            if flags & PF_X
        ]

    def symbols(self, key: ModuleKey) -> list[Symbol]:
        """Return the file's functions that were hit and have names."""
        return [
            Symbol(_name(frame), frame.address, frame.size or self._extent(frame, key))
            for frame in self._of_module[key]
            if frame.address is not None
        ]

    def kernel_symbols(self) -> list[Symbol]:
        """Return the kernel's functions that were hit and have names, at absolute addresses."""
        return [
            Symbol(frame.name, frame.address + _WORD, frame.size or 1)
            for frame in (self._frames[number] for number in self._of_frame)
            if frame.kind == "kernel" and frame.address is not None
        ]

    def _collect(
        self,
        leaves: Collection[int],
        parents: Sequence[int],
        frames: Sequence[int],
        addresses: Sequence[int],
    ) -> None:
        """Collect leaves and what called them; each row has a parent, a frame and its address."""
        seen = {0}
        for row in leaves:
            while row not in seen:
                seen.add(row)
                self._of_frame[frames[row]].add(addresses[row])
                row = parents[row]

    def _extent(self, frame: Frame, key: ModuleKey) -> int:
        """Return the extent of a function whose size is not known: up to where it was hit last."""
        start, last = frame.address or 0, 0
        for address in self._of_frame[frame.id]:
            for load in self._loads[key]:
                if any(at <= address < at + size for at, size, *_ in load.segments):
                    last = max(last, address - load.base - start)
        return last + 1


def _name(frame: Frame) -> str:
    if frame.symbol and frame.source in _TABLES:
        return frame.symbol
    return frame.name.translate(UNSAFE)


_CACHE, _DATA, _README = ".debug", "perf.data", "README.txt"
_README_TEXT = """\
A profile for perf, with all the names that it needs.  In this folder:

    {command}

perf script takes the same two options.  There is no code in it: perf annotate has nothing to show.
"""
_PYTHON, _JIT = "[python]", "[jit]"  # what perf shows as the file of these names
_BETWEEN = "<kernel>"


class Bundle(Images):
    """Hold the images of one profile; `files`: what perf asks for, contents by path below DIR."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile, moved=())
        self.files: dict[str, bytes] = {}
        self._build_ids: dict[ModuleKey, bytes] = {}
        hits = Hits(profile, self.synthetic)
        copies: dict[Hashable, list[ModuleKey]] = defaultdict(list)  # of one file
        for path, build_id in hits.modules:
            copies[build_id or path].append((path, build_id))
        for keys in copies.values():
            self._add_module(hits, keys)
        named = [entry for entry in entries(profile) if hits.within(entry.start, entry.size)]
        *jit, synthetic = self.anonymous
        self.anonymous = [*self._anonymous(_JIT, jit, named)]
        self.anonymous += self._anonymous(_PYTHON, [synthetic], named)
        if hits.kernel:
            self._add_kernel(hits)

    def build_id(self, module: Module) -> bytes:
        """Return that of the image; the module's own if it has one."""
        return self._build_ids.get((module.path, module.build_id)) or super().build_id(module)

    def _add_module(self, hits: Hits, keys: list[ModuleKey]) -> None:
        module = hits.modules[keys[0]][0]
        segments = hits.segments(module)
        if not segments:
            return
        symbols = [symbol for key in keys for symbol in hits.symbols(key)]
        kind = "vdso" if module.path == resolve.VDSO else "elf"
        identity = self._add_image(segments, symbols, super().build_id(module), kind)
        self._build_ids.update(dict.fromkeys(keys, identity))

    def _anonymous(self, path: str, memory: list[Mapping], named: list[Entry]) -> Iterator[Mapping]:
        """Yield the pieces of memory, one after the other in one image."""
        segments, symbols, at = [], list[Symbol](), PAGE
        for piece in memory:
            segments.append(Segment(at, piece.size, at))
            symbols += [
                Symbol(entry.name, at + entry.start - piece.start, entry.size)
                for entry in named
                if piece.start <= entry.start < piece.start + piece.size
            ]
            at += piece.size
        if not segments:
            return
        build_id = self._add_image(segments, symbols)
        for piece, segment in zip(memory, segments, strict=True):
            yield Mapping(piece.start, piece.size, segment.file_offset, path, build_id)

    def _add_image(
        self,
        segments: list[Segment],
        symbols: list[Symbol],
        build_id: bytes = b"",
        kind: str = "elf",
    ) -> bytes:
        identity, contents = elf_file(segments, disjoint(symbols), build_id)
        name = identity.hex()
        self.files[f"{_CACHE}/.build-id/{name[:2]}/{name[2:]}/{kind}"] = contents
        return identity

    def _add_kernel(self, hits: Hits) -> None:
        """Add the kernel's functions, in an image that perf takes for its vmlinux.

        A list like /proc/kallsyms is for perf 6 alone: 7.2 prefers that of the kernel it runs on,
        whatever the build-id.  `_text` shows perf where the kernel was loaded; what lies between
        the functions has a name, too.  The build-id is the image's: by the kernel's own perf takes
        what runs there, if it is the same kernel.
        """
        start, end = self.kernel_text
        end = max(end, (max(hits.kernel) // PAGE + 1) * PAGE)
        self.kernel_text = start, end
        names = {start: "_text", start + 1: _BETWEEN}
        for symbol in hits.kernel_symbols():
            names[symbol.start] = symbol.name
            names.setdefault(symbol.start + symbol.size, _BETWEEN)
        symbols = [Symbol(name, at, end - at) for at, name in names.items() if at < end]
        segment = Segment(start, end - start, PAGE)
        self.kernel_build_id = self._add_image([segment], symbols, kind="kallsyms")


def write_bundle(profile: Profile, folder: str, exact_times: bool = False) -> Output:
    """Write the bundle of `profile` at `folder`, which must be new or empty.

    `exact_times`: as of Perf.

    Raises PyhybridError; then nothing is left of it.
    """
    folder = folder.rstrip(os.sep) or os.sep  # "link/" would be what the link leads to
    try:
        made = _claim(folder)
    except OSError as error:
        raise PyhybridError(f"cannot write {folder}: {error.strerror}") from error
    try:
        return _fill(profile, folder, exact_times)
    except BaseException:
        _clear(folder, made)
        raise


def _claim(folder: str) -> bool:
    """Make `folder`, or find it empty; `.debug` in it marks it as ours.  True: it was made."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        made = False
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise PyhybridError(f"{folder} is there, and no folder") from None
    else:
        made = True
    with contextlib.suppress(FileExistsError):
        if not os.listdir(folder):
            os.mkdir(os.path.join(folder, _CACHE))
            return made
    raise PyhybridError(f"{folder} is not empty")


def _clear(folder: str, made: bool) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(os.path.join(folder, _CACHE))
        for name in (_DATA, _README):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
        if made:
            os.rmdir(folder)


def _fill(profile: Profile, folder: str, exact_times: bool) -> Output:
    bundle = Bundle(profile)
    command = f"perf --buildid-dir {_CACHE} report -i {_DATA}"
    files = {**bundle.files, _README: _README_TEXT.format(command=command).encode()}
    for name, contents in files.items():
        path = os.path.join(folder, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(contents)
        except OSError as error:
            raise PyhybridError(f"cannot write {path}: {error.strerror}") from error
    output = export_to(Perf(bundle, exact_times), profile, os.path.join(folder, _DATA))
    return Output(folder, [*output.notes, f"read it with: cd {shlex.quote(folder)} && {command}"])

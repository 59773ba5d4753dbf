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
from collections import defaultdict
from collections.abc import Hashable, Iterator

from pyhybrid.errors import PyhybridError
from pyhybrid.exporters.destination import Output, export_to
from pyhybrid.exporters.perf.addresses import PAGE
from pyhybrid.exporters.perf.elf import Segment, Symbol, disjoint, elf_file
from pyhybrid.exporters.perf.hits import Hits, ModuleKey
from pyhybrid.exporters.perf.images import Images, Mapping
from pyhybrid.exporters.perf.names_map import Entry, entries
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.symbols import resolve
from pyhybrid.tables import Module
from pyhybrid.tables.profile import Profile

_CACHE, _DATA, _README = ".debug", "perf.data", "README.txt"
_README_TEXT = """\
A profile for perf, with all the names that it needs.  In this folder:

    {command}

perf script takes the same two options.  There is no code in it: perf annotate has nothing to show.
"""
_PYTHON, _JIT = "[python]", "[jit]"  # what perf shows as the file of these names
_BETWEEN = "<kernel>"


class Bundle(Images):
    """The images of one profile; `files`: what perf asks for, contents by path below DIR."""

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
        """That of the image; the module's own if it has one."""
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
        """The pieces of memory, one after the other in one image."""
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
        """The kernel's functions, in an image that perf takes for its vmlinux.

        A list like /proc/kallsyms is for perf 6 alone: 7.2 prefers that of the kernel it runs on,
        whatever the build-id.  `_text` tells perf where the kernel was loaded; what lies between
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
    """Make `folder`, or find it empty; `.debug` in it says that it is ours.  True: it was made."""
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

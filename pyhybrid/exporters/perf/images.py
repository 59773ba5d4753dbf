"""Where perf finds the names of what perf.data has addresses of."""

from collections.abc import Collection
from typing import NamedTuple

from pyhybrid.exporters.perf.addresses import SyntheticAddresses
from pyhybrid.exporters.perf.layout import BUILD_ID_SIZE
from pyhybrid.symbols import resolve
from pyhybrid.tables import Module
from pyhybrid.tables.profile import Profile

PF_X = 1
# Where every perf finds names: the tables of a file and of its split debug file.  6.1 reads no
# `.gnu_debugdata`, and knows linkage stubs of `.plt` only.
_PERFS_SOURCES = frozenset(("symtab", "debug file", "dynsym"))
KERNEL_TEXT = 0xFFFF_FFFF_8100_0000, 0xFFFF_FFFF_8200_0000  # without KASLR


class Mapping(NamedTuple):
    """Memory, in bytes, and the file that perf takes the names of its code from."""

    start: int
    size: int
    file_offset: int
    path: str
    build_id: bytes


def nameless(profile: Profile) -> list[int]:
    """The frames of libraries of which perf finds no names: the perf map tells them.

    Of a vdso it has names only where its build-id is in perf's cache.
    """
    modules = profile.modules
    return [
        frame.id
        for frame in profile.frames.values()
        if frame.kind == "native" and frame.module is not None
        if frame.source not in _PERFS_SOURCES or modules[frame.module].path == resolve.VDSO
    ]


class Images:
    """The files and the kernel of the machine that was profiled, and the perf map.

    `kernel_text`: where the kernel's code begins and ends; `kernel_build_id`: b"" if it is not
    known; `anonymous`: the memory of synthetic addresses and of code in no module.
    """

    def __init__(self, profile: Profile, moved: Collection[int] | None = None) -> None:
        """`moved`: native frames that the perf map names; None: those that are `nameless`."""
        moved = nameless(profile) if moved is None else moved
        self.synthetic = SyntheticAddresses(profile, moved)
        self.kernel_text: tuple[int, int] = tuple(profile.meta.get("kernel_text") or KERNEL_TEXT)
        self.kernel_build_id = bytes.fromhex(profile.meta.get("kernel_build_id") or "")
        ranges = [*self.synthetic.jit, (self.synthetic.base, self.synthetic.size)]
        self.anonymous = [Mapping(start, size, 0, "//anon", b"") for start, size in ranges]

    def build_id(self, module: Module) -> bytes:
        """The build-id by which perf asks for the module's file; b"" for its path alone."""
        return bytes.fromhex(module.build_id or "")[:BUILD_ID_SIZE]

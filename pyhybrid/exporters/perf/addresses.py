"""Addresses for frames that have none, so that perf can name them.

perf knows addresses only. Python functions, pseudo-frames and the kernel where nobody knows where
in it get synthetic ones: 16 bytes each in a region where nothing was mapped and nothing was
sampled, which perf.data declares as `//anon` and /tmp/perf-PID.map names. The same profile always
gives the same addresses, so the two files fit whichever is made first, or again.  Each run has a
region of its own: process numbers come again, and another run's map then names nothing.

So do native functions of which perf finds no name, whatever the address in them.

Code in no module (JIT compilers' output) keeps its addresses; the pages that were sampled, or where
its functions start, are declared the same way, and the map calls them [jit] where no runtime named
them.
"""

from collections.abc import Collection
from typing import NamedTuple

from pyhybrid.base.hashes import blake2b
from pyhybrid.base.pseudo_frames import KERNEL
from pyhybrid.exporters.perf.layout import BUILD_ID_SIZE
from pyhybrid.symbols import resolve
from pyhybrid.tables import Module
from pyhybrid.tables.profile import Profile

FRAME_SIZE = 16  # bytes of address space per frame
PAGE = 4096
# Where the regions of all runs are: below libraries, the vdso and executables, above the heap.
REGIONS = range(0x2000_0000_0000, 0x5000_0000_0000, 0x0100_0000)


class SyntheticAddresses:
    """Plan a profile's addresses: `of_frame` by frame id, `jit` as (start, size) of page ranges.

    `moved` are those of native frames, which have addresses of their own, too; `left_out` stands
    for frames of a path that perf.data does not have.
    """

    def __init__(self, profile: Profile, moved: Collection[int] = ()) -> None:
        """Lay out the addresses; `moved`: native frames that get one."""
        stacks, nodes, frames = profile.stacks, profile.nodes, profile.frames
        homeless = {
            f.id: f.address or 0 for f in frames.values() if f.kind == "native" and f.module is None
        }
        jit_pages = {start // PAGE for start in homeless.values() if start > 0}
        if homeless:
            jit_pages |= {
                address // PAGE
                for node, address in zip(stacks.node, stacks.address, strict=True)
                if address is not None and nodes.frame[node] in homeless
            }
        self.jit = _ranges(sorted(jit_pages))
        self.size = -(-FRAME_SIZE * (max(frames, default=0) + 1) // PAGE) * PAGE
        taken = [segment[:2] for m in profile.modules.values() for segment in m.segments]
        self.base = _free_base(_own_base(profile), self.size, [*taken, *self.jit])
        self.left_out = self.base  # no frame has the number 0
        self.of_frame = {
            frame.id: self.base + FRAME_SIZE * frame.id
            for frame in frames.values()
            if frame.kind not in ("native", "kernel") or frame.name == KERNEL
        }
        self.moved = {frame: self.base + FRAME_SIZE * frame for frame in moved}


def stack_addresses(profile: Profile, synthetic: SyntheticAddresses) -> list[int]:
    """Return where the frame of each row of `profile.stacks` is."""
    stacks, homes, moved = profile.stacks, synthetic.of_frame, synthetic.moved
    frames = map(profile.nodes.frame.__getitem__, stacks.node)
    return [
        moved.get(frame) or (homes.get(frame, 0) if address is None else address)
        for frame, address in zip(frames, stacks.address, strict=True)
    ]


def node_addresses(profile: Profile, synthetic: SyntheticAddresses) -> list[int]:
    """Return where the frame of each node is; native functions are at their starts."""
    starts = synthetic.of_frame | synthetic.moved
    for frame in profile.frames.values():
        if frame.kind == "native" and frame.id not in starts:
            module = profile.modules.get(frame.module or 0)
            starts[frame.id] = (module.base if module else 0) + (frame.address or 0)
    return [starts.get(frame, 0) for frame in profile.nodes.frame]


def _ranges(pages: list[int]) -> list[tuple[int, int]]:
    """Return sorted page numbers as (start, size) in bytes, neighbours together."""
    ranges: list[tuple[int, int]] = []
    for page in pages:
        start = page * PAGE
        if ranges and sum(ranges[-1]) == start:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + PAGE)
        else:
            ranges.append((start, PAGE))
    return ranges


def _own_base(profile: Profile) -> int:
    """Return one of REGIONS, by what distinguishes the run from all others."""
    meta = profile.meta
    keys = ("boot_id", "start_unix_ns", "start_ns")
    run = repr((profile.process.pid, *(meta.get(key) for key in keys)))
    digest = blake2b(run.encode(), digest_size=8).digest()
    return REGIONS[int.from_bytes(digest, "little") % len(REGIONS)]


def _free_base(base: int, size: int, taken: list[tuple[int, int]]) -> int:
    """Return the first one from `base` on where nothing of `taken`, (start, size), is."""
    while ends := [at + length for at, length in taken if at < base + size and base < at + length]:
        base = -(-max(ends) // REGIONS.step) * REGIONS.step
    return base


# Where perf finds the names of what perf.data has addresses of.

PF_X = 1
# Where every perf finds names: the tables of a file and of its split debug file.  6.1 reads no
# `.gnu_debugdata`, and knows linkage stubs of `.plt` only.
_PERFS_SOURCES = frozenset(("symtab", "debug file", "dynsym"))
KERNEL_TEXT = 0xFFFF_FFFF_8100_0000, 0xFFFF_FFFF_8200_0000  # without KASLR


class Mapping(NamedTuple):
    """Map memory, in bytes, to the file that perf takes the names of its code from."""

    start: int
    size: int
    file_offset: int
    path: str
    build_id: bytes


def nameless(profile: Profile) -> list[int]:
    """Return the frames of libraries of which perf finds no names: the perf map has them.

    For a vdso it has names only where its build-id is in perf's cache.
    """
    modules = profile.modules
    return [
        frame.id
        for frame in profile.frames.values()
        if frame.kind == "native" and frame.module is not None
        if frame.source not in _PERFS_SOURCES or modules[frame.module].path == resolve.VDSO
    ]


class Images:
    """Hold the files and the kernel of the machine that was profiled, and the perf map.

    `kernel_text`: where the kernel's code begins and ends; `kernel_build_id`: b"" if it is not
    known; `anonymous`: the memory of synthetic addresses and of code in no module.
    """

    def __init__(self, profile: Profile, moved: Collection[int] | None = None) -> None:
        """Collect them; `moved`: native frames that the perf map names; None: the `nameless`."""
        moved = nameless(profile) if moved is None else moved
        self.synthetic = SyntheticAddresses(profile, moved)
        self.kernel_text: tuple[int, int] = tuple(profile.meta.get("kernel_text") or KERNEL_TEXT)
        self.kernel_build_id = bytes.fromhex(profile.meta.get("kernel_build_id") or "")
        ranges = [*self.synthetic.jit, (self.synthetic.base, self.synthetic.size)]
        self.anonymous = [Mapping(start, size, 0, "//anon", b"") for start, size in ranges]

    def build_id(self, module: Module) -> bytes:
        """Return the build-id by which perf asks for the module's file; b"" for its path alone."""
        return bytes.fromhex(module.build_id or "")[:BUILD_ID_SIZE]

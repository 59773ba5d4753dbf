"""What the samples of perf.data hit, as symbols of the modules that it lies in."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence

from pyhybrid.exporters.perf.addresses import SyntheticAddresses, node_addresses, stack_addresses
from pyhybrid.exporters.perf.elf import Segment, Symbol
from pyhybrid.exporters.perf.images import PF_X
from pyhybrid.exporters.perf.names_map import UNSAFE
from pyhybrid.tables import Frame, Module
from pyhybrid.tables.profile import Profile

_WORD = 1 << 64  # kernel addresses are negative in profiles

# Where names are as compilers write them; perf demangles them itself.
_TABLES = frozenset(("symtab", "debug file", "debugdata", "dynsym"))

ModuleKey = tuple[str, str | None]  # path and build-id: the loads of one file


class Hits:
    """`modules`: the loads of each file that was hit; `kernel`: the kernel's addresses."""

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
        """The code of its file."""
        return [
            Segment(start - module.base, size, file_offset)
            for start, size, file_offset, flags in module.segments
            if flags & PF_X
        ]

    def symbols(self, key: ModuleKey) -> list[Symbol]:
        """The file's functions that were hit and have names."""
        return [
            Symbol(_name(frame), frame.address, frame.size or self._extent(frame, key))
            for frame in self._of_module[key]
            if frame.address is not None
        ]

    def kernel_symbols(self) -> list[Symbol]:
        """The kernel's functions that were hit and have names, at absolute addresses."""
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
        """Leaves and what called them; each row has a parent, a frame and its address."""
        seen = {0}
        for row in leaves:
            while row not in seen:
                seen.add(row)
                self._of_frame[frames[row]].add(addresses[row])
                row = parents[row]

    def _extent(self, frame: Frame, key: ModuleKey) -> int:
        """Of a function whose size is not known: up to where it was hit last."""
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

"""Names of the kernel's functions, and what views and exports make of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from spool_writer import SpoolWriter, kernel, native, pseudo, python

from pyhybrid.assemble import open_profile
from pyhybrid.capture.machine import boot_id
from pyhybrid.exporters.destination import export_to
from pyhybrid.exporters.folded import Folded
from pyhybrid.exporters.perf import layout as perf_format
from pyhybrid.exporters.perf.addresses import Images
from pyhybrid.exporters.perf.perf_data import Perf
from pyhybrid.symbols import resolve
from pyhybrid.symbols.kernel import KernelSymbols, kernel_build_id
from pyhybrid.tables.profile import Profile
from pyhybrid.views.call_tree.folded_tree import FoldedTree
from pyhybrid.views.labels import Labels

TABLE = """\
ffffffff81000000 T _stext
ffffffff81000000 t __pfx_alias
ffffffff81000000 T _text
ffffffff81000100 t do_syscall_64
ffffffff81000200 D some_data
ffffffff81000300 W ksys_read
ffffffff81000380 t __pfx_vfs_read
ffffffff81000390 T vfs_read
ffffffff81400000 T _etext
ffffffffc0000000 t ext4_read\t[ext4]
ffffffffc0000080 t bpf_prog_1\t[bpf]
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A kallsyms as modules leave it: not in order."""
    path = tmp_path / "kallsyms"
    lines = TABLE.splitlines(keepends=True)
    path.write_text("".join(lines[-2:] + lines[:-2]))
    return str(path)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0xFFFFFFFF81000000, ("_stext", 0xFFFFFFFF81000000, 0x100, None)),
        (0xFFFFFFFF810000FF, ("_stext", 0xFFFFFFFF81000000, 0x100, None)),
        (0xFFFFFFFF81000100, ("do_syscall_64", 0xFFFFFFFF81000100, 0x100, None)),
        (0xFFFFFFFF81000234, ("do_syscall_64", 0xFFFFFFFF81000100, 0x100, None)),
        (0xFFFFFFFF81000300, ("ksys_read", 0xFFFFFFFF81000300, 0x80, None)),
        (0xFFFFFFFFC0000001, ("ext4_read", 0xFFFFFFFFC0000000, 0x80, "ext4")),
        (0xFFFFFFFFC0000FFF, ("bpf_prog_1", 0xFFFFFFFFC0000080, None, "bpf")),
        (0xFFFFFFFF80FFFFFF, None),
    ],
)
def test_resolve(table: str, address: int, expected: object) -> None:
    assert KernelSymbols(table).resolve(address) == expected


def test_against_the_running_kernel() -> None:
    """Every function's first and last byte is its own, or that of a function at the same place."""
    known = KernelSymbols()
    if not known:
        pytest.skip("the kernel hides its addresses here")
    lines = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()]
    at = {int(line[0], 16): line[2] for line in lines if line[1] in "tTwW"}
    assert len(at) > 10_000
    for address in sorted(at)[:: len(at) // 500]:
        found = known.resolve(address)
        assert found is not None
        assert found.start == address
        if found.size:
            assert known.resolve(address + found.size - 1) == found


@pytest.mark.parametrize("text", ["", "0000000000000000 T _stext\n0000000000000000 T _text\n"])
def test_a_kernel_that_hides(tmp_path: Path, text: str) -> None:
    (tmp_path / "kallsyms").write_text(text)
    known = KernelSymbols(str(tmp_path / "kallsyms"))
    assert not known
    assert known.resolve(0xFFFFFFFF81000000) is None


# Python code, a C function, and three of the kernel: its entry, a system call, what that calls.
KERNEL_FRAMES = (
    kernel(0xFFFFFFFF81000110),
    kernel(0xFFFFFFFF81000310),
    kernel(0xFFFFFFFFC0000010),
)


def recorded(tmp_path: Path, **meta: object) -> Profile:
    writer = SpoolWriter()
    writer.meta(**meta)
    writer.thread(1, 1, "python", "main")
    writer.module(1, "/lib/libx.so", 0x7F0000000000)
    writer.code(1, "work", "/x/job.py", 4)
    path = (python(1, 1), native(1, 0x10))
    rows = [writer.stack(*path, *KERNEL_FRAMES), writer.stack(*path, pseudo(8))]
    writer.stacks()
    writer.samples(1, rows)
    writer.counters(1, 2, 2, cpu_ns=2_000_000)
    writer.end()
    return open_profile(writer.save(tmp_path / "x.part"), (lambda path, _: NoSymbols(), str))


class NoSymbols:
    """A library without names."""

    def resolve(self, addresses: list[int]) -> list[None]:
        return [None] * len(addresses)


def folded(profile: Profile) -> list[str]:
    return Folded().lines(profile, FoldedTree(profile), Labels(profile).of_frame)


@pytest.fixture
def known(table: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """The kernel's table is TABLE."""

    def read(path: str = table) -> KernelSymbols:
        return KernelSymbols(path)

    monkeypatch.setattr(resolve, "KernelSymbols", read)
    return read


@pytest.mark.usefixtures("known")
def test_frames_of_the_kernel(tmp_path: Path) -> None:
    with recorded(tmp_path, boot_id=boot_id()) as profile:
        assert folded(profile) == [
            "main;work (/x/job.py:4);libx.so [nameless];[kernel] 1",
            "main;work (/x/job.py:4);libx.so [nameless];ksys_read_[k];ext4_read_[k] 1",
        ]
        frames = {frame.name: frame for frame in profile.frames.values() if frame.kind == "kernel"}
        assert set(frames) == {"do_syscall_64", "ksys_read", "ext4_read", "[kernel]"}
        assert frames["ext4_read"].file == "ext4"
        assert frames["ksys_read"].address == 0xFFFFFFFF81000300 - (1 << 64)
        assert not profile.meta["notes"]


@pytest.mark.usefixtures("known")
def test_after_a_reboot_addresses_say_nothing(tmp_path: Path) -> None:
    with recorded(tmp_path, boot_id="another") as profile:
        assert folded(profile) == ["main;work (/x/job.py:4);libx.so [nameless];[kernel] 2"]
        (note,) = profile.meta["notes"]
        assert "is not the one that ran" in note


@pytest.mark.usefixtures("known")
def test_perf_learns_where_the_kernel_was(tmp_path: Path) -> None:
    """It lies elsewhere after each boot (KASLR)."""
    with recorded(tmp_path, boot_id=boot_id()) as profile:
        assert profile.meta["kernel_text"] == [0xFFFFFFFF81000000, 0xFFFFFFFF81400000]
        export_to(Perf(), profile, str(tmp_path / "perf.data"))
    start = 0xFFFFFFFF81000000
    body = struct.pack("<QQQ", start, 0x400000, start) + b"[kernel.kallsyms]_text\0"
    assert (tmp_path / "perf.data").read_bytes().count(body) == 1


def test_call_chains_of_perf_data(tmp_path: Path) -> None:
    with recorded(tmp_path, boot_id="another") as profile:
        export_to(Perf(Images(profile, moved=())), profile, str(tmp_path / "perf.data"))
    data = (tmp_path / "perf.data").read_bytes()
    inner = [0xFFFFFFFFC0000010, 0xFFFFFFFF81000310, 0xFFFFFFFF81000110]
    chain = struct.pack("<4Q", perf_format.CONTEXT_KERNEL, *inner)
    chain += struct.pack("<2Q", perf_format.CONTEXT_USER, 0x7F0000000010)
    assert data.count(chain) == 1
    head = data.rindex(struct.pack("<Q", inner[0]), 0, data.index(chain)) - 16
    assert struct.unpack_from("<IH", data, head) == (9, 1)  # PERF_RECORD_SAMPLE, in the kernel
    assert data.count(struct.pack("<Q", perf_format.CONTEXT_KERNEL)) == 1


def test_the_kernels_build_id(tmp_path: Path) -> None:
    """Among its notes, whose names and contents are padded to 4 bytes each."""

    def note(name: bytes, kind: int, content: bytes) -> bytes:
        head = struct.pack("=III", len(name), len(content), kind)
        return head + name + bytes(-len(name) % 4) + content + bytes(-len(content) % 4)

    path = tmp_path / "notes"
    other = note(b"Linux\0", 3, b"\1") + note(b"GNU\0", 1, b"\2" * 5)
    path.write_bytes(other + note(b"GNU\0", 3, bytes(range(20))))
    assert kernel_build_id(str(path)) == bytes(range(20)).hex()
    path.write_bytes(other + b"\4\0\0\0")
    assert kernel_build_id(str(path)) is None
    assert kernel_build_id(str(tmp_path / "none")) is None

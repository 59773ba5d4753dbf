"""The hand-made profile of the exporters' tests: two threads, every kind of frame, known sums.

What was recorded: 12 samples of 15 periods (one sample of MainThread stands for 4 periods).
"""

import os
from collections.abc import Iterable

from spool_writer import SpoolWriter, native, pseudo, python

from pyhybrid.symbols.resolve import Loader, Symbol
from pyhybrid.symbols.source_positions import Demangle

PID = 5_000_000 + os.getpid()  # of no process (pid_max is 4,194,304), and no other test's
PERIOD_NS = 1_000_000
SAMPLES, WEIGHT = 12, 15

PYTHON, TORCH, VDSO = 1, 2, 3
LIBRARY = "/opt/python/lib/python3.12"
PATHS = {
    PYTHON: "/opt/python/lib/libpython3.12.so.1.0",
    TORCH: f"{LIBRARY}/site-packages/torch/lib/libtorch_cpu.so",
    VDSO: "[vdso]",
}
# module -> (start, size, symbol)
SYMBOLS: dict[str, list[Symbol]] = {
    PATHS[PYTHON]: [
        ("_start", 0x100, 0x20, "symtab"),
        ("Py_BytesMain", 0x200, 0x40, "symtab"),
        ("builtin_exec", 0x300, 0x80, "symtab"),
        ("PyEval_EvalCode", 0x400, 0x80, "symtab"),
        ("builtin_sorted", 0x500, 0x40, "symtab"),
        ("_PyObject_MakeTpCall", 0x600, 0x40, "symtab"),
        ("thread_run", 0x700, 0x40, "symtab"),
        ("_PyEval_EvalFrameDefault.cold", 0x800, 0x40, "symtab"),
        ("__libc_start_main", 0xA00, 0x40, "symtab"),
        ("PyType_Type[16]", 0xB00, 0x40, "exported data"),
    ],
    PATHS[TORCH]: [
        ("_ZN2at4_ops3add4callE", 0x1000, 0x100, "symtab"),
        ("_ZN2at6native9add_stubE", 0x2000, 0x80, "debugdata"),
        ("_ZTV1A[3]", 0x5000, 0x40, "exported data"),
        ("_ZN3c1010Dispatcher4callE", 0x6000, 0x40, "symtab"),
        ("_ZN2at4_ops3add10redispatchE", 0x6100, 0x40, "symtab"),
        ("_ZNSt8_HandlerE", 0x7000, 0x40, "symtab"),
        ("_ZSt13__invoke_implE", 0x7100, 0x40, "symtab"),
    ],
}
DEMANGLED = {
    "_ZN2at4_ops3add4callE": "at::_ops::add::call(at::Tensor const&, c10::Scalar const&)",
    "_ZTV1A": "vtable for A",
    "_ZN3c1010Dispatcher4callE": "at::Tensor c10::Dispatcher::call<at::Tensor>(int) const",
    "_ZN2at4_ops3add10redispatchE": "at::_ops::add::redispatch(at::Tensor const&)",
    "_ZNSt8_HandlerE": "std::_Function_handler<void (), f(int)::{lambda()#1}>::_M_invoke()",
    "_ZSt13__invoke_implE": "void std::__invoke_impl<void, f(int)::{lambda()#1}&>(int)",
    "_ZN2at6native9add_stubE": "at::native::add_stub; odd\nname",
}


class FakeSymbols:
    """Stands for `_symbolize.ElfSymbols`, over the table above."""

    def __init__(self, path: str, build_id: str | None) -> None:
        if path not in SYMBOLS:
            raise FileNotFoundError(2, "No such file or directory", path)
        self._symbols = SYMBOLS[path]

    def resolve(self, addresses: Iterable[int]) -> list[Symbol | None]:
        """The symbol that covers each address."""
        return [
            next((s for s in self._symbols if s[1] <= address < s[1] + s[2]), None)
            for address in addresses
        ]


def fake_symbols() -> tuple[Loader, Demangle]:
    """What `finish` and `Profile.open` take as `symbols`."""
    return FakeSymbols, lambda name: DEMANGLED.get(name, name)


class AllInTables:
    """A file whose symbol table has a function at every 256 bytes."""

    def __init__(self, path: str, build_id: str | None) -> None:
        pass

    def resolve(self, addresses: Iterable[int]) -> list[Symbol | None]:
        """The symbols that cover `addresses`."""
        return [(f"f{at >> 8:x}", at & -256, 256, "symtab") for at in addresses]


def all_in_tables() -> tuple[Loader, Demangle]:
    """Symbols that perf finds, too: it is told the addresses."""
    return AllInTables, str


def example(end: bool = True) -> SpoolWriter:
    """The profile's spool; without `end` as a killed process leaves it."""
    spool = SpoolWriter(PID)
    spool.meta(pid=PID)
    spool.module(PYTHON, PATHS[PYTHON], 0x7F0000000000, build_id=b"\x01" * 20)
    spool.module(TORCH, PATHS[TORCH], 0x7F1000000000, build_id=b"\x02" * 20)
    spool.module(VDSO, PATHS[VDSO], 0x7FFF00000000, size=0x1000, build_id=b"")
    # One location entry: 8 code units on the first line, then 8 two lines below.
    spool.code(3, "<module>", "/home/me/workload.py", 1, table=b"\xd7\x00\x00\xe7\x00\x00")
    spool.code(4, "main.<locals>.step", "/home/me/workload.py", 10, first_traceable=2)
    spool.code(5, "Linear.forward", f"{LIBRARY}/site-packages/torch/nn/modules/linear.py", 130)
    spool.code(6, "__init__", "<shim>", 0, first_traceable=4)
    spool.code(7, "Thread._bootstrap", f"{LIBRARY}/threading.py", 990)
    spool.thread(1, PID, "python", "MainThread")
    spool.thread(2, 4250, "python", "loader;1")

    root = [native(PYTHON, 0x110), native(PYTHON, 0x210)]
    program = [*root, native(PYTHON, 0x410), python(3, 9)]
    step = [*program, native(PYTHON, 0x510), native(PYTHON, 0x610), python(4, 6)]
    add = [*step, python(5, 3), native(TORCH, 0x1010)]
    thread = [native(PYTHON, 0x710), python(7, 2)]
    main_stacks = [
        spool.stack(*add, native(TORCH, 0x2010)),
        spool.stack(*add, native(TORCH, 0x2018)),
        spool.stack(*add, native(TORCH, 0x3010)),  # no symbol, its FDE is known
        spool.stack(*add, native(TORCH, 0x4010)),  # neither
        spool.stack(*add, pseudo(2), native(0, 0x7E0000000040)),  # JIT code
        spool.stack(*step, python(6, 1), python(5, 1)),  # through the __init__ shim
        spool.stack(*step, python(6, 1)),  # the shim itself
        spool.stack(*root, native(PYTHON, 0x510)),  # no Python frame
        spool.stack(*root, native(PYTHON, 0x410)),  # nothing but plumbing
        spool.stack(pseudo(1), python(5, 3)),
    ]
    thread_stacks = [spool.stack(*thread), spool.stack(*thread, native(VDSO, 0x810))]
    spool.functions(
        {native(TORCH, 0x3010): native(TORCH, 0x3000), native(VDSO, 0x810): native(VDSO, 0x800)}
    )
    spool.stacks()
    spool.samples(1, main_stacks, weights=[(1, 4)])
    spool.samples(2, thread_stacks, first_ns=2_000_500_000)
    spool.counters(1, 10, 13, lost=(2, 1), cpu_ns=16_000_000, handler=(0,) * 16 + (10,))
    spool.counters(2, 2, 2, cpu_ns=2_000_000, missed_weight=1)
    if end:
        spool.end()
    return spool

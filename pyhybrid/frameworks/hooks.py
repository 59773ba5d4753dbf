"""What is done when the program imports a framework, when profiling pauses, and when it ends.

Without the framework nothing of it is loaded.
"""

from __future__ import annotations

import sys
from types import CodeType, ModuleType

from pyhybrid.base.own_modules import Ours

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyhybrid.frameworks.torch_steps import RankSearch, Steps

TORCH_MODULE = "torch.nn.modules.module"
TORCH_FILE = "/torch/nn/modules/module.py"


def watch(
    native: ModuleType,
    objects: bool,
    steps: bool,
    compilers: bool,
    shapes: bool,
    memory: str | None,
    gpu: tuple[int, int] | None,
    ranks: Callable[[], dict[str, int]],
    begins: Callable[[CodeType], object] | None = None,
) -> None:
    """Register a framework with `native` (pyhybrid._native), now or once it is imported: its
    `objects`, the functions that `steps` are made of, and its compilers, unless what `compilers`
    call is to be counted.  `shapes`: those of its operators are noted.  `memory`: what its
    allocators give out is followed, and a snapshot of a GPU's is named by this; empty: there is
    none; None: it is not followed.  `gpu`: of how many of each so many steps the GPU's work is
    recorded; None: of none.  `ranks` returns what a launcher gave this process: where that is
    nothing yet, it is asked again, as the framework is.  `begins` is called with the code of the
    framework's package when that is being imported."""

    follows = memory is not None
    links = objects or gpu or follows  # what a backward pass does to what made it
    followers: list[Steps | RankSearch] = []
    if gpu or follows:
        import array  # noqa: F401 - while it is sought where ours are

    def register(method: CodeType | None, file: str) -> None:
        with Ours():
            from pyhybrid.frameworks import torch
        if objects:
            torch.register_modules(native, method)
        above = file.removesuffix(TORCH_FILE)
        if gpu:
            with Ours():
                from pyhybrid.frameworks import torch_gpu
            follow(torch_gpu.begin(native, above, *gpu))
        elif steps or follows:
            torch.register_steps(native, above)
        if (gpu or steps or follows) and not ranks():
            with Ours():
                from pyhybrid.frameworks import torch_steps
            one = torch_steps.RankSearch(native, ranks, drop)
            if one.goes_on():
                follow(one)
        if not compilers:
            torch.register_compilers(native)

    def follow(one: Steps | RankSearch) -> None:
        followers.append(one)
        listen()

    def drop(one: RankSearch) -> None:
        if one in followers:
            followers.remove(one)
            listen()

    def listen() -> None:
        only = followers[0].begins if followers else None
        native.on_watched(_each(followers) if followers[1:] else only)

    def begin(is_new: bool = True) -> None:
        from pyhybrid.frameworks import torch

        if steps:
            torch.note_inputs(native)
        if links:
            torch.link_backward(native)
        if shapes:
            torch.note_shapes(native, is_new)
        if memory is not None:
            with Ours():
                from pyhybrid.frameworks import torch_device_memory, torch_memory
            if memory:
                torch_device_memory.begin(native, memory)
            one = torch_memory.begin(native)
            if one:
                follow(one)

    def found(code: CodeType) -> None:
        with Ours():
            from pyhybrid.frameworks import torch
        register(torch.method_in(code), code.co_filename)
        awaits = links or shapes or steps or follows
        package = torch.package_that_runs() if awaits or begins else None
        if begins and package:
            begins(package)
        if not awaits:
            return
        if package is not None and not native.await_end(package, begin):
            why = "nothing tells when PyTorch is imported (-t, --include)"
            for what in ["shapes"] * shapes + ["memory"] * follows:
                torch.write_off(native, what, why)

    loaded = sys.modules.get(TORCH_MODULE)
    if loaded is None:
        native.await_code(TORCH_FILE, found)
        return
    from pyhybrid.frameworks import torch

    register(torch.method_of(loaded), str(loaded.__file__))
    begin(is_new=False)


def _each(followers: list[Steps | RankSearch]) -> Callable[[CodeType], None]:
    def begins(code: CodeType) -> None:
        for one in tuple(followers):
            one.begins(code)

    return begins


def pause() -> None:
    """Count nothing from now on, on any thread: the GPU's work is not counted, either."""
    known = sys.modules.get("pyhybrid.frameworks.torch_gpu")
    if known:
        known.pause()


def metadata(native: ModuleType, measures: bool) -> dict[str, Any]:
    """Return what a framework that the program imported knows of the run, as metadata of the
    profile.

    Imports nothing, and runs nothing of the program's; where it may `measure`, because the program
    has ended, and with --torch shapes, some products of matrices.
    """
    names = "torch", "torch_gpu", "torch_memory", "torch_device_memory"
    known = [f"pyhybrid.frameworks.{name}" for name in names]
    loaded = [sys.modules[name] for name in known if name in sys.modules]
    facts = {key: value for each in loaded for key, value in each.metadata(native).items()}
    if measures and facts.get("shapes"):
        from pyhybrid.frameworks import torch

        facts["peak"] = torch.measured_peak(facts["shapes"])
    return facts

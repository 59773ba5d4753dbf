"""Frameworks whose programs are told in their own terms: what is known of them, as data.

Each is a table, NAME.toml, and a module of its name, which is imported where the program imports
the framework, and by what shows its profile.  Without the framework nothing of it is loaded.
"""

import sys
from types import CodeType, ModuleType

TORCH_MODULE = "torch.nn.modules.module"
TORCH_FILE = "/torch/nn/modules/module.py"


def watch(native: ModuleType) -> None:
    """Tell `native` (pyhybrid._native) of a framework's objects, now or once it is imported."""

    def found(code: CodeType) -> None:
        from pyhybrid.frameworks import torch

        torch.tell(native, torch.method_in(code))

    loaded = sys.modules.get(TORCH_MODULE)
    if loaded is None:
        native.await_code(TORCH_FILE, found)
        return
    from pyhybrid.frameworks import torch

    torch.tell(native, torch.method_of(loaded))

"""Frameworks whose programs are told in their own terms: what is known of them, as data.

Each is a table, NAME.toml, and a module of its name, which is imported where the program imports
the framework, and by what shows its profile.  Without the framework nothing of it is loaded.
"""

import sys
from types import CodeType, ModuleType

TORCH_MODULE = "torch.nn.modules.module"
TORCH_FILE = "/torch/nn/modules/module.py"


def watch(native: ModuleType, objects: bool, steps: bool) -> None:
    """Tell `native` (pyhybrid._native) of a framework, now or once it is imported: of its
    `objects`, and of the functions that `steps` are made of.
    """

    def found(code: CodeType) -> None:
        from pyhybrid.frameworks import torch

        if objects:
            torch.tell(native, torch.method_in(code))
        if steps:
            torch.tell_steps(native, code.co_filename.removesuffix(TORCH_FILE))

    loaded = sys.modules.get(TORCH_MODULE)
    if loaded is None:
        native.await_code(TORCH_FILE, found)
        return
    from pyhybrid.frameworks import torch

    if objects:
        torch.tell(native, torch.method_of(loaded))
    if steps:
        torch.tell_steps(native, str(loaded.__file__).removesuffix(TORCH_FILE))

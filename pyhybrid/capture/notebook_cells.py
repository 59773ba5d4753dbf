"""The cells of the notebook in which the program runs, by the files that IPython names for them.

There are no such files: a cell's code names one that says nothing to a reader.
"""

import sys
from typing import Any


def notebook_cells() -> dict[str, str]:
    """The name of each cell that was run, `Cell [3]`, by its file; none where there is no IPython.

    Never raises: it is the program's IPython.
    """
    try:
        return _cells(sys.modules.get("IPython.core.interactiveshell"))
    except Exception:
        return {}


def _cells(module: Any) -> dict[str, str]:
    if module is None or not module.InteractiveShell.initialized():
        return {}
    numbers = module.InteractiveShell.instance().compile._filename_map
    return {str(file): f"Cell [{number}]" for file, number in numbers.items()}

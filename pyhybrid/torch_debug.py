"""For PyTorch's distributed debug server: a page of what is recorded of ranks, and the verdict.

    import pyhybrid.torch_debug
    from torch.distributed.debug import start_debug_server

    start_debug_server(handlers=pyhybrid.torch_debug.handlers())

Each rank calls it.  The page is `/pyhybrid`; a rank answers with the summary of what it has
recorded so far, which a process beside it makes then.  Of ranks that are not profiled it says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from pyhybrid.capture import children, profiling_run
from pyhybrid.capture.output_lock import RANKS

__all__ = ["RanksPage", "handlers"]

NAME = "pyhybrid"
PATIENCE_S = 120


def handlers() -> list[Any]:
    """Return the handlers that PyTorch's server has by itself, and ours, for `start_debug_server`.

    Raises ImportError where PyTorch has no such server, or lacks what that needs.
    """
    from torch.distributed.debug._debug_handlers import default_handlers

    register()
    return [*default_handlers(), RanksPage()]


def register() -> None:
    """Let this process answer to the server, if it is a rank of a run or not."""
    import ctypes

    from torch._C._distributed_c10d import _register_handler

    # It keeps the function beyond the interpreter's end, and would free it there.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_answer))
    _register_handler(NAME, _answer)


class RanksPage:
    """The page of all ranks, as `torch.distributed.debug` takes a handler."""

    fetch_timeout = float(PATIENCE_S)  # the server sets another one

    def __init__(self) -> None:
        """Note where the ranks' profiles are."""
        run = profiling_run.of_command_line
        folder = os.path.dirname(run.spool) if run and run.prefix else ""
        self.folder = folder if folder.endswith(RANKS) else ""

    def routes(self) -> list[Any]:
        """Return the one page."""
        from torch.distributed.debug._frontend import Route

        return [Route(f"/{NAME}", self._page)]

    def nav_links(self) -> list[Any]:
        """Return the link to it."""
        from torch.distributed.debug._frontend import NavLink

        return [NavLink(f"/{NAME}", "pyhybrid: slow ranks, and why")]

    def templates(self) -> dict[str, str]:
        """Return none: the server has one for texts."""
        return {}

    def dump_filename(self) -> str:
        """Return the name of its periodic dumps."""
        return NAME

    def dump(self) -> str:
        """Return the verdict."""
        return self.verdict()

    def verdict(self) -> str:
        """Return what `pyhybrid ranks` says of what is written so far."""
        if not self.folder:
            return "no folder of ranks: `torchrun ... -m pyhybrid train.py` makes one"
        return _said("ranks", self.folder)

    def _page(self, request: Any) -> bytes:
        from torch.distributed.debug._frontend import Response, fetch_all

        places, answers = fetch_all(NAME, timeout=self.fetch_timeout)
        page: bytes = request.frontend.render_template(
            "raw_resp.html",
            title=NAME,
            addrs=[f"pyhybrid ranks {self.folder}", *places],
            resps=[Response(200, self.verdict()), *answers],
        )
        return page


def _answer(request: Any, response: Any) -> None:
    """Answer with the summary of this process's profile so far."""
    run = profiling_run.of_command_line
    if not run or run.pid != os.getpid() or not run.native.running():
        text = "this process is not profiled"
    else:
        run.native.flush()
        text = _said("report", run.spool)
    response.set_content(text.encode("utf-8", "backslashreplace"), "text/plain")
    response.set_status(200)


def _said(*words: str) -> str:
    """Return what the command line prints; it is no child of the run."""
    run = profiling_run.of_command_line
    python = (run.python if run else None) or sys.executable
    others = (children.VARIABLE, *(name for names in children.RANK_VARIABLES for name in names))
    environment = {name: value for name, value in os.environ.items() if name not in others}
    command = [python, "-P", "-m", "pyhybrid", *words]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{' '.join(command)}: {error}"
    return done.stdout or done.stderr

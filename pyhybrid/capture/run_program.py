"""The profiled program: found, and run as `__main__` as the interpreter would do it.

Source: CPython Modules/main.c (pymain_run_python), Python/pylifecycle.c (add_main_module).
"""

import os
import sys
from collections.abc import Callable
from types import ModuleType

from pyhybrid.base import own_modules
from pyhybrid.errors import UsageError


def _is_path_entry(path: str) -> bool:
    """Is it a folder or archive, from which modules are imported (PyImport_GetImporter)?"""
    for hook in sys.path_hooks:
        try:
            return hook(path) is not None
        except ImportError:
            continue
    return False


class Program:
    """Find what the command line names: a script, a folder or zip file, `-m module` or `-c code`.

    The constructor raises UsageError if there is no such thing; `prepare` makes `sys.argv`,
    `sys.path` and `__main__` what the program expects; `run` runs it.
    """

    def __init__(self, words: list[str]) -> None:
        self.kind = words[0] if words[0] in ("-m", "-c", "-") else "script"
        if self.kind in ("-m", "-c"):
            if len(words) < 2:
                raise UsageError(f"{self.kind} needs a value (see --help)")
            self.target, self.arguments = words[1], [self.kind, *words[2:]]
        else:
            self.target, self.arguments = words[0], words
        if self.kind == "script":
            self._check_script(words[0])

    def _check_script(self, name: str) -> None:
        """Check it, and open nothing: it may be a pipe."""
        try:
            # Not normalized, as the interpreter does it.
            self.target = os.path.join(os.getcwd(), name)
            os.stat(self.target)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"can't open {name!r}: {reason}") from None
        if not os.access(self.target, os.R_OK):
            raise UsageError(f"can't open {name!r}: Permission denied")
        if _is_path_entry(self.target):
            self.kind = "folder"  # runpy reports where it has no `__main__`

    def prepare(self) -> None:
        """Set up `sys` and `__main__`; what is imported from now on is the program's."""
        own_modules.hand_back()
        self.launcher = sys.modules["__main__"]  # its globals are in use on our stack
        main = sys.modules["__main__"] = ModuleType("__main__")
        main.__loader__ = sys.__loader__
        vars(main)["__builtins__"] = sys.modules["builtins"]
        if sys.version_info < (3, 14):
            vars(main)["__annotations__"] = {}
        sys.argv[:] = self.arguments
        if self.kind == "script":
            self._set_path(os.path.dirname(os.path.realpath(self.target)))
        elif self.kind == "folder":
            self._set_path(self.target)
        else:
            self._set_path(os.getcwd() if self.kind == "-m" else "")

    def _set_path(self, first: str) -> None:
        """Set `sys.path[0]`, which is the launcher's own, unless -P or -I left it out."""
        if not sys.flags.safe_path:
            sys.path[0] = first
        elif self.kind == "folder":
            sys.path.insert(0, first)

    def run(self, begin: Callable[[], None]) -> None:
        """Run the program, and end as it did; an exception has then been reported.

        `begin` is called last before that.
        """
        if self._execute(begin):
            return
        if isinstance(getattr(sys, "last_exc", None), KeyboardInterrupt):
            sys.excepthook = lambda *_: None
            raise KeyboardInterrupt  # for the interpreter to die of the signal
        sys.exit(1)

    def _execute(self, begin: Callable[[], None]) -> bool:
        from pyhybrid import _native

        if self.kind in ("script", "-"):
            path = None if self.kind == "-" else os.fsencode(self.target)
            begin()
            file = _native.ProgramFile(path)
            # `filter` asks for its truth value: it runs.  At -1 without an exception, filter ends.
            succeeded = next(filter(None, [file, True]), False)
            _native.end_file(file, not succeeded)
            return succeeded is True
        finder, error, all_errors = None, None, BaseException
        if self.kind == "-c":
            code = _native.compile_command(self.target)
            if not code:
                return False
            begin()
            call: Callable[..., object] = _native.begin_code
            arguments: tuple[object, ...] = (code,)
        else:
            import runpy

            as_module = self.kind == "-m"
            name = self.target if as_module else "__main__"
            functions = runpy._run_code, runpy._run_module_as_main  # type: ignore[attr-defined]
            finder = functions[0].__code__.co_filename
            begin()
            call, arguments = _native.begin_call, (*functions, name, as_module)
        try:
            call(*arguments)
        except all_errors as raised:
            error = raised
        _native.end_program(error, finder)  # nobody keeps what it returns: that reports the error
        _native.end_program(None, None)
        return not error

"""Debug files from debuginfod servers, by build-id: the one module that knows libdebuginfod.

The library is part of elfutils.  It asks the servers in $DEBUGINFOD_URLS and keeps what it gets
where all its users look ($DEBUGINFOD_CACHE_PATH, else ~/.cache/debuginfod_client).  It is loaded
only where someone asked for it: without `--debuginfod` nothing is ever fetched.

Source: debuginfod_find_debuginfo(3).
"""

import ctypes
import errno
import os
import threading
from collections.abc import Callable

from pyhybrid.errors import PyhybridError
from pyhybrid.visible import say

LIBRARY = "libdebuginfod.so.1"


class Debuginfod:
    """A session with the servers; `notes` says what went wrong."""

    def __init__(self) -> None:
        """Raises PyhybridError where the library is missing or no server is named."""
        self.notes: list[str] = []
        if not os.environ.get("DEBUGINFOD_URLS", "").strip():
            raise PyhybridError("--debuginfod: $DEBUGINFOD_URLS names no server")
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError:
            raise PyhybridError(f"--debuginfod needs {LIBRARY}, which is not here") from None
        self._library.debuginfod_begin.restype = ctypes.c_void_p
        self._find = self._library.debuginfod_find_debuginfo
        self._find.argtypes = [
            *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int),
            ctypes.POINTER(ctypes.c_void_p),
        ]
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]
        self._library.debuginfod_end.argtypes = [ctypes.c_void_p]
        self._client = self._library.debuginfod_begin()
        if not self._client:
            raise PyhybridError(f"--debuginfod: {LIBRARY} does not start")
        self._idle = True

    def find(self, build_id: str, module: str) -> str | None:
        """The path of the debug file of this build of `module`; None: no server has it.

        That may take minutes: it is said on stderr, and can be interrupted.
        """
        name = os.path.basename(module)
        say(f"asking debuginfod for {name} ...")
        path = ctypes.c_void_p()
        raw = bytes.fromhex(build_id)
        found = self._wait_for(self._find, self._client, raw, len(raw), ctypes.byref(path))
        if found < 0:
            if -found != errno.ENOENT:
                self.notes.append(f"debuginfod: {build_id}: {os.strerror(-found)}")
            return None
        os.close(found)
        try:
            return os.fsdecode(ctypes.string_at(path))
        finally:
            self._free(path)

    def _wait_for(self, call: Callable[..., int], *arguments: object) -> int:
        """The call's result; the wait for it can be interrupted, the call cannot.

        Newer libraries ask for minutes without a look at their progress function.
        """
        results: list[int] = []
        thread = threading.Thread(target=lambda: results.append(call(*arguments)), daemon=True)
        self._idle = False
        thread.start()
        thread.join()
        self._idle = True
        return results[0]

    def __enter__(self) -> "Debuginfod":
        return self

    def __exit__(self, *_: object) -> None:
        if self._idle:  # else a thread is still in the library
            self._library.debuginfod_end(self._client)

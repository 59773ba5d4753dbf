"""Debug files from debuginfod servers, by build-id: the one module that knows libdebuginfod.

The library is part of elfutils.  It asks the servers in $DEBUGINFOD_URLS and keeps what it gets
where all its users look ($DEBUGINFOD_CACHE_PATH, else ~/.cache/debuginfod_client).  It is loaded
only where someone asked for it: without `--debuginfod` nothing is ever fetched.

Source: debuginfod_find_debuginfo(3).
"""

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyhybrid.errors import PyhybridError

LIBRARY = "libdebuginfod.so.1"
_PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)


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
        self._interrupted = False
        self._progress = _PROGRESS(lambda *_: self._interrupted)  # the library asks: give up?
        self._library.debuginfod_set_progressfn.argtypes = [ctypes.c_void_p, _PROGRESS]
        self._library.debuginfod_set_progressfn(self._client, self._progress)

    def find(self, build_id: str, module: str) -> str | None:
        """The path of the debug file of this build of `module`; None: no server has it.

        That may take minutes: it is said on stderr, and can be interrupted.
        """
        name = os.path.basename(module)
        print(f"pyhybrid: asking debuginfod for {name} ...", file=sys.stderr, flush=True)
        path = ctypes.c_void_p()
        raw = bytes.fromhex(build_id)
        with self._interruptible():
            found = self._find(self._client, raw, len(raw), ctypes.byref(path))
        if found < 0:
            if -found != errno.ENOENT:
                self.notes.append(f"debuginfod: {build_id}: {os.strerror(-found)}")
            return None
        os.close(found)
        try:
            return os.fsdecode(ctypes.string_at(path))
        finally:
            self._free(path)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """SIGINT makes the library return, and has its usual effect then.

        Python's handler runs in the library's callback, where nothing may be raised.
        """
        usual = signal.getsignal(signal.SIGINT)
        if not callable(usual):  # ignored, or deadly as it is
            yield
            return

        def interrupt(*_: object) -> None:
            self._interrupted = True

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, usual)
        if self._interrupted:
            self._interrupted = False
            signal.raise_signal(signal.SIGINT)

    def __enter__(self) -> "Debuginfod":
        return self

    def __exit__(self, *_: object) -> None:
        self._library.debuginfod_end(self._client)

"""Is there room beside the program?  What we take it must not miss.

Imports are few and light: the program waits for them.
"""

from pyhybrid.errors import PyhybridError

# By the name in /proc/PID/limits: what we take.  Tables are reserved for all nodes there may be.
_FILES = {"Max open files": 8}
_MEMORY = {"Max address space": 160 << 20, "Max data size": 160 << 20}
_SHARE = 4  # of the limit, one in so many is ours at most
_TO_BEGIN = 48 << 20  # what the interpreter takes that imports all that we need, and some more


def _limits() -> dict[str, int]:
    try:
        with open("/proc/self/limits", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:  # no /proc, or no descriptor: what comes next finds out
        return {}
    soft = {line[:26].rstrip(): line[26:].split()[:1] for line in lines}
    return {name: int(n) for name, (n,) in soft.items() if n.isdigit()}


def check_room() -> None:
    """Raises PyhybridError where limits leave the program too little beside us."""
    limits = _limits()
    for name, ours in {**_FILES, **_MEMORY}.items():
        limit = limits.get(name)
        if limit is not None and limit < ours * _SHARE:
            raise PyhybridError(
                f"{name[0].lower()}{name[1:]} is {limit} here (ulimit), and profiling takes "
                f"{ours}: that leaves the program too little"
            )


def check_memory() -> None:
    """The same, before more is imported: where there is no memory CPython may loop for ever.

    Its eval loop does (3.12: exception_unwind), where it cannot make the number of an instruction.
    """
    limits = _limits()
    if any(limits.get(name, _TO_BEGIN) < _TO_BEGIN for name in _MEMORY):
        check_room()

"""Run a command as most users run a program: no privileges, and perf_event_open refused.

    python tests/as_user.py [--with-perf-event] COMMAND ARG...

As root, the command runs as `nobody`, without capabilities, with HOME and TMPDIR in a fresh folder.
What Python needs may lie below a folder that only root can enter (its home); then, in a mount
namespace of its own, that folder is covered by an empty one in which just the needed paths are
mounted again, so every absolute path stays valid.  The sockets of root's LTTng daemon are covered,
too, which programs of every user register with.  As an ordinary user, only the filter is set.

The filter is what container engines install by default: perf_event_open fails with EPERM.
`--with-perf-event` leaves it out: then the machine's kernel.perf_event_paranoid decides.

Exit code: the command's; 77 where the kernel does not permit this, with the reason on stderr.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import stat
import struct
import sys
import tempfile

NOT_PERMITTED = 77

# mount(2), prctl(2), seccomp(2), linux/filter.h, linux/audit.h
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
BPF_LOAD_WORD, BPF_JUMP_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06
PERF_EVENT_OPEN = {"x86_64": (0xC000003E, 298), "aarch64": (0xC00000B7, 241)}

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    strings = [text and text.encode() for text in (source, target, kind)]
    check(libc.mount(*strings, ctypes.c_ulong(flags), data.encode()), f"mount on {target}")


def closed_ancestor(path: str) -> str | None:
    """The outermost folder on the way to `path` that others may not enter."""
    parts = path.split("/")
    for i in range(2, len(parts)):
        folder = "/".join(parts[:i])
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return folder
    return None


def needed_paths() -> set[str]:
    """The interpreter, every folder it imports from, the clone, this folder: links resolved."""
    executable = os.path.realpath(sys.executable)
    clone = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [clone, os.getcwd(), os.path.dirname(executable), sys.prefix, sys.base_prefix]
    paths = [*folders, *sys.path]
    return {os.path.realpath(path) for path in paths if path and os.path.exists(path)}


def own_mount_namespace() -> None:
    os.unshare(os.CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def open_the_way() -> None:
    """Make the needed paths reachable for everyone, for this process and its children only."""
    behind: dict[str, set[str]] = {}
    for path in needed_paths():
        if closed := closed_ancestor(path):
            behind.setdefault(closed, set()).add(path)
    if not behind:
        return
    own_mount_namespace()
    for closed, paths in behind.items():
        # A path below another one comes with it.
        outermost = sorted(p for p in paths if not any(p.startswith(q + "/") for q in paths))
        handles = [os.open(path, os.O_PATH) for path in outermost]
        mount("tmpfs", closed, "tmpfs", 0, "mode=755")
        for path, handle in zip(outermost, handles, strict=True):
            os.makedirs(path, mode=0o755, exist_ok=True)
            mount(f"/proc/self/fd/{handle}", path, None, MS_BIND | MS_REC)
            os.close(handle)


def hide_daemons() -> None:
    if os.path.isdir("/run/lttng"):
        own_mount_namespace()
        mount("tmpfs", "/run/lttng", "tmpfs", 0, "mode=755")


def become_nobody() -> None:
    user = pwd.getpwnam("nobody")
    home = tempfile.mkdtemp(prefix="pyhybrid-user-")
    os.chown(home, user.pw_uid, user.pw_gid)
    os.environ.update(HOME=home, TMPDIR=home, USER="nobody", LOGNAME="nobody")
    os.environ.pop("XDG_CACHE_HOME", None)
    capability = 0
    while libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)


def refuse_perf_event() -> None:
    architecture, number = PERF_EVENT_OPEN[platform.machine()]
    instructions = [
        (BPF_LOAD_WORD, 0, 0, 4),  # seccomp_data.arch
        (BPF_JUMP_EQUAL, 0, 3, architecture),
        (BPF_LOAD_WORD, 0, 0, 0),  # seccomp_data.nr
        (BPF_JUMP_EQUAL, 0, 1, number),
        (BPF_RETURN, 0, 0, SECCOMP_RET_ERRNO | 1),  # EPERM
        (BPF_RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in instructions))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    )
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0), "seccomp")


def main() -> int:  # noqa: RET503 - execvp does not return
    command = sys.argv[1:]
    filtered = command[:1] != ["--with-perf-event"]
    command = command[not filtered :]
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if os.geteuid() == 0:
            open_the_way()
            hide_daemons()
            os.chdir(os.getcwd())  # into the new mount, not the one that is now covered
            become_nobody()
        if filtered:
            refuse_perf_event()
    except OSError as error:
        print(f"as_user: LEFT OUT, not permitted here: {error}", file=sys.stderr)
        return NOT_PERMITTED
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())

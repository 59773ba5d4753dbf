"""How frames are written for people: short files, short C++ names, one label per frame."""

import os
import re

from pyhybrid.profile_file import Profile
from pyhybrid.rows import Frame

_LIBRARY = re.compile(r".*/(?:(?:site|dist)-packages|lib(?:64)?/python3\.\d+)/")
_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)")
_CONVERSION = re.compile(r"\boperator \w")
_MANGLED_START = re.compile(r"_ZZ*NK?|_ZZ*")
_LENGTH = re.compile(r"\d{1,4}")
_OPERATOR = re.compile(r"\boperator(?:\(\)|<<=?|>>=?|<=>|<=?|->\*?|>=?)")


def shorten_file(file: str, directory: str) -> str:
    """The file as seen from its import path or from `directory`, where it lies below either."""
    short = _LIBRARY.sub("", file, count=1)
    if short == file and directory and file.startswith(os.path.join(directory, "")):
        short = file[len(os.path.join(directory, "")) :]
    return short


def shorten_cpp(name: str) -> str:
    """A demangled C++ name without its parameters, template arguments and return type.

    `void at::native::f<float, 4>(at::Tensor const&)::{lambda()#1}` -> `at::native::f::{lambda#1}`.
    """
    if name.startswith("_Z"):
        return _shorten_mangled(name)
    if "(" not in name and "<" not in name:
        return name
    short = name.replace("(anonymous namespace)", "{anonymous}")
    operators: list[str] = []

    def hide(match: re.Match[str]) -> str:
        operators.append(match.group())
        return f"\0{len(operators) - 1}\0"

    short = _OPERATOR.sub(hide, short)
    before = ""
    while before != short:
        before, short = short, _NESTED.sub("", short)
    for number, operator in enumerate(operators):
        short = short.replace(f"\0{number}\0", operator)
    short = re.sub(r" (?:const|volatile|&&?|\[clone [^]]*\])(?=$| |::)", "", short).strip()
    if not _CONVERSION.search(short):  # these have no return type, but a space
        short = short.rsplit(" ", 1)[-1]
    return short or name


def _shorten_mangled(name: str) -> str:
    """The plain beginning of a mangled name that the demangler gave up on: `at::internal::f…`."""
    start = _MANGLED_START.match(name)
    parts: list[str] = []
    at = start.end() if start else len(name)
    while length := _LENGTH.match(name, at):
        end = length.end() + int(length.group())
        parts.append(name[length.end() : end].replace("_GLOBAL__N_1", "{anonymous}"))
        at = end
    return "::".join(parts) + "…" if parts else name


def short_time(ns: int) -> str:
    """A length of time in the largest unit that it fills, three digits of it: `1.5 ms`."""
    units = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))
    unit, size = next((each for each in units if ns >= each[1]), units[-1])
    return f"{ns / size:.0f} {unit}" if ns >= 100 * size else f"{ns / size:.3g} {unit}"


class Labels:
    """One label per frame id, the same everywhere: `forward (torch/nn/modules/linear.py:130)`."""

    def __init__(self, profile: Profile, full_names: bool = True) -> None:
        """Labels for all frames of the profile; C++ names shortened unless `full_names`."""
        self._directory = str(profile.meta.get("cwd") or "")
        self._full_names = full_names
        self.of_frame = {frame.id: self._label(frame) for frame in profile.frames.values()}

    def _label(self, frame: Frame) -> str:
        if frame.kind == "python":
            return f"{frame.name} ({shorten_file(frame.file or '?', self._directory)}:{frame.line})"
        if frame.kind == "region":
            return f"[{frame.name}]"
        if frame.kind == "kernel" and frame.symbol:
            return f"{frame.name}_[k]"  # as FlameGraph's tools mark them
        if frame.kind == "native" and not self._full_names:
            return shorten_cpp(frame.name)
        return frame.name


def losses_text(losses: dict[str, int]) -> str:
    """`22 ring full, 1 too slow`, or `none`."""
    return ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in losses.items()) or "none"


def shares_text(shares: dict[str, float]) -> str:
    """`97.1% complete, 2.9% re-anchored`."""
    return ", ".join(f"{share:.1%} {name.replace('_', '-')}" for name, share in shares.items())

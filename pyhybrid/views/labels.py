"""How frames are written for people: short files, short native names, one label per frame."""

import os
import re
from collections.abc import Callable
from functools import cache

from pyhybrid.base.name_patterns import LIBRARY_FOLDER
from pyhybrid.base.pseudo_frames import PLT
from pyhybrid.symbols.called_lambdas import lambda_called
from pyhybrid.tables import Frame
from pyhybrid.tables.profile import Profile

KERNEL, INLINED = "_[k]", "_[i]"  # at the end of labels, as FlameGraph's tools mark these

_NESTED = re.compile(r"<[^<>]*>|\([^()]*\)")
_PYTHON_LABEL = re.compile(r"(.*) \(.*:\d+\)")
_CONVERSION = re.compile(r"\boperator \w")
_MANGLED_START = re.compile(r"_ZZ*NK?|_ZZ*")
_LENGTH = re.compile(r"\d{1,4}")
# Copies, parts and renamed locals, by gcc and LLVM; a demangler writes them as `[clone .cold]`.
_CLONE = re.compile(r"(?:\.(?:cold|constprop|isra|llvm|lto_priv|part)(?:\.\d+)*)+$")
# What only Rust's names have; C++'s begin with a name, and have no `::` before arguments.
_RUST = re.compile(r"^<|::<")
_RUST_ARGUMENTS = re.compile(r"\bfor<[^<>]*> |(?:(?<=[\w}])|::)<(?!impl )[^<>]*>")
_RUST_SELF = re.compile(r"(?<![\w}:])<([\w:{}#]+)>")  # of an inherent method
_RUST_QUALIFIED = re.compile(r"(?<![\w}:])<([^<>]*)>|<(impl [^<>]*)>")
# What has brackets that are none; legacy symbols of Rust write `.>` for `->`.
_OPERATOR = re.compile(r"\boperator(?:\(\)|<<=?|>>=?|<=>|<=?|->\*?|>=?)|[-.]>")


@cache
def shorten_file(file: str, directory: str) -> str:
    """Return the file as seen from its import path or `directory`, where it lies below either."""
    short = LIBRARY_FOLDER.sub("", file, count=1)
    if short == file and directory and file.startswith(os.path.join(directory, "")):
        short = file[len(os.path.join(directory, "")) :]
    return short


@cache
def shorten_native(name: str) -> str:
    """Remove parameters, generic arguments, return type and compilers' suffixes from a name.

    `void at::native::f<float, 4>(at::Tensor const&)::{lambda()#1}` -> `at::native::f::{lambda#1}`;
    `<Vec<u8> as std::io::Write>::write_all::<T>` -> `<Vec as std::io::Write>::write_all`;
    `builtin_abs.lto_priv.0` -> `builtin_abs`.
    """
    for suffix in (INLINED, PLT):
        if name.endswith(suffix):
            return shorten_native(name.removesuffix(suffix)) + suffix
    if name.startswith("_Z"):
        return _shorten_mangled(name)
    if "(" not in name and "<" not in name:
        return _CLONE.sub("", name)
    return _shorten_rust(name) if _RUST.search(name) else _shorten_cpp(name)


def _shorten_rust(name: str) -> str:
    """Remove generic arguments; what a method belongs to stays: `<T as Trait>`, `<[T]>`, `Vec`."""
    short, before = name.replace("->", "\0").replace(" .> ", " \0 "), ""
    while before != short:
        before, short = short, _RUST_ARGUMENTS.sub("", short)
        if before == short:  # no arguments are left but those around what is in brackets itself
            short = _RUST_QUALIFIED.sub("\1\\1\\2\2", _RUST_SELF.sub(r"\1", short))
    return short.replace("\0", "->").replace("\1", "<").replace("\2", ">")


def _shorten_cpp(name: str) -> str:
    operators: list[str] = []

    def hide(match: re.Match[str]) -> str:
        operators.append(match.group())
        return f"\0{len(operators) - 1}\0"

    plain = _OPERATOR.sub(hide, name.replace("(anonymous namespace)", "{anonymous}"))
    short = _without_arguments(plain)
    short = lambda_called(plain, short, _without_arguments) or short
    for number, operator in enumerate(operators):
        short = short.replace(f"\0{number}\0", operator)
    return short or name


def _without_arguments(name: str) -> str:
    """Remove arguments; operators, which may have brackets, are hidden meanwhile."""
    short, before = name, ""
    while before != short:
        before, short = short, _NESTED.sub("", short)
    short = re.sub(r" (?:const|volatile|&&?|\[clone [^]]*\])(?=$| |::)", "", short).strip()
    if not _CONVERSION.search(short):  # these have no return type, but a space
        short = short.rsplit(" ", 1)[-1]
    return short


def _shorten_mangled(name: str) -> str:
    """Return the plain begin of a mangled name that no demangler takes: `at::internal::f…`."""
    start = _MANGLED_START.match(name)
    parts: list[str] = []
    at = start.end() if start else len(name)
    while length := _LENGTH.match(name, at):
        end = length.end() + int(length.group())
        parts.append(name[length.end() : end].replace("_GLOBAL__N_1", "{anonymous}"))
        at = end
    return "::".join(parts) + "…" if parts else name


def short_time(ns: int) -> str:
    """Return a length of time in the largest unit that it fills, three digits of it: `1.5 ms`."""
    units = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))
    unit, size = next((each for each in units if ns >= each[1]), units[-1])
    return f"{ns / size:.0f} {unit}" if ns >= 100 * size else f"{ns / size:.3g} {unit}"


class Labels:
    """Make a frame's label, the same everywhere: `forward (torch/nn/modules/linear.py:130)`."""

    def __init__(self, profile: Profile, full_names: bool = True, all_frames: bool = False) -> None:
        """Make labels for all frames of a profile; native names are short unless `full_names`.

        Functions without a name are `libfoo.so [nameless]`, as folding makes one line of a run of
        them; with `all_frames` each is `libfoo.so!+0xOFFSET`.
        """
        self._directory = str(profile.meta.get("cwd") or "")
        self._full_names, self._all_frames = full_names, all_frames
        self._modules = profile.modules
        self.of_frame = {frame.id: self._label(frame) for frame in profile.frames.values()}

    def _label(self, frame: Frame) -> str:
        if frame.kind == "python":
            return f"{frame.name} ({shorten_file(frame.file or '?', self._directory)}:{frame.line})"
        if frame.kind == "region":
            return f"{frame.name} [{frame.symbol}]" if frame.is_object else f"[{frame.name}]"
        if frame.kind == "kernel" and frame.symbol:
            return frame.name + KERNEL
        if frame.is_nameless and frame.module and not self._all_frames:
            return f"{os.path.basename(self._modules[frame.module].path)} [nameless]"
        if frame.kind != "native":
            return frame.name
        name = frame.name if self._full_names else shorten_native(frame.name)
        return name + INLINED * frame.inlined


def labels_of(
    profile: Profile, full_names: bool = True, all_frames: bool = False
) -> dict[int, str]:
    """Return each frame's label, by its id: see Labels.  It is made once, and not to be changed."""
    return profile.once(_LABELS[full_names, all_frames])


# Keys of what a profile has made: by `full_names` and `all_frames`.
_LABELS: dict[tuple[bool, bool], Callable[[Profile], dict[int, str]]] = {
    (True, True): lambda profile: Labels(profile, True, True).of_frame,
    (True, False): lambda profile: Labels(profile, True, False).of_frame,
    (False, True): lambda profile: Labels(profile, False, True).of_frame,
    (False, False): lambda profile: Labels(profile, False, False).of_frame,
}


def bare(label: str) -> str:
    """Return a label without file and line, or without C++ arguments."""
    if label.startswith("["):  # `[import torch] (5,171 functions: --imports)`
        return label.partition(" (")[0]
    python = _PYTHON_LABEL.fullmatch(label)
    return python[1] if python else shorten_native(label)


def count(calls: int | None, columns: int = 10) -> str:
    """Return a number of calls in so many columns; what is only sampled has none."""
    text = "" if calls is None else f"{calls:,}"
    return f"{text:>{columns}}" if len(text) <= columns else f"{calls:{columns}.3g}"


def module_of(label: str) -> str:
    """Return the module whose `<module>` has this label: `torch.nn`, as far as its file shows."""
    file = label.removeprefix("<module> (").rpartition(":")[0]
    name = file.removesuffix(".py").removesuffix("/__init__")
    return os.path.basename(name) if name.startswith("/") else name.replace("/", ".") or label


def declared_at(frame: Frame) -> str:
    """Return `file.cpp:12`, where a native function is declared by debug information; else ""."""
    if frame.kind != "native" or not frame.file:
        return ""
    return f"{os.path.basename(frame.file)}:{frame.line}"


def losses_text(losses: dict[str, int]) -> str:
    """Return `22 ring full, 1 too slow`, or `none`."""
    return ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in losses.items()) or "none"


def shares_text(shares: dict[str, float]) -> str:
    """Return `97.1% complete, 2.9% re-anchored`; shares of nothing are `no samples`."""
    if not any(shares.values()):
        return "no samples"
    return ", ".join(f"{share:.1%} {name.replace('_', '-')}" for name, share in shares.items())

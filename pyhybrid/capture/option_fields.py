"""Fields of a class that are options: what the table of options (options.py) is written in.

Imports nothing that takes memory: see options.py.
"""

from __future__ import annotations

from pyhybrid.capture.option_kinds import Kind

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from typing import Any, ClassVar, dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers: a class's fields are its constructor's keywords."""
        return lambda cls: cls


MODES = ("sample", "trace", "hybrid", "none")
_SAME = object()


class Option:
    """One option; its `name` is that of the field that it is written to.

    `group`: under which heading `--help-all` has it.  `brief`: its help in few words, for `--help`,
    which shows only those that have one.
    """

    name: str

    def __init__(
        self,
        *flags: str,
        group: str,
        kind: Kind,
        default: object,
        help: str | None,
        brief: str = "",
        metavar: str | None = None,
        modes: tuple[str, ...] = MODES,
        native: str | None = None,
        at_command_line: object = _SAME,
        keyword_help: str | None = None,
        in_files: bool = True,
    ) -> None:
        self.flags, self.kind, self.metavar = flags, kind, metavar
        self.group, self.brief = group, brief
        self.help, self.keyword_help = help, keyword_help
        self.default, self.modes, self.native = default, modes, native
        self.at_command_line = default if at_command_line is _SAME else at_command_line
        self._in_files = in_files

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def flag(self) -> str:
        """As users of the command line know it."""
        return self.flags[0] if self.flags else self.name

    @property
    def key(self) -> str:
        """As users of configuration files know it; empty: they have no such key."""
        long = [flag.removeprefix("--") for flag in self.flags if flag.startswith("--")]
        return (long or [self.name])[0] if self._in_files else ""


def option(
    *flags: str, group: str, kind: Kind, default: object, help: str | None, **more: Any
) -> Any:
    """An Option, to type checkers a value of its field's type."""
    return Option(*flags, group=group, kind=kind, default=default, help=help, **more)


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Declared:
    """Made with any of its options as keywords; each is an attribute then."""

    options: ClassVar[dict[str, Option]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, Option)}
        cls.options = {**cls.options, **own}

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in self.options:
                raise TypeError(f"there is no option {name!r}: there are {', '.join(self.options)}")
        for name, each in self.options.items():
            setattr(self, name, given.get(name, each.default))

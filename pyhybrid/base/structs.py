"""Classes of records that may be changed: fields with types and defaults, as of dataclasses.

They are made without `exec` and `inspect`, whose import takes a third of the time in which the end
of a run imports what it needs.  Modules that declare some have their annotations as text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, dataclass_transform


class _Made:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def made(make: Callable[[], Any]) -> Any:
    """Return the default of a field that is made anew for each record."""
    return _Made(make)


@dataclass_transform()
class _Fields(type):
    """Make the class: its fields are slots, those of its base first."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **how: Any
    ) -> _Fields:
        own = tuple(space.get("__annotations__", ())) if bases else ()
        defaults = {field: space.pop(field) for field in own if field in space}
        if bases:
            space["__match_args__"] = (*getattr(bases[0], "__match_args__", ()), *own)
            defaults = {**getattr(bases[0], "_defaults", {}), **defaults}
        return super().__new__(
            cls, name, bases, space | {"__slots__": own, "_defaults": defaults}, **how
        )


class Struct(metaclass=_Fields):
    """Hold the fields that a subclass names with their types."""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, /, *values: Any, **named: Any) -> None:
        """Take the values of its fields, in order or by name.  Raises TypeError."""
        fields = self.__match_args__
        for field, value in zip(fields, values, strict=False):
            setattr(self, field, value)
        for field in fields[len(values) :]:
            value = named.pop(field) if field in named else self._defaults.get(field, _MISSING)
            if value is _MISSING:
                raise TypeError(f"{type(self).__name__} lacks {field}")
            setattr(self, field, value.make() if type(value) is _Made else value)
        if named or len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(fields)}")

    def replaced(self, /, **changed: Any) -> Self:
        """Return a copy that differs in these fields."""
        return type(self)(**dict(zip(self.__match_args__, self._values(), strict=True)) | changed)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def _values(self) -> list[Any]:
        return [getattr(self, field) for field in self.__match_args__]


_MISSING = object()

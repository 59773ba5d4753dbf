"""The options as keywords of a function: its signature, and what its documentation says of them."""

import re
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate

from pyhybrid.capture.option_fields import Declared, Option
from pyhybrid.capture.option_kinds import Choice
from pyhybrid.capture.option_lists import Words

if TYPE_CHECKING:
    import inspect

_FLAG = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)(?: (\w+))?")


def with_keywords_of[**P](
    options: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """To type checkers `__init__` takes the keywords that these options are made with."""
    return lambda init: init


class Signature:
    """A class's `__signature__`: these options as keywords.  Made when it is asked for."""

    def __init__(self, options: type[Declared]) -> None:
        self._options = options

    def __get__(self, instance: object, owner: type) -> "inspect.Signature":
        import inspect

        keyword = inspect.Parameter.KEYWORD_ONLY
        types = inspect.get_annotations(self._options)
        return inspect.Signature(
            [
                inspect.Parameter(name, keyword, default=each.default, annotation=types[name])
                for name, each in self._options.options.items()
            ]
        )


def documented(text: str, options: type[Declared]) -> str:
    """The docstring `text`, in which `{options}` stands for a definition list of them."""
    by_flag = {flag: each for each in options.options.values() for flag in each.flags}
    lines = []
    for name, each in options.options.items():
        about = each.keyword_help or each.help or ""
        about = _FLAG.sub(lambda found: _keyword(found, by_flag), about)
        about %= {"default": each.default}
        lines += [name, textwrap.fill(about, 92, initial_indent="    ", subsequent_indent="    ")]
    return text.replace("{options}", textwrap.indent("\n".join(lines), "    ").lstrip())


def _keyword(found: re.Match[str], by_flag: dict[str, Option]) -> str:
    """``mode="none"`` for `--mode none`, ``include`` for `--include`."""
    flag, value = found.groups()
    each = by_flag.get(flag)
    if each is None:
        return found[0]
    if value and isinstance(each.kind, Choice | Words) and value in each.kind.known:
        return f'`{each.name}="{value}"`'
    return f"`{each.name}`" + (f" {value}" if value else "")

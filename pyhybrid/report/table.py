"""Tables as they are declared, and the one way in which all of them are shown.

A listing is what is shown in its order: lines of text, and tables.  As text a table's columns stand
below their headings; as Markdown it is one of that.  What `--json` prints are the figures that the
rows of tables are made of (`plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from pyhybrid.base.terminal_text import visible
from pyhybrid.report.ellipsis import label_within
from pyhybrid.report.terminal import DIM, Line
from pyhybrid.tables.schema import Record

LEAST_LAST = 20  # columns of a last cell, whatever stands before it


def number(value: int) -> str:
    """Return `1,234`."""
    return f"{value:,}"


def seconds(ns: int) -> str:
    """Return `1.234 s`."""
    return f"{ns / 1e9:.3f} s"


def share(value: float) -> str:
    """Return `12.3%`."""
    return f"{value:.1%}"


class Column(Record):
    """A column has its heading, how wide it is, where a row has its value, and how that is shown.

    of: the name of an attribute, or what makes the value of a row; None is an empty cell.  Figures
    are to the right, `width` with what divides them from the column before; 0: as wide as their
    cells need.  Texts are to the `left`, behind two blanks; the last one takes what it needs.
    """

    title: str
    width: int
    of: str | Callable[[Any], Any]
    show: Callable[[Any], str] = str
    left: bool = False

    def cell(self, row: Any) -> str:
        """Return the text of the row's cell."""
        value = getattr(row, self.of) if isinstance(self.of, str) else self.of(row)
        return "" if value is None else visible(self.show(value))


def text(title: str, of: str | Callable[[Any], Any], width: int = 0) -> Column:
    """Return a column of text."""
    return Column(title, width, of, left=True)


class Table(Record):
    """Hold columns, and the rows that they show.

    styles: of a row, that of its figures and that of its last cell.  below: what follows a row,
    whatever columns there are.  rest: the text on rows that are left out, a last cell.
    """

    columns: Sequence[Column]
    rows: Sequence[Any]
    styles: Callable[[Any], tuple[str, str]] = lambda row: ("", "")
    below: Callable[[Any], Iterable[str | Table]] = lambda row: ()
    rest: str = ""

    def cells(self) -> list[list[str]]:
        """Return the texts of its rows."""
        cells = [[column.cell(row) for column in self.columns] for row in self.rows]
        return [*cells, [*[""] * (len(self.columns) - 1), self.rest]] if self.rest else cells

    def lines(self, most: int | None = None) -> Iterator[Line]:
        """Yield it as text; of lines longer than `most` a last cell has its folders or middle
        left out.

        Where no column has a heading, there is no line of these.
        """
        titles, cells = [column.title for column in self.columns], self.cells()
        widths = [
            column.width or 2 + max(map(len, texts)) if not column.left else column.width
            for column, texts in zip(self.columns, zip(titles, *cells, strict=True), strict=True)
        ]
        if any(titles):
            yield _joined(*self._parts(titles, widths, None), DIM, DIM)
        for row, each in zip(self.rows, cells, strict=False):
            yield _joined(*self._parts(each, widths, most), *self.styles(row))
            for line in shown(self.below(row)):
                yield [(line, "")]
        if self.rest:
            yield _joined(*self._parts(cells[-1], widths, most), DIM, DIM)

    def _parts(self, cells: list[str], widths: list[int], most: int | None) -> tuple[str, str]:
        """Return the figures, and the last cell, if that is text."""
        figures, last = "", ""
        for at, (column, cell, width) in enumerate(zip(self.columns, cells, widths, strict=True)):
            if not column.left:
                figures += f"{cell:>{width}}"
                continue
            figures += "  " * (at > 0)
            if at < len(cells) - 1:
                figures += f"{cell:<{width}}"
            else:
                last = cell
                if most is not None:
                    last = label_within(cell, max(LEAST_LAST, most - len(figures)))
        return (figures, last) if last else (figures.rstrip(), "")

    def markdown(self) -> Iterator[str]:
        """Yield it as Markdown; the last cells, which are names, in the font of code."""
        yield _row([column.title for column in self.columns])
        yield _row([":--" if column.left else "--:" for column in self.columns])
        for cells in self.cells():
            yield _row([*map(plain_markdown, cells[:-1]), _code(cells[-1])])


Listing = Iterable[str | Table]


def shown(listing: Listing) -> Iterator[str]:
    """Yield the lines of a listing."""
    for part in listing:
        if isinstance(part, str):
            yield part
        else:
            yield from ("".join(text for text, _ in line) for line in part.lines())


def _joined(figures: str, last: str, style: str, last_style: str) -> Line:
    if style == last_style:
        return [(figures + last, style)]
    return [(figures, style), (last, last_style)]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plain_markdown(text: str) -> str:
    """Return text without what Markdown or HTML would obey."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>#|~" else each for each in visible(text))


def _code(text: str) -> str:
    """Return text in the font of code; of a table's row nothing but its bar would end the cell."""
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def plain(value: Any, digits: int = 17) -> Any:
    """Return figures as JSON has them: records by their fields; what is infinite is null.

    Floating-point numbers have so many significant `digits`; 17 are all.
    """
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: plain(each, digits) for key, each in value.items()}
    fields = getattr(value, "_fields", None) or getattr(value, "__match_args__", None)
    if fields:
        return {field: plain(getattr(value, field), digits) for field in fields}
    return [plain(each, digits) for each in value] if isinstance(value, list | tuple) else value

"""What commands print: plain lines, and tables that fit any terminal. A pipe has no width: one line a row, whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

_GAP = "  "
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_ESCAPES_OF_PROSE = {code: text for code, text in _ESCAPES.items() if code != ord("\n")}


@dataclass(frozen=True)
class Column:
    """One column of a table, whole at any width unless it is prose."""

    heading: str
    justify: Literal["left", "right"] = "left"
    prose: int = 0
    """Above 0: free text, the last column. It may be folded between words, into lines that are not shorter."""


@dataclass(frozen=True)
class Table:
    """Rows under headings. Where the columns don't fit side by side, each row takes several lines of the same shape,
    the second and later ones indented. A style is a cell's own (a Text); without any heading there is no first row.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Text]]

    def lines(self, width: int | None) -> Iterator[Text]:
        """Yield the table's lines for a terminal of `width`, or for a pipe (None)."""
        headings = [column.heading for column in self.columns]
        shown = [[Text(heading, "bold") for heading in headings]] if any(headings) else []
        shown += [[self._cell(index, cell, width) for index, cell in enumerate(row)] for row in self.rows]
        widths = [max((_width(row[index]) for row in shown), default=0) for index in range(len(headings))]
        shape = self._shape(widths, width)
        for row in shown:
            for number, part in enumerate(shape):
                yield from self._lines_of(row, part, widths, width, indented=number > 0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width if console.file.isatty() else None)

    def _cell(self, index: int, cell: str | Text, width: int | None) -> Text:
        """Return the cell without what would break its line or act on the terminal."""
        escapes = _ESCAPES if width is None or not self.columns[index].prose else _ESCAPES_OF_PROSE
        style = cell.style if isinstance(cell, Text) else ""
        return Text(str(cell).translate(escapes), style)

    def _shape(self, widths: Sequence[int], width: int | None) -> list[list[int]]:
        """Return which columns stand on a row's first line, its second and so on."""
        shape: list[list[int]] = [[]]
        used = -len(_GAP)
        for index, column in enumerate(self.columns):
            least = min(widths[index], column.prose) if column.prose else widths[index]
            if width is not None and shape[-1] and used + len(_GAP) + least > width:
                shape.append([])
                used = 0
            shape[-1].append(index)
            used += len(_GAP) + widths[index]
        return shape

    def _lines_of(
        self,
        row: Sequence[Text],
        part: Sequence[int],
        widths: Sequence[int],
        width: int | None,
        indented: bool,
    ) -> Iterator[Text]:
        """Yield one line of the row, and those that its prose is folded into."""
        line = Text(_GAP if indented else "")
        for index in part:
            if index != part[0]:
                line.append(_GAP)
            cell = row[index].copy()
            if self.columns[index].prose:
                first, *others = _folded(cell, None if width is None else width - line.cell_len)
                indent = " " * line.cell_len
                yield line.append_text(first)
                yield from (Text(indent).append_text(other) for other in others)
                return
            cell.align(self.columns[index].justify, widths[index])
            line.append_text(cell)
        line.rstrip()
        yield line


def say(what: str | Text | Table) -> None:
    """Print a line or a table. Nothing in it is taken for markup, and nothing is cut or folded in a pipe."""
    terminal().print(what, soft_wrap=True)


def terminal() -> Console:
    """Return the console that `say` prints to, for what does more than print."""
    return Console(markup=False, emoji=False, highlight=False)


def _width(cell: Text) -> int:
    return max((line.cell_len for line in cell.split()), default=0)


def _folded(prose: Text, width: int | None) -> list[Text]:
    """Return the lines of `prose`. A word that is too long (an id, a path) stays whole: the terminal breaks it."""
    if width is None:
        return [prose]
    lines = []
    for paragraph in prose.plain.split("\n"):
        line = ""
        for word in re.findall(r"\s*\S+", paragraph):
            if line and cell_len(line + word) > width:
                lines.append(line)
                word = word.lstrip()
                line = ""
            line += word
        lines.append(line)
    return [Text(line, prose.style) for line in lines]

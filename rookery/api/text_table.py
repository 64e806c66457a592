"""Tables of plain text, whose cells are never cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

GAP = "  "


@dataclass
class TextTable:
    """A table of text: a first column that names the rows, and columns of numbers."""

    key: str
    columns: list[str]
    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    title: str = ""

    def widths(self) -> list[int]:
        """Return the width of each column after the first."""
        cells = [self.columns, *(cells for _, cells in self.rows)]
        return [max(map(cell_len, column)) for column in zip(*cells, strict=True)]

    def key_width(self) -> int:
        """Return the width of the first column."""
        return max(map(cell_len, [self.key, *(label for label, _ in self.rows)]))

    def width(self) -> int:
        """Return the width of the widest line."""
        return self.key_width() + sum(len(GAP) + width for width in self.widths())

    def fitted(self, width: int | None) -> list[TextTable]:
        """Return the table, or several with some of its columns each that fit a width."""
        if width is None or self.width() <= width:
            return [self]
        parts: list[list[int]] = [[]]
        free = width - self.key_width()
        for i, needed in enumerate(self.widths()):
            if parts[-1] and free < needed + len(GAP):
                parts.append([])
                free = width - self.key_width()
            parts[-1].append(i)
            free -= needed + len(GAP)
        return [
            self._with(part, self.title if not n else "") for n, part in enumerate(parts)
        ]

    def _with(self, columns: Sequence[int], title: str) -> TextTable:
        rows = [(label, [cells[i] for i in columns]) for label, cells in self.rows]
        return TextTable(self.key, [self.columns[i] for i in columns], rows, title)

    def lines(self) -> list[str]:
        """Return the title, if there is one, the header, and the rows."""
        widths, first = self.widths(), self.key_width()
        lines = [self.title] if self.title else []
        for label, cells in [(self.key, self.columns), *self.rows]:
            line = _left(label, first)
            for cell, width in zip(cells, widths, strict=True):
                line += GAP + _right(cell, width)
            lines.append(line.rstrip())
        return lines


def _left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text

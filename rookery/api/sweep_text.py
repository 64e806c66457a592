"""The results of a sweep as tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from rookery.api.text_table import TextTable
from rookery.sweeps.tables import Results, Row

COUNTS = ("seeds", "finished", "tasks")
LOW = "_low"
EXPLAINED = (
    "interquartile mean over seeds [95 % interval], of the last quarter of the rounds"
)
FEW_SEEDS = 5
NO_VALUE = "–"


def sweep_tables(
    results: Results, width: int | None = None
) -> tuple[list[TextTable], list[str]]:
    """Return the tables of a sweep that fit a width, and notes on them."""
    tables = _table(results.rows).fitted(width) if results.rows else []
    if results.aggregates:
        over_tasks = _table(results.aggregates)
        over_tasks.title = f"over {results.aggregates[0]['tasks']} tasks"
        tables += over_tasks.fitted(width)
    notes = [EXPLAINED]
    if any("trained" in row for row in results.rows):
        notes.append("trained: return in the last evaluation, without exploration")
    if results.seeds < FEW_SEEDS:
        notes.append(f"with fewer than {FEW_SEEDS} seeds, intervals are too narrow")
    return tables, [*notes, *results.scale, *results.notes]


def sweep_text(tables: Sequence[TextTable], notes: Sequence[str]) -> str:
    """Return tables and notes as one text."""
    texts = ["\n".join(table.lines()) for table in tables]
    return "\n\n".join([*texts, "\n".join(notes)])


def _table(rows: Sequence[Row]) -> TextTable:
    """Return a table with one column per estimate: the value, and its interval."""
    names = [name for name in rows[0] if not _is_bound(name, rows[0])]
    first = next(i for i, name in enumerate(names) if name in COUNTS)
    labels, columns = names[:first], names[first:]
    table = TextTable(", ".join(labels), columns)
    for row in rows:
        label = ", ".join(str(row.get(name, NO_VALUE)) for name in labels) or "all"
        table.rows.append((label, [_cell(row, name) for name in columns]))
    return table


def _is_bound(name: str, row: Row) -> bool:
    """Whether a column is a bound of another one."""
    return any(name == f"{x}{end}" for x in row for end in (LOW, "_high"))


def _cell(row: Row, name: str) -> str:
    value, low = row.get(name, NO_VALUE), row.get(f"{name}{LOW}")
    if not isinstance(value, float):
        return str(value)
    if isnan(value):
        return NO_VALUE
    if low is None or isnan(low):
        return f"{value:.4g}"
    return f"{value:.4g} [{low:.4g}, {row[f'{name}_high']:.4g}]"

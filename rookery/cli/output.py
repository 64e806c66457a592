"""Output of the command line: tables and progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from rookery.evaluation.play import Match

if TYPE_CHECKING:
    from rookery.api.evaluate import Evaluation
    from rookery.api.text_table import TextTable
    from rookery.bench.measure import Report


def print_evaluation(console: Console, evaluation: Evaluation, wide: bool) -> None:
    """Print the tables of an evaluation, as wide as they need be unless on a terminal."""
    from rookery.api.evaluation_text import evaluation_tables

    width = None if wide or not console.is_terminal else console.width
    tables, notes = evaluation_tables(evaluation, width)
    print_tables(console, tables, notes)


def print_tables(
    console: Console, tables: Sequence[TextTable], notes: Sequence[str]
) -> None:
    """Print tables of text with bold headers, and notes below them."""
    for number, table in enumerate(tables):
        if number:
            console.print()
        *title, header = table.lines()[: 2 if table.title else 1]
        for line in title:
            console.print(Text(line, "bold cyan"), soft_wrap=True)
        console.print(Text(header, "bold"), soft_wrap=True)
        for line in table.lines()[len(title) + 1 :]:
            console.print(Text(line), soft_wrap=True)
    console.print()
    for note in notes:
        console.print(Text(note, "dim"), soft_wrap=not console.is_terminal)


def print_match(console: Console, label: str, match: Match) -> None:
    """Print the tables of one match."""
    from rookery.api.evaluation_text import matches_tables

    width = console.width if console.is_terminal else None
    tables, notes = matches_tables({label: match}, width)
    print_tables(console, tables, notes)


def print_report(console: Console, report: Report) -> None:
    """Print the ratios of a benchmark, and the measurements behind them."""
    ratios = Table(box=None, header_style="bold", pad_edge=False)
    ratios.add_column("ratio")
    ratios.add_column("", justify="right", style="bold")
    for name, ratio in report.ratios.items():
        ratios.add_row(name, f"{ratio:.2f}×")
    measurements = Table(box=None, header_style="bold", pad_edge=False)
    measurements.add_column("measurement")
    measurements.add_column("value", justify="right", style="bold")
    measurements.add_column("", style="dim")
    for name, measurement in report.metrics.items():
        value = measurement["value"]
        shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        measurements.add_row(name, shown, measurement["unit"])
    if report.ratios:
        console.print(ratios)
        console.print()
    console.print(measurements)
    for note in report.notes:
        console.print(Text(note, "dim"))


@contextmanager
def progress(
    console: Console, label: str, total: int, quiet: bool
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar up to `total`, if this is a terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(label, total=total)
        yield lambda finished: bar.update(task, completed=finished)

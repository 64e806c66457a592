"""The commands `runs` and `diff`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rookery.cli.complete import complete_run
from rookery.cli.options import AsJson, RunFolder
from rookery.printing import out, print_json, tell

if TYPE_CHECKING:
    from rookery.runs.listing import RunInfo

COLOURS = {
    "running": "green",
    "finished": "dim",
    "stopped": "yellow",
    "new": "yellow",
    "failed": "red",
    "killed": "red",
}
PIPED_WIDTH = 200
"""Columns of a table that is not printed to a terminal."""
UNITS = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="The folder to look in, with the folders within it.",
        autocompletion=complete_run,
    ),
]


def runs(folder: Folder = Path("runs"), as_json: AsJson = False) -> None:
    """List the runs in a folder, with their state and score."""
    from rookery.api.runs import list_runs

    listed = list_runs(folder)
    if as_json:
        print_json({"runs": [run.to_json() for run in listed]})
    elif listed:
        wide = Console(markup=False, emoji=False, highlight=False, width=PIPED_WIDTH)
        (out if out.is_terminal else wide).print(_runs_table(listed))
    else:
        tell(f"There is no run in {folder}.")


def diff(first: RunFolder, second: RunFolder, as_json: AsJson = False) -> None:
    """Show how two runs differ: settings, software, your files, results."""
    from rookery.api.runs import diff as compare
    from rookery.api.runs import shown_or_dash

    differences = compare(first, second)
    if as_json:
        print_json(differences.to_json())
        return
    table = _table("", str(first), str(second))
    for name, group in differences.groups().items():
        if group:
            table.add_row(Text(name, "bold"), "", "")
        for key, pair in group.items():
            table.add_row(Text(f"  {key}", "cyan"), *map(shown_or_dash, pair))
    if not table.row_count:
        tell(f"{first} and {second} have equal settings, software, files and results.")
    else:
        out.print(table)


def _runs_table(listed: Sequence[RunInfo]) -> Table:
    """Return a table of runs; the seeds of one folder are below it."""
    table = _table("run", "game", "algorithm", "seed", "state", "round", "score", "updated")
    group: Path | None = None
    for run in listed:
        if run.group and run.group != group:
            _add_group(table, run.group, [r for r in listed if r.group == run.group])
        group = run.group
        name = f"  {run.path.name}" if run.group else str(run.path)
        table.add_row(
            Text(name, "cyan"),
            run.game,
            run.algorithm,
            str(run.seed),
            Text(run.state, COLOURS[run.state]),
            f"{run.round}/{run.rounds}",
            "" if run.score is None else f"{run.score:.2f}",
            _ago(time.time() - run.updated),
        )
    return table


def _add_group(table: Table, folder: Path, seeds: Sequence[RunInfo]) -> None:
    """Add a row that sums up a folder of seeds."""
    from rookery.runs.listing import seeds_not_started

    states = [seed.state for seed in seeds]
    states += ["not started"] * len(seeds_not_started(folder))
    summary = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    scores = [seed.score for seed in seeds if seed.score is not None]
    mean = f"{sum(scores) / len(scores):.2f}" if scores else ""
    first = seeds[0]
    title, total = Text(str(folder), "cyan bold"), f"{len(states)} seeds"
    table.add_row(title, first.game, first.algorithm, total, summary, "", mean, "")


def _table(*names: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        right = name in ("round", "score", "updated")
        justify: Literal["left", "right"] = "right" if right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name == "run")
    return table


def _ago(seconds: float) -> str:
    """Return a time span in the largest unit that it fills."""
    if seconds < 0:
        return "in the future"
    unit, size = next(((u, s) for u, s in UNITS if seconds >= s), UNITS[-1])
    return f"{seconds // size:.0f} {unit} ago"

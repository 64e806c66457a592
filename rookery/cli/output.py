"""Output of the command line: tables and progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
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

from rookery.config.run import Config
from rookery.evaluation.play import Match, cut_line
from rookery.printing import print_json, say

if TYPE_CHECKING:
    from rookery.bench.measure import Report


def say_cut(match: Match, config: Config) -> None:
    """Warn of episodes that were cut off, if there were any."""
    if match.cut:
        say(f"warning: {cut_line(match.cut, config)}")


def matches_table(matches: Mapping[str, Match]) -> Table:
    """Return a table of mean returns: over all agents, with their spread, and of each."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("players", style="cyan")
    table.add_column("episodes", justify="right")
    table.add_column("mean", justify="right", style="bold")
    table.add_column("spread", justify="right")
    first = next(iter(matches.values()))
    for spec in first.agents:
        table.add_column(f"agent {spec.id}", justify="right")
    for label, match in matches.items():
        summary = match.summary()
        means = [f"{mean:.2f}" for mean in summary["agents"].values()]
        spread = f"± {summary['std']:.2f}"
        episodes = str(len(match.episodes))
        table.add_row(label, episodes, f"{summary['mean']:.2f}", spread, *means)
    return table


def write_replay(
    console: Console, match: Match, folder: Path, name: str, as_json: bool
) -> None:
    """Write the recording of a match and its GIF to a run folder, and print the paths."""
    recording = match.recordings[0]
    gif = folder / "replays" / f"{name}.gif"
    recording.write_gif(gif)
    file = folder / "recordings" / f"{name}.safetensors"
    file.parent.mkdir(exist_ok=True)
    recording.save(file)
    if as_json:
        summary = {"run": str(folder), "gif": str(gif), **match.summary()}
        print_json(summary)
        return
    names = list(match.players)
    label = names[0] if len(set(names)) == 1 else ",".join(names)
    console.print(matches_table({label: match}))
    console.print(f"The episode: {gif}\nIts recording: {file}", soft_wrap=True)


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

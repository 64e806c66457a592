"""Output of the command line: tables, progress bars and descriptions of games."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from rookery.config.resolve import SettingRow, describe_settings
from rookery.config.run import Config
from rookery.evaluation.play import Match, cut_line
from rookery.games.gridworld import GridEngine
from rookery.games.registry import Entry
from rookery.printing import print_json, say
from rookery.specs import AgentSpec

if TYPE_CHECKING:
    from rookery.bench.measure import Report
    from rookery.games.conformance.checks import Finding
    from rookery.runs.health import Health

ACTIONS_SHOWN = 40
"""More actions than these are not all named in a table."""
STATE_COLOURS = {
    "loading": "yellow",
    "working": "green",
    "stopped": "red",
    "dead": "red",
    "ended": "dim",
}

MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


def say_cut(match: Match, config: Config) -> None:
    """Warn of episodes that were cut off, if there were any."""
    if match.cut:
        say(f"warning: {cut_line(match.cut, config)}")


def games_table(entries: Iterable[Entry]) -> Table:
    """Return a table of games with summaries and players."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("game", style="cyan", no_wrap=True)
    table.add_column("summary")
    table.add_column("players", style="dim")
    for entry in entries:
        table.add_row(entry.name, entry.summary, ", ".join(entry.players))
    return table


def game_facts(entry: Entry, agents: Sequence[AgentSpec]) -> dict[str, Any]:
    """Return a game's description as plain data."""
    return {
        "game": entry.name,
        "summary": entry.summary,
        "players": list(entry.players),
        "agents": [
            {
                "id": spec.id,
                "role": spec.role,
                "actions": list(spec.action_names),
                "parts": {name: str(part) for name, part in spec.parts.items()},
            }
            for spec in agents
        ],
        "settings": [row._asdict() for row in describe_settings(entry.settings, "game")],
    }


def print_game(
    console: Console, entry: Entry, agents: Sequence[AgentSpec], config: Config
) -> None:
    """Print the description of a game."""
    name = (entry.name, "bold cyan")
    console.print(Text.assemble(name, f"  {entry.summary}\n"))
    game = entry.build(config.game.settings, 1, config.seed)
    if isinstance(game, GridEngine):
        console.print(game.show(), style="dim")
        console.print()
    game.close()
    console.print(_agents_table(agents))
    players = f"  {', '.join(entry.players)}"
    console.print(Text.assemble(("\nplayers", "bold"), players))
    console.print()
    console.print(settings_table(describe_settings(entry.settings, "game")))


def _agents_table(agents: Sequence[AgentSpec]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("agent", "role", "observations", "actions"):
        table.add_column(name)
    for spec in agents:
        parts = "\n".join(
            f"{name}: {part}" + (f" of {', '.join(part.labels)}" if part.labels else "")
            for name, part in spec.parts.items()
        )
        table.add_row(spec.id, spec.role, parts, _actions_text(spec))
    return table


def _actions_text(spec: AgentSpec) -> str:
    """Return the names of an agent's actions; of very many, the first and the last."""
    names = spec.action_names
    if len(names) <= ACTIONS_SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, …, {names[-1]} ({len(names):,} actions)"


def settings_table(rows: Iterable[SettingRow]) -> Table:
    """Return a table of settings with default, type and meaning."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("setting", style="cyan", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("type", style="dim")
    table.add_column("meaning", overflow="fold")
    for row in rows:
        table.add_row(row.key, row.default, row.type, row.description)
    return table


def print_finding(console: Console, finding: Finding) -> None:
    """Print the result of one check of a game."""
    mark, detail = MARKS[finding.result], (finding.detail, "dim")
    line = Text.assemble(mark, f" {finding.sentence} ", detail)
    console.print(line, soft_wrap=True)


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


def print_health(
    console: Console, processes: Sequence[Health], number: int, seconds: float
) -> None:
    """Print the status of every process of a run."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("process", "id", "attempt", "state", "processor", "memory", "agents"):
        right = name in ("id", "attempt", "processor", "memory")
        table.add_column(name, justify="right" if right else "left")
    for health in processes:
        table.add_row(
            health.role,
            str(health.pid),
            str(health.attempt),
            Text(health.state, STATE_COLOURS[health.state]),
            f"{health.processor:.0%}",
            f"{health.mebibytes:,.0f} MiB",
            ", ".join(health.agents),
        )
    console.print(table)
    if not number:
        console.print("no round has finished yet")
    elif seconds >= 0:
        console.print(f"last update: round {number}, {seconds:.0f} s ago")
    else:
        console.print(f"last update: round {number}, in the future: the clock was set back")


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

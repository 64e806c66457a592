"""`rookery.games`, `rookery.describe` and `rookery.check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rookery.api.display import Shown
from rookery.config.resolve import SettingRow, describe_settings
from rookery.evaluation.play import agents_of
from rookery.games.conformance.checks import Finding, check_game
from rookery.games.gridworld import GridEngine
from rookery.games.registry import Entry, entries_by_name
from rookery.runs.configure import configure
from rookery.specs import AgentSpec

ACTIONS_SHOWN = 40
"""More actions than these are not all named in a table."""
MARKS = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("–", "yellow"),
    "note": ("!", "cyan"),
}


class Games(Shown, dict[str, Entry]):
    """The built-in games by name."""

    def __repr__(self) -> str:
        return f"<Games: {', '.join(self)}>"

    def __rich__(self) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("game", style="cyan", no_wrap=True)
        table.add_column("summary")
        table.add_column("players", style="dim")
        for entry in self.values():
            table.add_row(entry.name, entry.summary, ", ".join(entry.players))
        return table

    def to_json(self) -> dict[str, Any]:
        """Return names and summaries as plain data."""
        return {"games": {name: entry.summary for name, entry in self.items()}}


def list_games() -> Games:
    """Return the built-in games by name; print them to see what they are about."""
    return Games(entries_by_name())


@dataclass(repr=False)
class Description(Shown):
    """A game: its agents, observations, actions, players and settings."""

    game: str
    summary: str
    players: list[str]
    """The names of its scripted players."""
    agents: Sequence[AgentSpec]
    settings: list[SettingRow]
    picture: str = ""
    """The first turn as text, of a grid game."""

    def __repr__(self) -> str:
        text = f"{len(self.agents)} agents, players {', '.join(self.players)}"
        return f"<Description {self.game}: {self.summary} {text}>"

    def __rich__(self) -> RenderableType:
        title = Text.assemble((self.game, "bold cyan"), f"  {self.summary}\n")
        picture = [Text(f"{self.picture}\n", "dim")] if self.picture else []
        players = Text.assemble(("\nplayers", "bold"), f"  {', '.join(self.players)}\n")
        return Group(
            title,
            *picture,
            _agents_table(self.agents),
            players,
            settings_table(self.settings),
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything but the picture as plain data."""
        return {
            "game": self.game,
            "summary": self.summary,
            "players": self.players,
            "agents": [
                {
                    "id": spec.id,
                    "role": spec.role,
                    "actions": list(spec.action_names),
                    "parts": {name: str(part) for name, part in spec.parts.items()},
                    "scales": {name: part.scale for name, part in spec.parts.items()},
                }
                for spec in self.agents
            ],
            "settings": [row._asdict() for row in self.settings],
        }


def describe(
    game: str | type | None, /, *, overrides: Sequence[str] = (), **settings: Any
) -> Description:
    """Describe a game: agents, observations, actions, players and settings.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or the class itself.
        overrides: settings as on the command line: `["game.agents=4"]`.
        **settings: as in `rookery.train`: `game={"agents": 4}`.
    """
    entry, config = configure(game, overrides, settings=settings)
    agents = agents_of(entry, config)
    built = entry.build(config.game.settings, 1, config.seed)
    picture = built.show() if isinstance(built, GridEngine) else ""
    built.close()
    rows = describe_settings(entry.settings, "game")
    return Description(
        entry.name, entry.summary, list(entry.players), agents, rows, str(picture)
    )


def _agents_table(agents: Sequence[AgentSpec]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("agent", "role", "observations", "actions"):
        table.add_column(name)
    for spec in agents:
        parts = "\n".join(f"{n}: {part.description}" for n, part in spec.parts.items())
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


@dataclass(repr=False)
class Check(Shown):
    """The results of all checks of a game."""

    game: str
    findings: list[Finding]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(finding.result != "failed" for finding in self.findings)

    def __repr__(self) -> str:
        results = [finding.result for finding in self.findings]
        counts = ", ".join(f"{results.count(x)} {x}" for x in dict.fromkeys(results))
        return f"<Check {self.game}: {counts}>"

    def __rich__(self) -> RenderableType:
        return Group(*map(finding_line, self.findings))

    def to_json(self) -> dict[str, Any]:
        """Return the findings as plain data."""
        return {"game": self.game, "checks": [vars(finding) for finding in self.findings]}


def finding_line(finding: Finding) -> Text:
    """Return the result of one check as a line with a mark."""
    mark = MARKS[finding.result]
    return Text.assemble(mark, f" {finding.sentence} ", (finding.detail, "dim"))


def check(
    game: str | type | None,
    /,
    *,
    overrides: Sequence[str] = (),
    callback: Callable[[Finding], object] = lambda finding: None,
    **settings: Any,
) -> Check:
    """Check a game's contract: independent worlds, exact snapshots, fair seats.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or the class itself.
        overrides: settings as on the command line: `["game.agents=4"]`.
        callback: called with every finding as soon as there is one.
        **settings: as in `rookery.train`: `game={"agents": 4}`.
    """
    entry, config = configure(game, overrides, settings=settings)
    findings = []
    for finding in check_game(entry, config.game.settings, config.seed):
        findings.append(finding)
        callback(finding)
    return Check(entry.name, findings)

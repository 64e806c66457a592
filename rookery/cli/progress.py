"""The view in the terminal: a bar and a table while training, or plain lines."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from rookery.algorithms.base import Agent
from rookery.config.run import Config
from rookery.training.training import Round

LINE_SECONDS = 10.0
RECENT = 64


class Progress:
    """Shows how training goes; keeps the newest figures of every agent."""

    def __init__(
        self,
        console: Console,
        config: Config,
        agents: Sequence[Agent],
        quiet: bool,
        notes: list[str] | None = None,
    ) -> None:
        self._console, self._config, self._agents = console, config, agents
        self._notes = notes if notes is not None else []
        self._quiet, self._live = quiet, None if quiet else _live(console)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            expand=True,
        )
        self._task = self._bar.add_task(config.game.name, total=config.rounds)
        self._returns: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        self.agents: dict[str, dict[str, Any]] = {agent.id: {} for agent in agents}
        self.updates = 0
        self._started = self._last_line = time.perf_counter()

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def show(self, one: Round) -> None:
        """Take in a round."""
        while self._notes and not self._quiet:
            self._console.print(self._notes.pop(0), soft_wrap=True)
        for i, agent in enumerate(self._agents):
            figures = {
                **one.played.metrics[agent.id],
                **one.learned.metrics.get(agent.id, {}),
            }
            self._returns[agent.id].extend(float(e.returns[i]) for e in one.played.episodes)
            recent = self._returns[agent.id]
            if recent:
                figures["return"] = sum(recent) / len(recent)
            if figures.get("stopped") and not self.agents[agent.id].get("stopped"):
                self._console.print(
                    f"warning: agent '{agent.id}' was stopped: its loss is no longer a "
                    "number; it goes on acting with its last good weights.",
                    soft_wrap=True,
                )
            self.agents[agent.id] = figures
            self.updates += int(figures.get("updates", 0))
        self._bar.update(self._task, completed=one.number)
        if self._live is not None:
            self._live.update(Group(self._bar, self._table(one)))
        elif not self._quiet:
            self._line(one)

    def _line(self, one: Round) -> None:
        now = time.perf_counter()
        last = one.number == self._config.rounds
        if now - self._last_line < LINE_SECONDS and not last:
            return
        self._last_line = now
        returns = "  ".join(
            f"{i}: {figures['return']:.1f}"
            for i, figures in self.agents.items()
            if "return" in figures
        )
        turns, updates = self._rates(one)
        left = (now - self._started) / one.number * (self._config.rounds - one.number)
        self._console.print(
            f"round {one.number} of {self._config.rounds}  {turns:,.0f} turns/s  "
            f"{updates:,.0f} updates/s  {_duration(left)} left  "
            f"return of {returns or 'nobody yet: no episode has ended'}",
            soft_wrap=True,
        )

    def _rates(self, one: Round) -> tuple[float, float]:
        """Return turns of one world, and updates of one agent, per second so far."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        turns = one.number * self._config.turns_per_round * self._config.worlds
        return turns / seconds, self.updates / seconds

    def _table(self, one: Round) -> Table:
        turns, updates = self._rates(one)
        title = f"{turns:,.0f} turns/s   {updates:,.0f} updates/s"
        table = Table(box=None, header_style="bold", title=title, title_justify="left")
        for name in ("agent", "return", "epsilon", "loss", "value", "lag"):
            table.add_column(name, justify="left" if name == "agent" else "right")
        for agent, figures in self.agents.items():
            cells = [
                _cell(figures.get(name))
                for name in ("return", "epsilon", "loss", "q_value", "lag")
            ]
            table.add_row(agent, *cells)
        return table


def _live(console: Console) -> Live | None:
    return Live(console=console, refresh_per_second=4) if console.is_terminal else None


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"

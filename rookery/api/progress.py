"""Training progress: a bar and a table in a terminal or a notebook, lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from rookery.api.display import View, live_view
from rookery.runs.log import Totals

if TYPE_CHECKING:
    from rookery.runs.session import Session
    from rookery.training.training import Round

LINE_SECONDS = 10.0
RECENT = 64
COLUMNS = {
    "return": "return",
    "epsilon": "epsilon",
    "loss": "loss",
    "value": "q_value",
    "lag": "lag",
}
"""The columns of the table, and the metrics in them."""


class Progress:
    """Shows the progress of a session, and sums up the run.

    Rates and the time left count the rounds of this session only; totals are of the whole
    run.
    """

    def __init__(self, console: Console, session: Session, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._config, self._first = session.config, session.start
        self._agents = session.training.agents
        self._notes = session.training.executor.notes
        self._live: View | None = None if quiet else live_view(console)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            expand=True,
        )
        self._task = self._bar.add_task(
            self._config.game.name, total=self._config.rounds, completed=self._first
        )
        self._returns: dict[str, deque[float]] = {
            agent.id: deque(maxlen=RECENT) for agent in self._agents
        }
        self.agents: dict[str, dict[str, Any]] = {agent.id: {} for agent in self._agents}
        """The metrics of every agent in the last round."""
        self.totals: Totals = session.log.totals()
        """The updates and seconds of all rounds of the run."""
        self._updates = 0
        self._started = self._last_line = time.perf_counter()

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def show(self, result: Round) -> None:
        """Take in a round, and show it."""
        while self._notes and not self._quiet:
            self._console.print(self._notes.pop(0), soft_wrap=True)
        updates = sum(self._take_in(i, result) for i in range(len(self._agents)))
        self._updates += updates
        self.totals = Totals(
            self.totals.updates + updates, self.totals.seconds + result.seconds
        )
        self._bar.update(self._task, completed=result.number)
        if self._live is not None:
            self._live.update(Group(self._bar, self._table(result)))
        elif not self._quiet:
            self._print_line(result)

    def _take_in(self, number: int, result: Round) -> int:
        """Take in the metrics of an agent; return how many updates it made."""
        agent = self._agents[number].id
        metrics: dict[str, Any] = {
            **result.played.metrics[agent],
            **result.learned.metrics.get(agent, {}),
        }
        recent = self._returns[agent]
        recent.extend(float(episode.returns[number]) for episode in result.played.episodes)
        if recent:
            metrics["return"] = sum(recent) / len(recent)
        self.agents[agent] = metrics
        return int(metrics.get("updates", 0))

    def _print_line(self, result: Round) -> None:
        now = time.perf_counter()
        is_last = result.number == self._config.rounds
        if now - self._last_line < LINE_SECONDS and not is_last:
            return
        self._last_line = now
        returns = "  ".join(
            f"{agent}: {metrics['return']:.1f}"
            for agent, metrics in self.agents.items()
            if "return" in metrics
        )
        left = self._config.rounds - result.number
        seconds = (now - self._started) / (result.number - self._first) * left
        self._console.print(
            f"round {result.number} of {self._config.rounds}  {self._rates(result)}  "
            f"{duration(seconds)} left  "
            f"{f'return of {returns}' if returns else 'no episode has finished yet'}",
            soft_wrap=True,
        )

    def _rates(self, result: Round) -> str:
        """Return the turns of single worlds and the updates of all agents per second."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        rounds = result.number - self._first
        turns = rounds * self._config.turns_per_round * self._config.worlds
        return f"{turns / seconds:,.0f} turns/s  {self._updates / seconds:,.0f} updates/s"

    def _table(self, result: Round) -> Table:
        table = Table(
            box=None, header_style="bold", title=self._rates(result), title_justify="left"
        )
        table.add_column("agent")
        for name in COLUMNS:
            table.add_column(name, justify="right")
        for agent, metrics in self.agents.items():
            values = [metrics.get(metric) for metric in COLUMNS.values()]
            cells = ["" if value is None else f"{value:.2f}" for value in values]
            table.add_row(agent, *cells)
        return table


def duration(seconds: float) -> str:
    """Return a duration in text, in at most two units."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"

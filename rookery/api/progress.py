"""Training progress: a bar and a table in a terminal or a notebook, lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, Group
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from rookery.api.display import View, live_view
from rookery.api.live_table import COUNT, LiveTable, evaluation_line, returns_line
from rookery.runs.log import Totals

if TYPE_CHECKING:
    from rookery.games.episodes import Episode
    from rookery.runs.session import Session
    from rookery.specs import Array
    from rookery.training.training import Round

LINE_SECONDS = 10.0
RECENT = 64


class Progress:
    """Shows the progress of a session, and sums up the run.

    Rates and the time left count the rounds of this session only; totals are of the whole
    run.
    """

    def __init__(self, console: Console, session: Session, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._session = session
        self._config, self._first = session.config, session.start
        self._agents = session.training.agents
        self._notes = session.training.executor.notes
        self._live: View | None = None if quiet else live_view(console)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("rounds"),
            TimeElapsedColumn(),
            TextColumn("elapsed"),
            TimeRemainingColumn(),
            TextColumn("left"),
            expand=True,
        )
        self._task = self._bar.add_task(
            self._config.game.name, total=self._config.rounds, completed=self._first
        )
        self._recent: deque[Episode] = deque(maxlen=RECENT)
        """The last episodes; returns and counts are means over them."""
        self._table = LiveTable(self._agents, self._config.schedule)
        self._evaluation = ""
        """The result of the last evaluation during training."""
        self._rates_line = ""
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
            # The evaluation of the last round ends after the round was shown.
            if self._take_in_matches(self._session.last_matches):
                self._live.update(self._view())
            self._live.__exit__(*error)

    def show(self, result: Round) -> None:
        """Take in a round, and show it."""
        while self._notes and not self._quiet:
            self._console.print(self._notes.pop(0), soft_wrap=True)
        self._recent.extend(result.played.episodes)
        self._take_in_matches(result.matches)
        means = self._recent_means()
        updates = sum(self._take_in(i, result, means) for i in range(len(self._agents)))
        self._updates += updates
        self.totals = Totals(
            self.totals.updates + updates, self.totals.seconds + result.seconds
        )
        self._bar.update(self._task, completed=result.number)
        if self._live is not None:
            self._rates_line = self._rates(result)
            self._live.update(self._view())
        elif not self._quiet:
            self._print_line(result)

    def _take_in_matches(self, matches: Sequence[Mapping[str, Any]]) -> bool:
        """Take in evaluations that have finished; return whether there are any."""
        lines = [evaluation_line(match) for match in matches if match["evaluations"]]
        self._evaluation = lines[-1] if lines else self._evaluation
        return bool(lines)

    def _recent_means(self) -> dict[str, Array]:
        """Return each agent's mean return and counts over recent episodes, by name."""
        if not self._recent:
            return {}
        means = {"return": np.mean([episode.returns for episode in self._recent], axis=0)}
        for name in self._recent[0].counts:
            counts = [episode.counts[name] for episode in self._recent]
            means[f"{COUNT}{name}"] = np.mean(counts, axis=0)
        return means

    def _take_in(self, number: int, result: Round, means: Mapping[str, Array]) -> int:
        """Take in the metrics of an agent; return how many updates it made."""
        agent = self._agents[number].id
        metrics: dict[str, Any] = {
            **result.played.metrics[agent],
            **result.learned.metrics.get(agent, {}),
        }
        metrics |= {name: float(values[number]) for name, values in means.items()}
        self.agents[agent] = metrics
        return int(metrics.get("updates", 0))

    def _print_line(self, result: Round) -> None:
        now = time.perf_counter()
        is_last = result.number == self._config.rounds
        if now - self._last_line < LINE_SECONDS and not is_last:
            return
        self._last_line = now
        returns = returns_line(
            {
                i: metrics["return"]
                for i, metrics in self.agents.items()
                if "return" in metrics
            }
        )
        left = self._config.rounds - result.number
        seconds = (now - self._started) / (result.number - self._first) * left
        self._console.print(
            f"round {result.number} of {self._config.rounds}  {self._rates(result)}  "
            f"{duration(seconds)} left  {returns or 'no episode has finished yet'}",
            soft_wrap=True,
        )

    def _rates(self, result: Round) -> str:
        """Return the turns of single worlds and the updates of all agents per second."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        rounds = result.number - self._first
        turns = rounds * self._config.turns_per_round * self._config.worlds
        return f"{turns / seconds:,.0f} turns/s  {self._updates / seconds:,.0f} updates/s"

    def _view(self) -> Group:
        """Return what a terminal shows: bar, rates, last evaluation, and the table."""
        size = self._console.size
        counts = (
            [f"{COUNT}{name}" for name in self._recent[0].counts] if self._recent else []
        )
        lines = [Text(self._rates_line)]
        if self._evaluation:
            lines.append(Text(self._evaluation))
        lines += self._table.lines(self.agents, counts, size.width, size.height)
        return Group(self._bar, *lines)


def duration(seconds: float) -> str:
    """Return a duration in text, in at most two units."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"

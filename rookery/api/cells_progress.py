"""The progress of several runs, read from the files that their processes append to."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table

from rookery.api.display import View, live_view
from rookery.api.progress import LINE_SECONDS, RECENT, duration
from rookery.runs.log import EPISODES, METRICS

READ_SECONDS = 0.5
MOST_ROWS = 16
"""Of more runs, only those that are trained now are listed."""


class CellsProgress:
    """Shows how far every run is that is trained now: rounds, return and time left.

    Args:
        console: where to show it, if this is no notebook.
        folders: of the runs, by name.
        rounds: how many each has, by name.
        quiet: whether to show nothing.
        labels: what the runs are called, by name, if not like that.
        noun: what all of them are called.
    """

    def __init__(
        self,
        console: Console,
        folders: Mapping[str, Path],
        rounds: Mapping[str, int],
        quiet: bool,
        labels: Mapping[str, str] | None = None,
        noun: str = "cells",
    ) -> None:
        self._console, self._quiet, self._noun = console, quiet, noun
        self._labels = labels or {}
        self._rounds = rounds
        self._logs = {name: RunningLog(folder) for name, folder in folders.items()}
        self._live: View | None = None if quiet else live_view(console)
        self.is_live = self._live is not None
        """Whether it is shown all the time, rather than in a line now and then."""
        self._running: Sequence[str] = ()
        self._last_read = self._last_line = time.monotonic()

    def __enter__(self) -> CellsProgress:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def show(self, running: Sequence[str], done: int) -> None:
        """Read what is new, and show it from time to time, and at the end."""
        now = time.monotonic()
        if self._quiet or (running and now - self._last_read < READ_SECONDS):
            return
        self._last_read = now
        for name in {*running, *self._running}:  # also those that have just ended
            self._logs[name].read()
        self._running = running
        if self._live is not None:
            self._live.update(self._table(running, done))
        elif running and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            states = [", ".join(self._columns(name)) for name in running]
            line = "; ".join([*states, f"{done} of {len(self._logs)} done"])
            self._console.print(line, soft_wrap=True)

    def _table(self, running: Sequence[str], done: int) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False, expand=True)
        for ratio in (None, 1, None, None, None):
            table.add_column(ratio=ratio, no_wrap=True)
        bar = ProgressBar(total=len(self._logs), completed=done)
        table.add_row(self._noun, bar, f"{done} of {len(self._logs)} done", "", "")
        listed = [name for name, log in self._logs.items() if log.round or name in running]
        for name in listed if len(self._logs) <= MOST_ROWS else running:
            first, *rest = self._columns(name)
            total = self._rounds[name]
            bar = ProgressBar(total=total, completed=self._logs[name].round)
            table.add_row(first, bar, *rest, *[""] * (3 - len(rest)))
        return table

    def _columns(self, name: str) -> list[str]:
        """Return what is known about a run: its name, rounds, return and time left."""
        log, rounds = self._logs[name], self._rounds[name]
        label = self._labels.get(name, name)
        if not log.round:
            return [label, "starting"]
        columns = [label, f"round {log.round} of {rounds}"]
        columns.append(f"return {log.mean_return:.2f}" if log.returns else "no episode yet")
        if log.round == rounds:
            return [*columns, "done"]
        left = log.seconds_left(rounds)
        return columns if left is None else [*columns, f"{duration(left)} left"]


class RunningLog:
    """Follows the log of a run while another process writes it."""

    def __init__(self, folder: Path) -> None:
        self.round = 0
        """The last round in the log."""
        self.returns: deque[float] = deque(maxlen=RECENT)
        """The mean returns of the last episodes, over all agents."""
        self._metrics, self._episodes = _Tail(folder / METRICS), _Tail(folder / EPISODES)
        self._first: tuple[int, float] | None = None

    @property
    def mean_return(self) -> float:
        """The mean of the recent returns."""
        return sum(self.returns) / len(self.returns)

    def read(self) -> None:
        """Take in what was appended since the last call."""
        for line in self._metrics.lines():
            self.round = int(line["round"])
        for line in self._episodes.lines():
            returns = line["returns"].values()
            self.returns.append(sum(returns) / max(1, len(returns)))
        if self.round and self._first is None:
            self._first = self.round, time.monotonic()

    def seconds_left(self, rounds: int) -> float | None:
        """Return how long it still takes; None if that is not known yet."""
        first, since = self._first or (self.round, 0.0)
        if self.round <= first:
            return None
        seconds_per_round = (time.monotonic() - since) / (self.round - first)
        return (rounds - self.round) * seconds_per_round


class _Tail:
    """The lines of JSON that a file has got since they were read last."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def lines(self) -> Iterator[dict[str, Any]]:
        with suppress(OSError), self._path.open("rb") as file:
            if file.seek(0, 2) < self._position:  # rounds were removed on resume
                self._position = 0
            file.seek(self._position)
            data = file.read()
            complete = data[: data.rfind(b"\n") + 1]
            self._position += len(complete)
            for row in complete.splitlines():
                with suppress(ValueError):
                    yield json.loads(row)

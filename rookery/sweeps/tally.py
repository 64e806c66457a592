"""What has become of the cells of a sweep, and what the user is told of them.

Whoever trains the cells, on this machine or on others, reports here what their processes
tell. Every cell ends here exactly once: it is done, or was pruned, or has failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rookery.errors import RookeryError
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    PRUNED,
    STOPPED,
    record_failure,
    saved_round,
)
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.work import START, WARNING

MOST_FALSE_STARTS = 3
"""If so many processes in a row die before they take a cell, no more are started."""

Say = Callable[[str], None]


class Progress(Protocol):
    """Shows how far the cells are."""

    is_live: bool
    """Whether it is shown all the time, so that no lines are needed."""

    def show(self, running: Sequence[str], done: int) -> None:
        """Show the cells that are trained now, by name, and how many are done."""


class CannotStart(RookeryError):
    """Nothing takes a cell, here or on any node."""


@dataclass
class Outcome:
    """What has become of the cells of a sweep."""

    summaries: dict[str, Any] = field(default_factory=dict)
    """Of every cell that was finished now, by name."""
    failed: dict[str, str] = field(default_factory=dict)
    """One line for every cell that has failed, by name."""


class Tally:
    """Counts the cells of a sweep that are done, have failed or are left.

    Args:
        plan: of the sweep.
        progress: shows how far every cell is.
        say: called with lines for the user.
        warn: called with the cells' warnings; the same one of several cells only once.
    """

    def __init__(self, plan: Plan, progress: Progress, say: Say, warn: Say) -> None:
        self._plan, self._progress, self._say, self._warn = plan, progress, say, warn
        self._started: dict[str, int] = {}
        """The newest checkpoint of every cell when it was last taken."""
        self._deaths: Counter[str] = Counter()
        """How often in a row the process of a cell has died without saving anything."""
        self._warnings: set[str] = set()
        self._done = 0
        self.left = {cell.name: cell for cell in plan.cells}
        """Cells that are not known to be done or to have failed, by name."""
        self.outcome = Outcome()

    def show(self, running: Iterable[Cell]) -> None:
        """Show which cells are trained now, and how many are done."""
        self._progress.show([cell.name for cell in running], self._done)

    def take_event(self, cell: Cell, event: Mapping[str, Any]) -> None:
        """Take in what the process of a cell has told."""
        kind = event["event"]
        if cell.name not in self.left:
            return
        if kind == START:
            self._started[cell.name] = event["round"]
        elif kind == DONE:
            self.take_done(cell)
            summary = {**event["summary"], "run": str(cell.folder)}
            self.outcome.summaries[cell.name] = summary
            if not self._progress.is_live:
                total = len(self._plan.cells)
                self._say(f"{cell.label} is done ({self._done} of {total})")
        elif kind == PRUNED:
            self.take_done(cell)
            self._say(f"{cell.label} is pruned after round {event['round']}")
        elif kind == FAILED:
            self.take_failed(cell, event["line"])
        elif kind == WARNING and event["line"] not in self._warnings:
            self._warnings.add(event["line"])
            self._warn(f"{cell.label}: {event['line']}")
        elif kind == STOPPED and "line" in event:
            self._say(f"{cell.label}: {event['line']}")

    def replan(self, plan: Plan) -> None:
        """Take in what is new in the plan of a search: settings, and how many cells."""
        cells = {cell.name: cell for cell in plan.cells}
        self._plan = plan
        self.left = {name: cell for name, cell in cells.items() if name in self.left}

    def take_done(self, cell: Cell) -> None:
        """Count a cell as done, or as one that nobody trains any further."""
        del self.left[cell.name]
        self._done += 1

    def take_failed(self, cell: Cell, line: str) -> None:
        """Count a cell as failed, as its process has written down, and say so."""
        del self.left[cell.name]
        self.outcome.failed[cell.name] = line
        self._say(f"{cell.label} failed: {line}")

    def fail(self, cell: Cell, line: str) -> None:
        """Write down that a cell has failed, count it and say so, unless it has ended."""
        if cell.name not in self.left:
            return
        record_failure(self._plan, cell, line)
        self.take_failed(cell, line)

    def take_death(self, cell: Cell, how: str) -> None:
        """Say that the process of a cell has died; too often, and the cell has failed.

        Args:
            cell: whose process it was.
            how: it died, as a sentence without its end.
        """
        saved, limit = saved_round(cell), max(1, cell.config.restarts.limit)
        if saved > self._started.get(cell.name, saved):
            self._deaths[cell.name] = 0
        else:
            self._deaths[cell.name] += 1
        if self._deaths[cell.name] >= limit:
            self.fail(cell, f"{how}, {limit} times without a new checkpoint in between")
        elif cell.name in self.left:  # no other process has taken it, and ended it
            self._say(f"{cell.label}: {how}; it is continued from round {saved}.")

"""`rookery.health`: the status of every process of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rookery.api.display import Shown
from rookery.errors import checked
from rookery.runs.folder import is_run, no_run
from rookery.runs.health import Health, health_of, last_round
from rookery.runs.run import Run

STATE_COLOURS = {
    "loading": "yellow",
    "working": "green",
    "stopped": "red",
    "dead": "red",
    "ended": "dim",
}
RIGHT = ("id", "attempt", "processor", "memory")


@dataclass(repr=False)
class Status(Shown):
    """The status of the processes of a run."""

    processes: list[Health]
    round: int
    """The last round that was logged."""
    seconds: float
    """How long ago that was."""

    def __repr__(self) -> str:
        states = [f"{process.role} {process.state}" for process in self.processes]
        return f"<Status: round {self.round}; {', '.join(states) or 'no processes'}>"

    def __rich__(self) -> RenderableType:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("process", "id", "attempt", "state", "processor", "memory", "agents"):
            table.add_column(name, justify="right" if name in RIGHT else "left")
        for health in self.processes:
            table.add_row(
                health.role,
                str(health.pid),
                str(health.attempt),
                Text(health.state, STATE_COLOURS[health.state]),
                f"{health.processor:.0%}",
                f"{health.mebibytes:,.0f} MiB",
                ", ".join(health.agents),
            )
        return Group(table, Text(self._last_update()))

    def _last_update(self) -> str:
        if not self.round:
            return "no round has finished yet"
        if self.seconds >= 0:
            return f"last update: round {self.round}, {self.seconds:.0f} s ago"
        return f"last update: round {self.round}, in the future: the clock was set back"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        processes = [process.to_json() for process in self.processes]
        return {"processes": processes, "round": self.round, "seconds": self.seconds}


def health(run: str | Path | Run) -> Status:
    """Return the status of every process of a run: whether it works, and how busily.

    Args:
        run: the run or its folder.
    """
    path = run.path if isinstance(run, Run) else Path(checked("run", run, str, Path))
    if not is_run(path):
        raise no_run(path)
    return Status(health_of(path), *last_round(path))

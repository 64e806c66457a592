"""The current status of every process of a run, observed from outside.

The run logs the start and end of its processes in events.jsonl; whether they are alive, and
what they use, is asked of the operating system. So the status can be observed from any
process on the machine, even while the main process hangs.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from rookery.runs.log import EVENTS, METRICS, read_lines

SAMPLE_SECONDS = 0.3
STARTS = ("start", "restart")
ENDS = {"death": "dead", "end": "ended", "stop": "ended", "failure": "dead"}
STATES = {
    psutil.STATUS_STOPPED: "stopped",
    psutil.STATUS_TRACING_STOP: "stopped",
    psutil.STATUS_ZOMBIE: "dead",
    psutil.STATUS_DEAD: "dead",
}


@dataclass
class Health:
    """The status of one process."""

    role: str
    pid: int
    attempt: int
    agents: list[str]
    """The agents whose learners it runs."""
    state: str
    """`loading`, `working`, `stopped` by a signal, `dead`, or `ended` normally."""
    processor: float = 0.0
    """Share of one core."""
    mebibytes: float = 0.0
    """Resident memory."""

    def to_json(self) -> dict[str, Any]:
        """Return the status as plain data."""
        return asdict(self)


def health_of(folder: Path) -> list[Health]:
    """Return the status of the newest process of every role."""
    by_role: dict[str, Health] = {}
    for line in read_lines(folder / EVENTS):
        role, event = str(line["role"]), line["event"]
        if event == "start" and role == "main":
            by_role.clear()  # earlier processes ended with their main process
        if event in STARTS:
            state = "working" if role == "main" else "loading"
            agents = list(line.get("agents", []))
            by_role[role] = Health(role, line["pid"], line["attempt"], agents, state)
        elif role in by_role and event == "ready":
            by_role[role].state = "working"
        elif role in by_role and event in ENDS:
            by_role[role].state = ENDS[event]
    processes = list(by_role.values())
    if processes and processes[0].state == "ended":  # main, which ends all others
        for health in _alive(processes):
            health.state = "ended"
    _ask_system(_alive(processes))
    return processes


def _alive(processes: list[Health]) -> list[Health]:
    return [health for health in processes if health.state in ("loading", "working")]


def _ask_system(alive: list[Health]) -> None:
    """Fill in what only the operating system knows, after measuring for a moment."""
    running: list[tuple[Health, psutil.Process]] = []
    for health in alive:
        try:
            process = psutil.Process(health.pid)
            health.state = STATES.get(process.status(), health.state)
            process.cpu_percent()  # the next call measures from here on
        except psutil.NoSuchProcess:
            health.state = "dead"
        if health.state in ("loading", "working"):
            running.append((health, process))
    if running:
        time.sleep(SAMPLE_SECONDS)
    for health, process in running:
        with suppress(psutil.NoSuchProcess):  # it ended while it was measured
            health.processor = process.cpu_percent() / 100
            health.mebibytes = process.memory_info().rss / 2**20


def last_round(folder: Path) -> tuple[int, float]:
    """Return the last round that was logged, and how many seconds ago."""
    path = folder / METRICS
    lines = read_lines(path)
    if not lines:
        return 0, 0.0
    return int(lines[-1]["round"]), time.time() - path.stat().st_mtime

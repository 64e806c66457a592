"""How every process of a run is right now, seen from outside.

What a run says of its processes is in events.jsonl; whether they live, and what they take,
is asked of the system. So it can be seen from anywhere on the machine, also while main
hangs.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rookery.runs.log import EVENTS, METRICS, read_lines

SAMPLE_SECONDS = 0.3
TICKS = os.sysconf("SC_CLK_TCK")
BEGINNINGS = ("start", "restart")
ENDINGS = {"death": "dead", "end": "ended", "stop": "ended", "failure": "dead"}
ASLEEP = {"T": "stopped", "t": "stopped", "Z": "dead", "X": "dead"}


@dataclass
class Health:
    """One process."""

    role: str
    pid: int
    attempt: int
    agents: list[str]
    """Whose learners it hosts."""
    state: str
    """`loading`, `working`, `stopped` by a signal, `dead`, or `ended` as it should."""
    processor: float = 0.0
    """Share of one core."""
    mebibytes: float = 0.0
    """Resident memory."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return asdict(self)


def health_of(folder: Path) -> list[Health]:
    """Return how the newest process of every role is."""
    found: dict[str, Health] = {}
    for line in read_lines(folder / EVENTS):
        role, event = str(line["role"]), line["event"]
        if event == "start" and role == "main":
            found.clear()  # those before have gone with their main
        if event in BEGINNINGS:
            state = "working" if role == "main" else "loading"
            agents = list(line.get("agents", []))
            found[role] = Health(role, line["pid"], line["attempt"], agents, state)
        elif role in found and event == "ready":
            found[role].state = "working"
        elif role in found and event in ENDINGS:
            found[role].state = ENDINGS[event]
    processes = list(found.values())
    if processes and processes[0].state == "ended":  # main, who ends all others
        for one in _alive(processes):
            one.state = "ended"
    for one in _alive(processes):
        one.state = _state_of(one.pid) or one.state
    _take_samples(_alive(processes))
    return processes


def _alive(processes: list[Health]) -> list[Health]:
    return [one for one in processes if one.state in ("loading", "working")]


def _stat(pid: int) -> list[str]:
    """Return what the system says of a process after its name; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _state_of(pid: int) -> str:
    """Return what a run does not know of a process; '' if there is nothing."""
    stat = _stat(pid)
    return ASLEEP.get(stat[0], "") if stat else "dead"


def _take_samples(alive: list[Health]) -> None:
    """Measure for a moment how much everybody computes."""
    before = {one.pid: _ticks(one.pid) for one in alive}
    started = time.monotonic()
    time.sleep(SAMPLE_SECONDS if alive else 0.0)
    seconds = time.monotonic() - started
    for one in alive:
        one.processor = (_ticks(one.pid) - before[one.pid]) / TICKS / seconds
        stat = _stat(one.pid)
        pages = int(stat[21]) if stat else 0
        one.mebibytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _ticks(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[11]) + int(stat[12]) if stat else 0


def last_round(folder: Path) -> tuple[int, float]:
    """Return the last round that was written down, and how many seconds ago."""
    lines, path = read_lines(folder / METRICS), folder / METRICS
    if not lines:
        return 0, 0.0
    return int(lines[-1]["round"]), time.time() - path.stat().st_mtime

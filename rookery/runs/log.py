"""What a run writes down while it goes on: one JSON object per line, and TensorBoard.

metrics.jsonl      one line per round: times, and figures of every agent
episodes.jsonl     one line per finished episode
evaluations.jsonl  one line per evaluation
probes.jsonl       one line per call of a user's probe
events.jsonl       one line per start, end and whatever else happens to the run
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from rookery.runs.tensorboard import Board
from rookery.storage.access import cannot_read
from rookery.storage.files import Attempts, append_whole, mend, replace_whole

METRICS = "metrics.jsonl"
EPISODES = "episodes.jsonl"
EVALUATIONS = "evaluations.jsonl"
PROBES = "probes.jsonl"
EVENTS = "events.jsonl"
PROBE = "probe"
"""The role of a probe that failed."""
INEXACT = "inexact"
"""The event after which a run is another one than if nothing had happened."""
SAVED = "checkpoint"
AGAIN = "again"
"""The event of a run that starts again from round 0: what was before does not count."""


class RunLog:
    """Writes the lines of a run; what cannot be written is left out."""

    def __init__(self, folder: Path, attempt: Attempts) -> None:
        self._folder, self._attempt = folder, attempt
        self._board = Board(folder / "tensorboard")
        self._attempt(EVENTS, lambda: mend(folder / EVENTS))  # a kill may have cut it off

    def line(self, name: str, value: Mapping[str, Any]) -> None:
        """Append one JSON object to a file of the run."""
        try:
            text = json.dumps(value, allow_nan=False, default=_number) + "\n"
        except ValueError:  # somewhere in it is a number that JSON does not have
            text = json.dumps(_without_infinite(value), default=_number) + "\n"
        self._attempt(name, lambda: append_whole(self._folder / name, text.encode()))

    def event(self, event: str, role: str = "main", **more: Any) -> str | None:
        """Write down that something happened to a process of the run.

        Returns:
            The file that a failure's traceback went to.
        """
        about = {"time": time.time(), "event": event, "role": role, "pid": os.getpid()}
        line = {**about, "attempt": 1, **more}
        if "traceback" in line:
            line["file"] = self._failure(line)
            del line["traceback"]
        self.line(EVENTS, line)
        return line.get("file")

    def _failure(self, about: Mapping[str, Any]) -> str:
        folder = self._folder / "failures"
        role, attempt = str(about["role"]).replace(" ", "-"), int(about["attempt"])
        while (path := folder / f"{role}.attempt-{attempt}.json").exists():
            attempt += 1  # from before the run was resumed
        text = json.dumps(about, indent=2, default=str)

        def write() -> None:
            folder.mkdir(exist_ok=True)
            replace_whole(path, text.encode())

        self._attempt("failures", write)
        return str(path.relative_to(self._folder))

    def last_round(self) -> int:
        """Return the last round that was written down, 0 if none was."""
        lines = read_lines(self._folder / METRICS)
        return _round(lines[-1]) if lines else 0

    def has_saved(self) -> bool:
        """Whether a checkpoint was ever written."""
        return any(x.get("event") == SAVED for x in read_lines(self._folder / EVENTS))

    def recorded_matches(self) -> list[tuple[int, str]]:
        """Return the evaluations and probes that were written down: round, and of whom.

        A probe that failed is among them as PROBE.
        """
        lines = read_lines(self._folder / EVALUATIONS)
        found = [(_round(line), str(line.get("players"))) for line in lines]
        lines = read_lines(self._folder / PROBES)
        found += [(_round(line), PROBES) for line in lines]
        lines = [x for x in read_lines(self._folder / EVENTS) if x.get("role") == PROBE]
        return [*found, *((_round(line), PROBE) for line in lines)]

    def cut(self, boundary: int) -> None:
        """Take out what came after a boundary; the run goes on from there."""
        for name in (METRICS, EPISODES, EVALUATIONS, PROBES):
            path = self._folder / name
            kept = [line for line in read_lines(path) if _round(line) <= boundary]
            if path.exists():
                text = "".join(json.dumps(line) + "\n" for line in kept)
                replace_whole(path, text.encode())

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Show figures in TensorBoard."""
        if values:
            self._attempt("tensorboard", lambda: self._board.write(step, values))


def _number(value: Any) -> Any:
    """Return numpy's numbers as Python's; those that are none become null."""
    number = value.item()
    return number if number == number and abs(number) != float("inf") else None


def _without_infinite(value: Any) -> Any:
    """Return the same, in which null stands for what is infinite or not a number."""
    if isinstance(value, Mapping):
        return {name: _without_infinite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def finite(figures: Mapping[str, float]) -> dict[str, float | None]:
    """Return figures that JSON can hold: what is not a number becomes null."""
    found: dict[str, float | None] = {}
    for name, value in figures.items():
        number = float(value)
        found[name] = number if abs(number) < float("inf") else None
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file; a last one that is cut off is left out.

    Raises:
        ConfigError: if it may not be read.
    """
    try:
        whole = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise cannot_read(path, error) from error
    found = []
    for text in whole.splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        found.append(line)
    return found


def why_inexact(folder: Path) -> str:
    """Return why a run is not exact, as its events say; '' if they do not."""
    why = ""
    for line in read_lines(folder / EVENTS):
        if line.get("event") == AGAIN:
            why = ""
        elif line.get("event") == INEXACT:
            why = why or str(line.get("line"))
    return why


def _round(line: Mapping[str, Any]) -> int:
    number = line.get("round")
    return number if type(number) is int else 0

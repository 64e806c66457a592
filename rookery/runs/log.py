"""The log of a run: one JSON object per line, and TensorBoard.

metrics.jsonl      one line per round: times, and the metrics of every agent
episodes.jsonl     one line per finished episode
evaluations.jsonl  one line per evaluation
probes.jsonl       one line per call of the user's probe
events.jsonl       one line per start, end or other event of the run's processes

TensorBoard shows what is in the first four. Its tags have the metric first, so that agents
are side by side (`reward/0`, `reward/1`), and its axis is the number of world-turns. The
folder of a run from before these tags is brought up to date when it is
resumed: its event files move to tensorboard/rounds/, and everything is written again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rookery.storage.access import cannot_read
from rookery.storage.checkpoints import Ownership
from rookery.storage.files import AppendedFile, Attempts, mend, replace_whole

if TYPE_CHECKING:
    from rookery.training.training import Round

METRICS = "metrics.jsonl"
EPISODES = "episodes.jsonl"
EVALUATIONS = "evaluations.jsonl"
PROBES = "probes.jsonl"
EVENTS = "events.jsonl"
PROBE = "probe"
"""The role of a probe in events."""
INEXACT = "inexact"
"""The event after which a run may differ from one that was never interrupted."""
WARNING = "warning"
"""The event of a warning that the user was shown."""
SAVED = "checkpoint"
AGAIN = "again"
"""The event of a run that starts again from round 0: earlier events no longer count."""


class Totals(NamedTuple):
    """What the logged rounds of a run add up to."""

    updates: int = 0
    """Of all agents together."""
    seconds: float = 0.0


class RunLog:
    """Appends to the log files of a run; a line that cannot be written is left out."""

    def __init__(
        self,
        folder: Path,
        attempt: Attempts,
        world_turns: int = 1,
        owner: Ownership | None = None,
    ) -> None:
        """Open the log of a run.

        Args:
            folder: of the run.
            attempt: calls what writes to a file, and reports if that fails.
            world_turns: turns of all worlds together in a round, for TensorBoard's axis.
            owner: says whether this process may still write.
        """
        # Not at the top: it takes long to import, and reading a log does not need it.
        from rookery.runs.tensorboard import Board

        self._folder, self._attempt, self._world_turns = folder, attempt, world_turns
        self._board = Board(folder / "tensorboard")
        self._is_board_current = False
        self._owner = owner or Ownership()
        self._files = {
            name: AppendedFile(folder / name, self._owner.check)
            for name in (METRICS, EPISODES, EVALUATIONS, PROBES, EVENTS)
        }
        self._attempt(EVENTS, lambda: mend(folder / EVENTS))  # a kill may have cut it off

    def line(self, name: str, value: Mapping[str, Any]) -> None:
        """Append one JSON object to a file of the run."""
        try:
            text = json.dumps(value, allow_nan=False, default=_number) + "\n"
        except ValueError:  # it contains NaN or infinity, which JSON does not have
            text = json.dumps(_without_infinite(value), default=_number) + "\n"
        self._attempt(name, lambda: self._files[name].append(text.encode()))

    def event(self, event: str, role: str = "main", **details: Any) -> str | None:
        """Log an event of one of the run's processes.

        Returns:
            The file that the traceback of a failure was written to.
        """
        source = {"time": time.time(), "event": event, "role": role, "pid": os.getpid()}
        line = {**source, "attempt": 1, **details}
        if "traceback" in line:
            line["file"] = self._write_failure(line)
            del line["traceback"]
        self.line(EVENTS, line)
        return line.get("file")

    def _write_failure(self, failure: Mapping[str, Any]) -> str:
        folder = self._folder / "failures"
        role, attempt = str(failure["role"]).replace(" ", "-"), int(failure["attempt"])
        while (path := folder / f"{role}.attempt-{attempt}.json").exists():
            attempt += 1  # the file is from before the run was resumed
        text = json.dumps(failure, indent=2, default=str)

        def write() -> None:
            folder.mkdir(exist_ok=True)
            replace_whole(path, text.encode())

        self._attempt("failures", write)
        return str(path.relative_to(self._folder))

    def metrics(self, ids: Sequence[str], result: Round) -> None:
        """Log the metrics of all agents in a round."""
        played, learned = result.played.metrics, result.learned.metrics
        agents = {i: finite({**played[i], **learned.get(i, {})}) for i in ids}
        times = {"play": result.played.seconds, "learn": result.learned.seconds}
        rounds = {"round": result.number, "seconds": result.seconds}
        line = {**rounds, **times, "agents": agents}
        self.line(METRICS, line)
        self.scalars(result.number, _metric_scalars(line))

    def episodes(self, ids: Sequence[str], result: Round) -> None:
        """Log the episodes that ended in a round."""
        lines = []
        for episode in result.played.episodes:
            line = {
                "round": result.number,
                "world": episode.world,
                "episode": episode.number,
                "turns": episode.turns,
                "returns": dict(zip(ids, episode.returns.tolist(), strict=True)),
                "counts": {
                    name: dict(zip(ids, counts.tolist(), strict=True))
                    for name, counts in episode.counts.items()
                },
            }
            self.line(EPISODES, line)
            lines.append(line)
        self.scalars(result.number, _episode_scalars(lines))

    def evaluations(
        self, match: Mapping[str, Any], logged: Collection[tuple[int, str]]
    ) -> None:
        """Log the evaluations at a boundary, except those that have been logged."""
        for players, summary in match["evaluations"].items():
            if (match["round"], players) not in logged:
                line = {"round": match["round"], "players": players, **summary}
                self.line(EVALUATIONS, line)
                self.scalars(match["round"], _evaluation_scalars(line))

    def probe(self, number: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics that a probe returned at a boundary."""
        line = {"round": number, "figures": finite(metrics)}
        self.line(PROBES, line)
        self.scalars(number, _probe_scalars(line))

    def scalars(self, number: int, values: Mapping[str, float]) -> None:
        """Write values of a round for TensorBoard."""
        if values:
            if not self._is_board_current:
                self._is_board_current = True
                self._attempt("tensorboard", self._renew_board)
            step = number * self._world_turns
            self._attempt("tensorboard", lambda: self._board.write(step, values))

    def _renew_board(self) -> None:
        """Set aside event files with other tags and another axis, and write them again."""
        if not self._board.set_aside_older():
            return
        by_round: dict[int, dict[str, float]] = {}
        episodes: dict[int, list[dict[str, Any]]] = {}
        for line in read_lines(self._folder / EPISODES):
            episodes.setdefault(_round(line), []).append(line)
        for number, lines in episodes.items():
            by_round.setdefault(number, {}).update(_episode_scalars(lines))
        for name, scalars_of in (
            (METRICS, _metric_scalars),
            (EVALUATIONS, _evaluation_scalars),
            (PROBES, _probe_scalars),
        ):
            for line in read_lines(self._folder / name):
                by_round.setdefault(_round(line), {}).update(scalars_of(line))
        for number in sorted(by_round):
            self._board.write(number * self._world_turns, by_round[number])

    def last_round(self) -> int:
        """Return the last round that was logged, 0 if none was."""
        lines = read_lines(self._folder / METRICS)
        return _round(lines[-1]) if lines else 0

    def totals(self) -> Totals:
        """Return the updates and seconds of all rounds that were logged."""
        return totals_of(read_lines(self._folder / METRICS))

    def close(self) -> None:
        """Close all files; more can be logged after it."""
        for file in self._files.values():
            file.close()

    def has_saved(self) -> bool:
        """Whether a checkpoint was ever written."""
        return any(x.get("event") == SAVED for x in read_lines(self._folder / EVENTS))

    def logged_matches(self) -> list[tuple[int, str]]:
        """Return the evaluations and probes that were logged, as round and players.

        For a probe, PROBES is in place of the players, and PROBE if it failed.
        """
        lines = read_lines(self._folder / EVALUATIONS)
        matches = [(_round(line), str(line.get("players"))) for line in lines]
        lines = read_lines(self._folder / PROBES)
        matches += [(_round(line), PROBES) for line in lines]
        lines = [x for x in read_lines(self._folder / EVENTS) if x.get("role") == PROBE]
        return [*matches, *((_round(line), PROBE) for line in lines)]

    def cut(self, boundary: int) -> None:
        """Remove all lines of rounds after a boundary, from which the run continues.

        The remaining lines are copied to new files, so that a process that has the old ones
        open can append nothing to them.
        """
        for name in (METRICS, EPISODES, EVALUATIONS, PROBES):
            path = self._folder / name
            kept = [line for line in read_lines(path) if _round(line) <= boundary]
            self._owner.check()
            if path.exists():
                text = "".join(json.dumps(line) + "\n" for line in kept)
                replace_whole(path, text.encode())


def totals_of(lines: Iterable[Mapping[str, Any]]) -> Totals:
    """Return the updates and seconds of the rounds in metrics.jsonl."""
    updates, seconds = 0, 0.0
    for line in lines:
        seconds += _count(line.get("seconds"))
        agents = line.get("agents")
        for metrics in agents.values() if isinstance(agents, dict) else ():
            if isinstance(metrics, dict):
                updates += int(_count(metrics.get("updates")))
    return Totals(updates, seconds)


def lineup_name(players: str) -> str:
    """Return the name of a line-up in evaluations.jsonl as it is called elsewhere.

    The file calls trained agents that act greedily `greedy`, which is also the name of a
    scripted player; they are `trained` everywhere else.
    """
    from rookery.evaluation.play import TRAINED  # late: it loads all games

    return TRAINED if players == "greedy" else players


def _metric_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    return {
        f"{metric}/{agent}": value
        for agent, metrics in line["agents"].items()
        for metric, value in metrics.items()
        if value is not None
    }


def _episode_scalars(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean returns and counts of the episodes that ended in a round."""
    if not lines:
        return {}
    scalars = {}
    for agent in lines[0]["returns"]:
        returns = [line["returns"][agent] for line in lines]
        scalars[f"return/{agent}"] = float(np.mean(returns))
        for name in lines[0]["counts"]:
            counts = [line["counts"][name][agent] for line in lines]
            scalars[f"counts/{name}/{agent}"] = float(np.mean(counts))
    return scalars


def _evaluation_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean return of a line-up, and of each of its agents."""
    tag = f"evaluation/{lineup_name(line['players'])}"
    agents = {f"{tag}/{agent}": mean for agent, mean in line["agents"].items()}
    return {tag: line["mean"], **agents}


def _probe_scalars(line: Mapping[str, Any]) -> dict[str, float]:
    return {f"probe/{k}": v for k, v in line["figures"].items() if v is not None}


def _number(value: Any) -> Any:
    """Return a numpy number as Python's; NaN and infinity become null."""
    number = value.item()
    return number if number == number and abs(number) != float("inf") else None


def _without_infinite(value: Any) -> Any:
    """Return the same value with null in place of NaN and infinity."""
    if isinstance(value, Mapping):
        return {name: _without_infinite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return metrics as JSON can hold them: NaN and infinity become null."""
    numbers = {name: float(value) for name, value in metrics.items()}
    return {name: x if isfinite(x) else None for name, x in numbers.items()}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a file; a last line that is cut off is left out.

    Raises:
        ConfigError: if the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise cannot_read(path, error) from error
    lines = []
    for row in text.splitlines():
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


def why_inexact(folder: Path) -> str:
    """Return why a run is not exact according to its events; '' if they give no reason."""
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


def _count(value: Any) -> float:
    """Return a number from a file that may have been edited; 0 for anything else."""
    return value if isinstance(value, int | float) and 0 <= value < 2**62 else 0

"""The runs in a folder: what they train, how far they are, and how well they do.

Everything is read from the files of the runs, without opening a game or importing torch, so
that hundreds of runs can be listed in a moment, also while they are being trained.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from rookery.config.toml import read_toml
from rookery.errors import ConfigError
from rookery.runs.folder import CONFIG, SEEDS, SWEEP
from rookery.runs.log import EPISODES, EVALUATIONS, EVENTS, METRICS, read_lines
from rookery.storage.access import is_file

SEAL = "seal.json"
WRITTEN_BY_TRAINING = (SEAL, EVENTS, METRICS)
"""A folder with none of these was made by `rookery replay GAME`, and is not a run."""
TAIL_BYTES = 2**16
SLACK_SECONDS = 5.0
"""How much later than its own log a process can seem to have started."""
TRAINED = ("trained", "greedy")
"""What evaluations call the trained agents."""


@dataclass(frozen=True)
class RunInfo:
    """A run, as its files describe it."""

    path: Path
    game: str
    algorithm: str
    """Several are joined by '+'."""
    seed: int
    state: str
    """`running`, `finished`, `stopped`, `failed`, `killed`, or `new` before its start."""
    round: int
    """The last round that is complete."""
    rounds: int
    score: float | None
    """The mean return of all agents, in the last evaluation or the last episodes."""
    scored_by: str
    """`evaluation`, `episodes`, or '' without a score."""
    updated: float
    """When it was last written to, in seconds since 1970."""
    group: Path | None = None
    """The folder of seeds that it is in, if any."""

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain data."""
        group = str(self.group) if self.group else None
        return {**asdict(self), "path": str(self.path), "group": group}


def list_folder(folder: Path) -> list[RunInfo]:
    """Return all runs in a folder and in the folders within it, seeds in order.

    Raises:
        ConfigError: if there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder: name one that contains runs, or train one first."
        )
    runs = [
        info
        for path in _folders(folder)
        if any(is_file(path / name) for name in WRITTEN_BY_TRAINING)
        and (tree := _tree_of(path))
        and (info := read_info(path, tree)) is not None
    ]
    return sorted(runs, key=lambda info: (str(info.group or info.path), info.seed))


def read_info(path: Path, tree: Mapping[str, Any]) -> RunInfo | None:
    """Return what the files of a run say; None if they are not those of a run.

    Args:
        path: the folder of the run.
        tree: its settings, from config.toml.
    """
    game, agents = tree.get("game"), tree.get("agents", {})
    if not isinstance(game, dict) or "name" not in game or not isinstance(agents, dict):
        return None
    metrics = _last_lines(path / METRICS)
    events = read_lines(path / EVENTS)
    starts = [event for event in events if _is_main(event, "start")]
    planned = starts[-1].get("rounds") if starts else None
    rounds = _whole(planned, _whole(tree.get("rounds"), 0))
    done = _whole(metrics[-1].get("round"), 0) if metrics else 0
    score, scored_by = _score(path)
    is_seed = path.name.startswith("seed-") and path.name[5:].isdecimal()
    return RunInfo(
        path=path,
        game=str(game["name"]),
        algorithm=_algorithms(tree, agents),
        seed=_whole(tree.get("seed"), 0),
        state=state_after(events, done, rounds),
        round=done,
        rounds=rounds,
        score=score,
        scored_by=scored_by,
        updated=_updated(path),
        group=path.parent if is_seed else None,
    )


def seeds_not_started(folder: Path) -> list[int]:
    """Return the seeds in the plan of a folder of seeds that have no run yet."""
    file = folder / SWEEP if is_file(folder / SWEEP) else folder / SEEDS
    try:
        plan = json.loads(file.read_text())
        seeds = [seed for seed in plan["seeds"] if type(seed) is int]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [seed for seed in seeds if not is_file(folder / f"seed-{seed}" / CONFIG)]


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders with a configuration; a run has no other run inside it."""
    for name, inner, files in os.walk(folder):
        if CONFIG in files:
            inner.clear()
            yield Path(name)
        inner[:] = sorted(x for x in inner if not x.startswith("."))


def _tree_of(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path / CONFIG)
    except ConfigError:
        return {}  # a file of another program


def state_after(events: Sequence[Mapping[str, Any]], done: int, rounds: int) -> str:
    """Return the state of a run after its last start, according to its events.

    A run that ends before its last round without having been asked to stop has failed; the
    cause may be on record as the death of another process.
    """
    starts = [i for i, event in enumerate(events) if _is_main(event, "start")]
    since = events[starts[-1] :] if starts else events
    names = [event.get("event") for event in since if event.get("role") == "main"]
    if not starts:
        return "failed" if "failure" in names else "new"
    if "failure" in names:
        return "failed"
    if "end" in names and done >= rounds:
        return "finished"
    if "end" in names:
        return "stopped" if "stop" in names else "failed"
    return "running" if _is_alive(since[0]) else "killed"


def _is_main(event: Mapping[str, Any], name: str) -> bool:
    return event.get("role") == "main" and event.get("event") == name


def _is_alive(start: Mapping[str, Any]) -> bool:
    """Whether the process that logged its start still runs; its id may be in use again."""
    try:
        created = psutil.Process(_whole(start.get("pid"), -1)).create_time()
    except (psutil.Error, ValueError):
        return False
    written = start.get("time")
    return isinstance(written, int | float) and created <= written + SLACK_SECONDS


def _score(path: Path) -> tuple[float | None, str]:
    """Return the mean return in the last evaluation, or else in the last episodes."""
    for line in reversed(_last_lines(path / EVALUATIONS)):
        mean = line.get("mean")
        if line.get("players") in TRAINED and isinstance(mean, int | float):
            return float(mean), "evaluation"
    lines = _last_lines(path / EPISODES)
    newest = [line for line in lines if line.get("round") == lines[-1].get("round")]
    returns = [
        value
        for line in newest
        if isinstance(line.get("returns"), dict)
        for value in line["returns"].values()
        if isinstance(value, int | float)
    ]
    return (sum(returns) / len(returns), "episodes") if returns else (None, "")


def _algorithms(tree: Mapping[str, Any], agents: Mapping[str, Any]) -> str:
    groups = [group for group in agents.values() if isinstance(group, dict)]
    named = [str(group["algorithm"]) for group in groups if "algorithm" in group]
    return "+".join(dict.fromkeys([str(tree.get("algorithm", "?")), *named]))


def _updated(path: Path) -> float:
    times = []
    for name in (CONFIG, EVENTS, METRICS, EVALUATIONS):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=time.time())


def _last_lines(path: Path, size: int = TAIL_BYTES) -> list[dict[str, Any]]:
    """Return the last complete lines of a file, at least one of them if it has any."""
    try:
        with open(path, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - size)
            file.seek(start)
            rows = file.read().split(b"\n")[1 if start else 0 : -1]
    except OSError:
        return []
    if start and not rows:  # one line is longer than this
        return _last_lines(path, 8 * size)
    lines = []
    for row in rows:
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):
            continue  # damaged
        if isinstance(line, dict):
            lines.append(line)
    return lines


def _whole(value: Any, default: int) -> int:
    return value if type(value) is int else default

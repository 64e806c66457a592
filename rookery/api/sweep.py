"""`rookery.sweep`: many runs in one folder."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.api.cells_progress import CellsProgress
from rookery.api.display import in_notebook
from rookery.api.sweep_results import Sweep
from rookery.config.messages import toml_value
from rookery.errors import ConfigError, RookeryError, warn
from rookery.printing import command, err, say
from rookery.stdio import guarded
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.axes import Axis, Question, parse_seeds
from rookery.sweeps.cells import STATES, failures, state_of
from rookery.sweeps.local import LocalSweep, Outcome, Say
from rookery.sweeps.plan import Named, Plan, new_plan


class CellsFailed(RookeryError):
    """Some cells of a sweep have failed; the others are done."""


@dataclass(frozen=True)
class SweepStatus:
    """How many cells of a sweep are done, running, failed, stopped and waiting."""

    sweep: str
    cells: int
    done: int
    running: int
    failed: int
    stopped: int
    """Begun, saved, and trained by nobody now."""
    waiting: int
    """Not begun."""
    failures: dict[str, str]
    """One line for each cell that has failed."""

    @property
    def left(self) -> int:
        """How many cells are neither done nor failed."""
        return self.cells - self.done - self.failed

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "left": self.left}

    def __str__(self) -> str:
        counts = [f"{getattr(self, name)} {name}" for name in STATES if getattr(self, name)]
        lines = [f"{self.sweep}: {self.cells} cells: {', '.join(counts)}"]
        return "\n".join([*lines, *(f"{k} failed: {v}" for k, v in self.failures.items())])


def status_of(plan: Plan) -> SweepStatus:
    """Return how far all cells of a sweep are."""
    states = [state_of(plan, cell) for cell in plan.cells]
    counts = {name: states.count(name) for name in STATES}
    return SweepStatus(str(plan.folder), len(states), **counts, failures=failures(plan))


def train_here(plan: Plan, stop: StopFlag, quiet: bool, say: Say, warn: Say) -> Outcome:
    """Train all cells on this machine that are not done, with progress.

    Raises:
        Stopped: if asked to stop; all cells are saved.
        CellsFailed: if some have failed.
    """
    folders = {cell.name: cell.folder for cell in plan.cells}
    rounds = {cell.name: cell.config.rounds for cell in plan.cells}
    with CellsProgress(err, folders, rounds, quiet) as progress:
        outcome = LocalSweep(plan, stop, progress, say, warn).run()
    if outcome.failed:
        raise failure_of(plan, outcome.failed)
    return outcome


def failure_of(plan: Plan, failed: Mapping[str, str]) -> CellsFailed:
    """Return the error for cells that have failed."""
    name, line = next(iter(failed.items()))
    others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    again = command("sweep", "go", plan.folder)
    return CellsFailed(
        f"{len(failed)} of {len(plan.cells)} cells failed: {name}{others}: {line} All "
        f"others are done; try the failed ones again with: {again}"
    )


@guarded()
def sweep(
    games: str | Sequence[str],
    /,
    *,
    vary: Mapping[str | tuple[str, ...], Iterable[Any]] | None = None,
    seeds: str | Iterable[int] = (0,),
    run: str | Path | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Sweep:
    """Train every combination of games, settings and seeds, and return the sweep.

    Args:
        games: one or several, by name.
        vary: the values of every setting to vary: `{"learning_rate": [1e-4, 3e-4]}`. A
            tuple of names varies together: `{("worlds", "batch_size"): [(8, 32)]}`.
        seeds: of every combination, as for `rookery.train`.
        run: the folder; by default the next free one in runs/. If it is that of a sweep
            with the same plan, it is continued.
        progress: as for `rookery.train`.
        **settings: that all cells have in common, as for `rookery.train`.
    """
    listed = [games] if isinstance(games, str) else list(games)
    axes = tuple(_axis(keys, values) for keys, values in (vary or {}).items())
    fixed = tuple(f"{key}={toml_value(value)}" for key, value in _flat(settings))
    question = Question(tuple(listed), axes, tuple(parse_seeds(seeds)), fixed)
    plan = new_plan(question, None if run is None else Path(run), Named())
    quiet = progress is False
    if progress is None:
        quiet = not (err.is_terminal or in_notebook())
    stop = StopFlag()
    is_main = threading.current_thread() is threading.main_thread()
    try:
        with stop.listening() if is_main else nullcontext():
            train_here(plan, stop, quiet, _ignore if quiet else say, warn)
    except Stopped:
        raise KeyboardInterrupt from None
    return Sweep(plan.folder, plan.named.games)


def _ignore(line: str) -> None:
    """Show nothing."""


def _axis(keys: str | tuple[str, ...], values: Iterable[Any]) -> Axis:
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    steps = []
    for value in values:
        step = (value,) if isinstance(keys, str) else tuple(value)
        if len(step) != len(names):
            raise ConfigError(
                f"vary has {len(step)} values for {', '.join(names)}: give one for each."
            )
        steps.append(tuple(toml_value(_plain(part)) for part in step))
    if not steps:
        raise ConfigError(f"vary has no values for {', '.join(names)}: give some.")
    return Axis(names, tuple(steps))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _flat(settings: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", _plain(value)

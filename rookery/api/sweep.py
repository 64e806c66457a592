"""`rookery.sweep` and `rookery.Sweep`: many runs in one folder, and their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.api.cells_progress import CellsProgress
from rookery.api.display import in_notebook
from rookery.api.results import interval, plot, table
from rookery.config.messages import toml_value
from rookery.errors import ConfigError, RookeryError, checked, warn
from rookery.evaluation.tables import pandas_or_advice
from rookery.printing import command, err, say
from rookery.runs.folder import CONFIG
from rookery.runs.log import METRICS, read_lines
from rookery.runs.overview import Overview
from rookery.stdio import guarded
from rookery.stop import StopFlag, Stopped
from rookery.storage.access import is_file
from rookery.sweeps.axes import Axis, Question, parse_seeds
from rookery.sweeps.cells import STATES, failures, state_of, unlike
from rookery.sweeps.local import LocalSweep, Outcome, Say
from rookery.sweeps.plan import Plan, named_in, new_plan, read_plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


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
    unlike: dict[str, str]
    """Why a cell may differ from the others, such as another version of torch."""

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
        lines += [f"{name} failed: {line}" for name, line in self.failures.items()]
        lines += [f"{name} is unlike the others: {why}" for name, why in self.unlike.items()]
        return "\n".join(lines)


class Sweep:
    """A sweep on disk: its runs, and what they measured.

    Args:
        folder: of the sweep.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(checked("folder", folder, str, Path))
        content = read_plan(self.path)
        self._groups, self._seeds = content["groups"], content["seeds"]

    def __repr__(self) -> str:
        cells = len(self._groups) * len(self._seeds)
        return f"<Sweep {self.path}: {cells} cells, {len(self._begun())} begun>"

    def _cells(self) -> list[tuple[Path, dict[str, Any]]]:
        """Return every cell's folder, and what distinguishes it."""
        games = len({group["game"] for group in self._groups}) > 1
        cells = []
        for group in self._groups:
            labels = {"game": group["game"]} if games else {}
            labels |= {key: _value(text) for key, text in group["settings"].items()}
            for seed in self._seeds:
                folder = self.path / group["folder"] / f"seed-{seed}"
                cells.append((folder, {**labels, "seed": seed}))
        return cells

    def _begun(self) -> list[tuple[Path, dict[str, Any]]]:
        return [(path, x) for path, x in self._cells() if is_file(path / CONFIG)]

    def runs(self) -> DataFrame:
        """Return one row per cell that has begun, like `rookery.table` (needs pandas)."""
        return table([folder for folder, _ in self._begun()])

    def table(self) -> DataFrame:
        """Return one row per combination: its settings, and scores over its seeds.

        Scores are interquartile means over seeds with 95 % bootstrap intervals: `return`
        over the last quarter of the rounds, and `trained`, of the last evaluation, if there
        is one. `seeds` is how many have begun. Needs pandas.
        """
        groups: dict[tuple[Any, ...], list[tuple[dict[str, Any], dict[str, float]]]] = {}
        for folder, labels in self._begun():
            key = tuple(value for name, value in labels.items() if name != "seed")
            groups.setdefault(key, []).append((labels, Overview(folder).last_scores()))
        rows = [_group_row(cells) for cells in groups.values()]
        return pandas_or_advice().DataFrame(rows)

    def metrics(self) -> DataFrame:
        """Return the metrics of every agent in every round of every cell (needs pandas).

        The settings that distinguish cells are columns.
        """
        rows = [
            {**labels, "round": line["round"], "agent": agent, **metrics}
            for folder, labels in self._begun()
            for line in read_lines(folder / METRICS)
            for agent, metrics in line["agents"].items()
        ]
        return pandas_or_advice().DataFrame(rows)

    def plot(
        self, metric: str = "return", by: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw a learning curve for every combination, like `rookery.plot`.

        Args:
            metric: as for `rookery.plot`.
            by: a setting; by default the one that the sweep varies, if it is only one.
            ax: the axes to draw in; by default new ones.
        """
        varied = dict.fromkeys(key for group in self._groups for key in group["settings"])
        if by is None and len(varied) == 1:
            by = next(iter(varied)).replace('"', "")
        return plot([folder for folder, _ in self._begun()], metric, by, ax)


def _value(text: str) -> Any:
    """Return a setting's value as TOML reads it, or as text."""
    from rookery.config.parse import parse_overrides

    return parse_overrides([f"x={text}"])["x"]


def _group_row(cells: Sequence[tuple[dict[str, Any], dict[str, float]]]) -> dict[str, Any]:
    labels = {name: value for name, value in cells[0][0].items() if name != "seed"}
    row: dict[str, Any] = {**labels, "seeds": len(cells)}
    for name in dict.fromkeys(name for _, scores in cells for name in scores):
        values = [scores[name] for _, scores in cells if name in scores]
        if name in ("return", "trained") and np.isfinite(values).all():
            estimate = interval(values)
            row |= {name: estimate.value, f"{name}_low": estimate.low}
            row[f"{name}_high"] = estimate.high
        else:
            row[f"counts.{name}" if name in row else name] = float(np.mean(values))
    return row


def status_of(plan: Plan) -> SweepStatus:
    """Return how far all cells of a sweep are."""
    states = [state_of(plan, cell) for cell in plan.cells]
    counts = {name: states.count(name) for name in STATES}
    return SweepStatus(
        str(plan.folder),
        len(states),
        **counts,
        failures=failures(plan),
        unlike=unlike(plan),
    )


def train_sweep(
    plan: Plan,
    stop: StopFlag,
    quiet: bool,
    say: Say,
    warn: Say,
    engine: Callable[..., Any] = LocalSweep,
) -> Outcome:
    """Train all cells that are not done, with progress.

    Args:
        plan: of the sweep.
        stop: asks all cells to save and leave.
        quiet: whether to show no progress.
        say: called with lines for the user.
        warn: called with the cells' warnings.
        engine: what trains them: `LocalSweep`, or what is made with the same arguments.

    Raises:
        Stopped: if asked to stop; all cells are saved.
        CellsFailed: if some have failed.
    """
    folders = {cell.name: cell.folder for cell in plan.cells}
    rounds = {cell.name: cell.config.rounds for cell in plan.cells}
    with CellsProgress(err, folders, rounds, quiet) as progress:
        outcome: Outcome = engine(plan, stop, progress, say, warn).run()
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
    plan = new_plan(question, None if run is None else Path(run), named_in(question))
    quiet = progress is False
    if progress is None:
        quiet = not (err.is_terminal or in_notebook())
    stop = StopFlag()
    is_main = threading.current_thread() is threading.main_thread()
    try:
        with stop.listening() if is_main else nullcontext():
            train_sweep(plan, stop, quiet, _ignore if quiet else say, warn)
    except Stopped:
        raise KeyboardInterrupt from None
    return Sweep(plan.folder)


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

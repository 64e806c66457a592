"""Reaching a named result again: a sweep over its seeds, and what they reach."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.api.evaluate import evaluate
from rookery.api.sweep import train_cells
from rookery.config.messages import toml_value
from rookery.errors import ConfigError, checked
from rookery.games.registry import entries_by_name
from rookery.reproduction.catalogue import Result, find_result
from rookery.reproduction.digests import expected_digest, fingerprint
from rookery.runs.configure import tree_of
from rookery.runs.folder import SWEEP
from rookery.runs.run import Run
from rookery.stdio import guarded
from rookery.storage.access import is_file
from rookery.studies.statistics import Interval, bootstrap, wilson
from rookery.sweeps.axes import Question, flat
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.planning import groups_of, new_plan
from rookery.sweeps.trust import Named


@dataclass(frozen=True)
class Reproduction:
    """What was reached, beside what was expected."""

    result: Result
    folder: Path
    values: tuple[float, ...]
    """What was measured of every seed."""
    seconds: float
    digest: str
    machine: dict[str, Any]
    """The hash of the machine's bits, and versions, which the digest depends on."""
    expected_digest: str | None
    """None if it is not known for this machine, or the settings were changed."""

    @property
    def reached(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean over seeds; None with one seed."""
        if len(self.values) == 1:
            return None
        if set(self.values) <= {0.0, 1.0}:
            return wilson(round(sum(self.values)), len(self.values))
        return bootstrap(self.values, lambda values: values.mean(axis=-1))

    @property
    def passed(self) -> bool:
        """Whether the mean over seeds is within the tolerance."""
        low, high = self.result.accepts
        return low <= self.reached <= high

    @property
    def is_same(self) -> bool | None:
        """Whether the digest is the expected one; None if that is not known."""
        return None if self.expected_digest is None else self.digest == self.expected_digest

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        low, high = self.interval or (None, None)
        return {
            "result": self.result.to_json(),
            "folder": str(self.folder),
            "reached": {"mean": self.reached, "low": low, "high": high},
            "values": list(self.values),
            "passed": self.passed,
            "seconds": self.seconds,
            "digest": self.digest,
            "machine": self.machine,
            "expected_digest": self.expected_digest,
            "same": self.is_same,
        }

    def __str__(self) -> str:
        result, (low, high) = self.result, self.result.accepts
        seeds, interval = len(self.values), self.interval
        reached = f"{self.reached:.4g}"
        if interval is not None:
            reached += f" [{interval.low:.4g}, {interval.high:.4g}]"
        return "\n".join(
            [
                f"{result.name}: {result.summary}",
                f"measured  {result.measure.text}",
                f"expected  {result.expected:.4g} ({result.source}{_doubt(result)})",
                f"accepted  {low:.4g} to {high:.4g}",
                f"reached   {reached} over {seeds} seed{'s' if seeds > 1 else ''}",
                f"digest    {self.digest[:16]}… {self._digest_note()}",
                f"{'reproduced' if self.passed else 'NOT reproduced'} in "
                f"{self.seconds:.0f} s, in {self.folder}",
            ]
        )

    def _digest_note(self) -> str:
        """Return how the digest compares with the one that was recorded."""
        if self.is_same is None:
            versions = ", ".join(f"{k} {v}" for k, v in self.machine.items() if k != "bits")
            return f"(none is recorded for bits {self.machine['bits'][:8]}…, {versions})"
        if self.is_same:
            return "as recorded with the same bits and versions"
        return (
            f"OTHER than recorded with the same bits and versions: {self.expected_digest}"
        )


def _doubt(result: Result) -> str:
    return "" if result.is_confirmed else "; unconfirmed"


def plan_of(result: Result, folder: Path | None, overrides: Sequence[str] = ()) -> Plan:
    """Return the plan of a result's sweep: a new one, or the one in the folder.

    Args:
        result: to reach.
        folder: for the runs; by default the next free one in runs/.
        overrides: settings that differ from the result's, as KEY=VALUE.

    Raises:
        ConfigError: if the folder holds something else.
    """
    changed = {word.partition("=")[0] for word in overrides}
    own = [
        f"{key}={toml_value(value)}"
        for key, value in result.settings.items()
        if key not in changed
    ]
    question = Question((result.game,), (), tuple(range(result.seeds)), (*own, *overrides))
    built_in = result.game in entries_by_name()
    named = Named() if built_in else Named([result.game])
    if folder is None or not is_file(folder / SWEEP):
        return new_plan(question, folder, named)
    plan, groups = Plan(folder, named), groups_of(question)
    same_cells = plan.seeds == list(question.seeds)
    if not same_cells or [g.config for g in plan.groups] != [g.config for g in groups]:
        raise ConfigError(
            f"{folder} is a sweep of something else than {result.name}: name a new folder."
        )
    return plan


def compare(
    result: Result, plan: Plan, begun: float, is_changed: bool = False
) -> Reproduction:
    """Measure all seeds of a result, which are trained, and compare.

    Args:
        result: to reach.
        plan: of its sweep, from `plan_of`.
        begun: when it began, by `time.monotonic`.
        is_changed: whether settings were changed, so that there is no expected digest.
    """
    values = tuple(measure(result, cell) for cell in plan.cells)
    runs = [Run(cell.folder, cell.entry.name) for cell in plan.cells]
    found = fingerprint(runs)
    expected = None if is_changed else expected_digest(result.name, found.machine)
    return Reproduction(
        result,
        plan.folder,
        values,
        time.monotonic() - begun,
        found.digest,
        dict(found.machine),
        expected,
    )


def measure(result: Result, cell: Cell) -> float:
    """Return what is measured of one seed."""
    matches = {
        player: evaluate(
            cell.folder, player, episodes=result.episodes, game=cell.entry.name
        ).matches[player]
        for player in result.measure.players
    }
    return result.measure.of(matches)


@guarded()
def reproduce(
    name: str,
    /,
    *,
    run: str | Path | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Reproduction:
    """Train and measure a named result again, and return what was reached.

    Args:
        name: one that `rookery reproduce --list` lists.
        run: the folder for its runs, which is continued if it has begun; by default the
            next free one in runs/.
        progress: as for `rookery.train`.
        **settings: that differ from those of the result, to see what it depends on.
    """
    checked("name", name, str)
    begun, result = time.monotonic(), find_result(name)
    overrides = [f"{key}={value}" for key, value in flat(tree_of(settings))]
    plan = plan_of(result, None if run is None else Path(run), overrides)
    train_cells(plan, progress)
    return compare(result, plan, begun, bool(overrides))

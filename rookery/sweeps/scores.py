"""The scores of all cells of a sweep, as far as they are.

A *task* is a game with those of its settings that the sweep varies; a *variant* is one
combination of all other settings. Variants are compared over tasks and seeds. Only files of
plain data are read: neither games nor algorithms are needed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config.parse import parse_overrides
from rookery.errors import ConfigError, checked, nearest
from rookery.runs.folder import CONFIG
from rookery.runs.overview import Overview
from rookery.specs import Array
from rookery.storage.access import is_file
from rookery.sweeps.plan import read_plan
from rookery.sweeps.search_record import search_in
from rookery.sweeps.trials import PRUNED, Trials

TRAINED, RETURN = "trained", "return"
GAME = "game"


@dataclass(frozen=True, eq=False)
class Group:
    """All seeds of one combination of game and settings, as planned."""

    game: str
    settings: dict[str, Any]
    """What distinguishes it, by the names of settings."""
    task: str
    variant: str
    config: str
    """Its configuration as TOML, with any seed."""
    files: Mapping[str, Any]
    """The checksums of the users' files when the sweep was planned."""
    folder: str
    """Relative to that of the sweep."""
    folders: Mapping[int, Path]
    """Of its cells, by seed."""

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The configuration as a tree."""
        return tomllib.loads(self.config)

    @property
    def is_evaluated(self) -> bool:
        """Whether its cells are evaluated during training, at least once."""
        every = int(self.tree.get("evaluate", {}).get("every_rounds", 0))
        return 0 < every <= int(self.tree.get("rounds", 1))


@dataclass(frozen=True, eq=False)
class CellScores:
    """A cell that has begun, and its scores."""

    group: Group
    seed: int
    overview: Overview

    @cached_property
    def scores(self) -> dict[str, float]:
        """Its finite scores by name, see `Overview.last_scores`; empty if it has none."""
        scores = self.overview.last_scores()
        return {name: value for name, value in scores.items() if np.isfinite(value)}

    @property
    def is_finished(self) -> bool:
        """Whether all of its rounds were trained."""
        return self.overview.rounds >= int(self.overview.settings.get("rounds", 1))


class SweepScores:
    """The scores of a sweep as they are now.

    Args:
        folder: of the sweep.

    Raises:
        ConfigError: if it is not that of a sweep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        content = read_plan(folder)
        self.seeds: list[int] = content["seeds"]
        self.search = search_in(content)
        self.trials = Trials(folder).read(content) if self.search else []
        """The trials of a search, which are its groups; empty for another sweep."""
        planned, is_search = content["groups"], self.search is not None
        self.groups = _groups(folder, planned, self.seeds, is_search)
        self.cells = [
            CellScores(group, seed, Overview(path))
            for group in self.groups
            for seed, path in group.folders.items()
            if is_file(path / CONFIG)
        ]

    @cached_property
    def tasks(self) -> list[str]:
        """All tasks, in the order of the plan."""
        return list(dict.fromkeys(group.task for group in self.groups))

    @cached_property
    def variants(self) -> list[str]:
        """All variants, in the order of the plan."""
        return list(dict.fromkeys(group.variant for group in self.groups))

    @property
    def games(self) -> list[str]:
        """All games, in the order of the plan."""
        return list(dict.fromkeys(group.game for group in self.groups))

    @cached_property
    def varied(self) -> list[str]:
        """The settings that the sweep varies."""
        return list(dict.fromkeys(name for x in self.groups for name in x.settings))

    def of(self, group: Group) -> list[CellScores]:
        """Return the cells of a group that have begun."""
        return self._by_group.get(id(group), [])

    @cached_property
    def _by_group(self) -> dict[int, list[CellScores]]:
        cells: dict[int, list[CellScores]] = {}
        for cell in self.cells:
            cells.setdefault(id(cell.group), []).append(cell)
        return cells

    def metric(self, name: str | None) -> str:
        """Return the name of a score; by default `trained`, if all cells are evaluated.

        Raises:
            ConfigError: if no cell has this score.
        """
        if name is not None:
            checked("metric", name, str)
        scored = [cell for cell in self.cells if cell.scores]
        if not scored:
            raise ConfigError(f"no cell of {self.folder} has scores yet: let it train.")
        if name is None:
            is_trained = any(TRAINED in cell.scores for cell in scored)
            planned = all(group.is_evaluated for group in self.groups)
            return TRAINED if planned and is_trained else RETURN
        if not any(name in cell.scores for cell in scored):
            known = {key for cell in scored for key in cell.scores}
            raise ConfigError(
                f"{self.folder} has no score '{name}': {nearest(name, known)}"
            )
        return name

    def matrix(
        self, variant: str, metric: str, tasks: Sequence[str], seeds: Sequence[int] = ()
    ) -> Array:
        """Return the scores of a variant, (seeds, tasks); NaN where there is none.

        Args:
            variant: one of `variants`.
            metric: the name of the score.
            tasks: the columns.
            seeds: the rows; by default all.
        """
        rows = {seed: i for i, seed in enumerate(seeds or self.seeds)}
        columns = {task: i for i, task in enumerate(tasks)}
        matrix = np.full((len(rows), len(columns)), np.nan)
        for cell in self.cells:
            group = cell.group
            if group.variant == variant and group.task in columns and cell.seed in rows:
                score = cell.scores.get(metric, np.nan)
                matrix[rows[cell.seed], columns[group.task]] = score
        return matrix

    def notes(self) -> list[str]:
        """Return lines about cells that are not finished; none if all are."""
        pruned = {x.folder for x in self.trials if x.state == PRUNED}
        groups = [x for x in self.groups if x.folder not in pruned]
        cells = [cell for group in groups for cell in self.of(group)]
        planned = len(groups) * len(self.seeds)
        unfinished = [cell for cell in cells if not cell.is_finished]
        missing = planned - len(cells)
        if not unfinished and not missing:
            return []
        parts = [f"{len(unfinished)} not finished, whose scores so far count"]
        parts = (parts if unfinished else []) + (
            [f"{missing} not begun"] if missing else []
        )
        return [f"of {planned} cells, {' and '.join(parts)}"]


def _groups(
    folder: Path,
    planned: Iterable[Mapping[str, Any]],
    seeds: Sequence[int],
    is_search: bool,
) -> list[Group]:
    planned = list(planned)
    varied = list(dict.fromkeys(key for group in planned for key in group["settings"]))
    groups = []
    for group in planned:
        settings = {key: value_of(text) for key, text in group["settings"].items()}
        # In a search, settings of the game are searched like all others.
        own = () if is_search else settings.items()
        of_game = {k: v for k, v in own if k.startswith(f"{GAME}.")}
        others = {k: v for k, v in settings.items() if k not in of_game}
        parts = filter(None, [group["game"], label_of(of_game, varied)])
        variant = label_of(others, varied) or _algorithm(group["config"])
        path = folder / group["folder"]
        groups.append(
            Group(
                group["game"],
                settings,
                ", ".join(parts),
                variant,
                group["config"],
                group["seal"].get("files", {}),
                group["folder"],
                {seed: path / f"seed-{seed}" for seed in seeds},
            )
        )
    return groups


def value_of(text: str) -> Any:
    """Return a setting's value as TOML reads it, or as text."""
    return parse_overrides([f"x={text}"])["x"]


def _algorithm(config: str) -> str:
    """Return the name of the algorithm, for a sweep that varies nothing else."""
    return str(tomllib.loads(config).get("algorithm", "all"))


def label_of(settings: Mapping[str, Any], varied: Sequence[str]) -> str:
    """Return settings as a label: `learning_rate=0.001, batch_size=32`."""
    return ", ".join(f"{short_name(k, varied)}={v}" for k, v in settings.items())


def short_name(key: str, varied: Sequence[str]) -> str:
    """Return the last part of a setting's name, if no other varied one ends like it."""
    last = key.rpartition(".")[2]
    return last if sum(x.rpartition(".")[2] == last for x in varied) == 1 else key

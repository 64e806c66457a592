"""The plan of a sweep: all its cells, in sweep.json.

A cell is an ordinary run, in a folder of its own. It is trained by whoever takes it first,
and its folder alone says how far it is. The plan holds what is needed to start it: the
configuration and the seal of its group, which is all seeds of one combination; and the
changes that the user has asked for since, which cells that have begun are given when they
are trained next. The file has a checksum, and names code only in order to refuse it unless
the user names it again.

Several seeds of one run (`rookery train GAME seeds=0..9`) are a sweep with a single group.
In a search, each trial is a group, which is added when its settings are known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.config.parse import merge, parse_overrides
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.games.registry import Entry
from rookery.local_code import is_local
from rookery.printing import command
from rookery.runs.folder import SWEEP, is_sweep
from rookery.runs.run import is_named, trusted_entry
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum
from rookery.sweeps.search_record import Search, fits, search_in, trial_name
from rookery.sweeps.trust import Named, refuse_unnamed, refuse_unnamed_game

LAYOUT = 1


@dataclass(frozen=True)
class Group:
    """All seeds of one combination of game and settings."""

    folder: str
    """Relative to that of the sweep; '' if the sweep has a single group."""
    game: str
    settings: dict[str, str]
    """What distinguishes it, by the names of settings."""
    config: str
    """The whole configuration as TOML, with any seed."""
    seal: dict[str, Any]
    """That of its cells, with any seed; empty if it is not known."""

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The configuration as a tree."""
        return tomllib.loads(self.config)


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    name: str
    """Its folder, relative to that of the sweep."""
    folder: Path
    group: Group
    seed: int
    entry: Entry
    changes: Sequence[Mapping[str, Any]] = ()
    """What the user has changed since the sweep was planned, as trees of settings."""

    @cached_property
    def config(self) -> Config:
        """The configuration that it starts with, which contains all changes."""
        return resolve({**self.group.tree, "seed": self.seed}, self.entry.settings)

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.name if self.group.folder else f"seed {self.seed}"


class Plan:
    """The plan of a sweep that the user may train: all its code is built in or named.

    Args:
        folder: of the sweep.
        named: code that is not built in.
        asked: settings that are about to be changed: a probe among them is in place of the
            one in the plan, which need not be named.

    Raises:
        ConfigError: if the folder is not that of a sweep, its plan was changed, or it names
            code that the user has not named.
    """

    def __init__(
        self,
        folder: Path,
        named: Named | None = None,
        asked: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.named = folder, named or Named()
        content = read_plan(folder)
        self.seeds: list[int] = content["seeds"]
        self.groups = [Group(**group) for group in content["groups"]]
        self.changes: list[dict[str, Any]] = content["changes"]
        self._found: dict[tuple[str, str], Entry] = {}
        """Every game once, by its names in the plan."""
        self._entries = {
            group.folder: self._trusted(group, asked or {}) for group in self.groups
        }
        self.search = search_in(content)
        self.open_groups: list[Group] = []
        """In place of the trials of a search whose settings are not known yet."""
        if self.search is not None:
            self._open(self.search)

    def _open(self, search: Search) -> None:
        """Add groups that stand for the trials that are still to come."""
        base = Group(**search.base)
        entry = self._trusted(base, {})
        for sample in search.samples():  # all code, before any of it is suggested
            overrides = parse_overrides(f"{key}={value}" for key, value in sample.items())
            config = resolve(merge(base.tree, overrides), entry.settings)
            refuse_unnamed(config, self.named, self.folder / SWEEP)
        names = map(trial_name, range(len(self.groups), search.trials))
        self.open_groups = [replace(base, folder=name) for name in names]
        self._entries |= {group.folder: entry for group in self.open_groups}

    @cached_property
    def _open_names(self) -> set[str]:
        return {group.folder for group in self.open_groups}

    def is_open(self, cell: Cell) -> bool:
        """Whether the settings of a cell are not known yet, so it cannot be trained."""
        return cell.group.folder in self._open_names

    @property
    def is_seeds(self) -> bool:
        """Whether it is several seeds of one run, rather than several combinations."""
        return [group.folder for group in self.groups] == [""]

    @property
    def noun(self) -> str:
        """What messages call its cells."""
        return "seeds" if self.is_seeds else "cells"

    def _trusted(self, group: Group, asked: Mapping[str, Any]) -> Entry:
        """Return the game of a group, if all its code is built in or was named."""
        named = next((x for x in self.named.games if is_named(group.game, [x])), None)
        if not is_local(group.game):  # for what is in a notebook there is no option
            refuse_unnamed_game(group.game, self.named, self.folder / SWEEP)
        game = group.game, group.tree["game"]["name"]
        if game not in self._found:
            self._found[game] = trusted_entry(self.folder / SWEEP, group.tree, named)
        entry = self._found[game]
        config = resolve(merge(group.tree, asked), entry.settings)
        with_resume = ", or with `rookery resume`: probe.code=" if self.is_seeds else ""
        refuse_unnamed(config, self.named, self.folder / SWEEP, with_resume)
        return entry

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells; the first seed of every group before the second of any.

        In a search, a trial is completed before the next one begins.
        """
        if self.search is not None:
            groups = [*self.groups, *self.open_groups]
            return [self._cell(group, seed) for group in groups for seed in self.seeds]
        return [self._cell(group, seed) for seed in self.seeds for group in self.groups]

    def _cell(self, group: Group, seed: int) -> Cell:
        name = "/".join(filter(None, [group.folder, f"seed-{seed}"]))
        entry = self._entries[group.folder]
        return Cell(name, self.folder / name, group, seed, entry, self.changes)


def read_plan(folder: Path) -> dict[str, Any]:
    """Return what sweep.json says.

    Raises:
        ConfigError: if there is none, or it was changed or damaged.
    """
    damaged = ConfigError(
        f"{folder / SWEEP} is not what was written when the sweep was planned: put it "
        "back, or plan the sweep again into another folder."
    )
    try:
        content = read_with_checksum(folder / SWEEP)
    except Damaged as error:
        raise damaged from error
    if content is None:
        problem = f"{folder} is not a sweep: it has no {SWEEP}."
        if is_sweep(folder):  # of an earlier version
            problem += f" Turn its seeds into one: {command('resume', folder)}"
        raise ConfigError(problem)
    if content.get("layout") != LAYOUT:
        raise ConfigError(
            f"{folder / SWEEP} has layout {content.get('layout')!r:.20}, expected "
            f"{LAYOUT}: use the version of Rookery that wrote it."
        )
    content = {"changes": [], **content}
    try:
        search = search_in(content)
    except ValueError:
        raise damaged from None
    if not _is_plan(content) or (search is not None and not _is_search(content, search)):
        raise damaged
    return content


def _is_plan(content: Mapping[str, Any]) -> bool:
    """Whether a plan has all its parts, and all cells are in the folder of the sweep."""
    seeds, groups, changes = (content.get(x) for x in ("seeds", "groups", "changes"))
    if not all(isinstance(x, list) for x in (seeds, groups, changes)):
        return False
    names = {field.name for field in fields(Group)}
    return (
        all(type(seed) is int and seed >= 0 for seed in seeds or ())
        and all(isinstance(group, dict) and set(group) == names for group in groups or ())
        and all(_is_inside(group["folder"]) for group in groups or ())
        and all(isinstance(change, dict) for change in changes or ())
    )


def _is_search(content: Mapping[str, Any], search: Search) -> bool:
    """Whether the groups in a plan are those of its search."""
    names = {field.name for field in fields(Group)}
    return set(search.base) == names and fits(content["groups"], search)


def _is_inside(name: Any) -> bool:
    return isinstance(name, str) and "/" not in name and name not in (".", "..")


def write_plan(
    folder: Path,
    seeds: Sequence[int],
    groups: Sequence[Group],
    changes: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write or replace the plan of a sweep, durably."""
    write_with_checksum(folder / SWEEP, content_of(seeds, groups, changes))


def content_of(
    seeds: Sequence[int],
    groups: Sequence[Group],
    changes: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return what the file with the plan says."""
    listed = [asdict(group) for group in groups]
    content = {"seeds": list(seeds), "groups": listed, "changes": list(changes)}
    return {"layout": LAYOUT, **content}

"""The plan of a sweep: all its cells, in sweep.json.

A cell is an ordinary run, in a folder of its own. It is trained by whoever takes it first,
and its folder alone says how far it is. The plan holds what is needed to start it: the
configuration and the seal of its group, which is all seeds of one combination. The file has
a checksum, and names code only in order to refuse it unless the user names it again.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.evaluation.probes import check_named, probe_of
from rookery.games.registry import Entry, entries_by_name
from rookery.protocol.user_files import code_of_agent
from rookery.runs.agent_files import origin_checksum, origins_of
from rookery.runs.configure import configure
from rookery.runs.folder import new_run
from rookery.runs.run import is_named, trusted_entry, untrusted_algorithms
from rookery.runs.seal import seal_of
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum
from rookery.sweeps.axes import Question

SWEEP = "sweep.json"
LAYOUT = 1
LONGEST_NAME = 100


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

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The configuration as a tree."""
        return tomllib.loads(self.config)


@dataclass(frozen=True)
class Named:
    """Code that the user has named on the command line or in Python."""

    games: Sequence[str] = ()
    algorithms: Sequence[str] = ()
    probes: Sequence[str] = ()

    def arguments(self) -> list[str]:
        """Return the options that name it again in another process."""
        return [
            *(f"--game={name}" for name in self.games),
            *(f"--algorithm={name}" for name in self.algorithms),
            *(f"--probe={name}" for name in self.probes),
        ]


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    name: str
    """Its folder, relative to that of the sweep."""
    folder: Path
    group: Group
    seed: int
    entry: Entry

    @cached_property
    def config(self) -> Config:
        """The configuration that it starts with."""
        return resolve({**self.group.tree, "seed": self.seed}, self.entry.settings)


class Plan:
    """The plan of a sweep that the user may train: all its code is built in or named.

    Args:
        folder: of the sweep.
        named: code that is not built in.

    Raises:
        ConfigError: if the folder is not that of a sweep, its plan was changed, or it names
            code that the user has not named.
    """

    def __init__(self, folder: Path, named: Named | None = None) -> None:
        self.folder, self.named = folder, named or Named()
        content = read_plan(folder)
        self.seeds: list[int] = content["seeds"]
        self.groups = [Group(**group) for group in content["groups"]]
        self._entries = {group.folder: self._trusted(group) for group in self.groups}

    def _trusted(self, group: Group) -> Entry:
        """Return the game of a group, if all its code is built in or was named."""
        named = next((x for x in self.named.games if is_named(group.game, [x])), None)
        if named is None and self.named.games and group.game not in entries_by_name():
            named = self.named.games[0]
        entry = trusted_entry(self.folder / SWEEP, group.tree, named)
        config = resolve(group.tree, entry.settings)
        settings = [config, *config.agents.values()]
        used = [name for each in settings for name in code_of_agent(each)]
        if missing := untrusted_algorithms(used, self.named.algorithms):
            raise ConfigError(
                f"{self.folder / SWEEP} names {missing[0]!r}, which is not built in. If "
                f"you trust this code, add: --algorithm {missing[0]}"
            )
        check_named(config, self.named.probes, str(self.folder / SWEEP))
        return entry

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells; the first seed of every group before the second of any."""
        return [self._cell(group, seed) for seed in self.seeds for group in self.groups]

    def _cell(self, group: Group, seed: int) -> Cell:
        name = "/".join(filter(None, [group.folder, f"seed-{seed}"]))
        return Cell(name, self.folder / name, group, seed, self._entries[group.folder])


def read_plan(folder: Path) -> dict[str, Any]:
    """Return what sweep.json says.

    Raises:
        ConfigError: if there is none, or it was changed or damaged.
    """
    try:
        content = read_with_checksum(folder / SWEEP)
    except Damaged as error:
        raise ConfigError(
            f"{folder / SWEEP} is not what was written when the sweep was planned: put it "
            "back, or plan the sweep again into another folder."
        ) from error
    if content is None:
        raise ConfigError(f"{folder} is not a sweep: it has no {SWEEP}.")
    if content.get("layout") != LAYOUT:
        raise ConfigError(
            f"{folder / SWEEP} has layout {content.get('layout')!r:.20}, expected "
            f"{LAYOUT}: use the version of Rookery that wrote it."
        )
    return content


def new_plan(question: Question, folder: Path | None, named: Named) -> Plan:
    """Check all cells of a sweep, write its plan into a new folder, and return it."""
    groups = groups_of(question)
    is_one_game = len(question.games) == 1
    path = new_run(folder, f"{question.games[0]}-sweep" if is_one_game else "sweep")
    content = {"layout": LAYOUT, "seeds": list(question.seeds)}
    write_with_checksum(path / SWEEP, {**content, "groups": [asdict(x) for x in groups]})
    return Plan(path, named)


def groups_of(question: Question) -> list[Group]:
    """Return all groups that a sweep asks for, with every setting checked.

    Raises:
        ConfigError: naming the combination that is impossible.
    """
    groups: list[Group] = []
    for game, settings in question.combinations():
        overrides = [f"{key}={value}" for key, value in settings.items()]
        try:
            group = _group(game, settings, [*question.fixed, *overrides])
        except ConfigError as error:
            if not overrides:
                raise
            combination = " ".join([game, *overrides])
            raise ConfigError(*(f"{combination}: {x}" for x in error.problems)) from None
        taken = {other.folder for other in groups}
        folder = next(x for x in _names(question, game, settings) if x not in taken)
        groups.append(Group(folder, *group))
    return groups


def _group(
    game: str, settings: dict[str, str], overrides: Sequence[str]
) -> tuple[str, dict[str, str], str, dict[str, Any]]:
    """Return the parts of a group except its folder."""
    entry, config = configure(game, overrides)
    # Side by side, cells fill the cores best with one process each.
    workers = 0 if config.workers == "auto" else config.workers
    config = config.model_copy(update={"workers": workers})
    probe_of(config)
    agents = agents_of(entry, config)
    origins = origins_of(config, agents)
    sums = {agent: origin_checksum(origin) for agent, origin in origins.items()}
    seal = seal_of(config, [spec.id for spec in agents], sums)
    return entry.name, settings, to_toml(config), seal


def _names(question: Question, game: str, settings: dict[str, str]) -> Iterator[str]:
    """Yield folder names for a group: its settings, and a number if that is not enough."""
    keys = [key for axis in question.axes for key in axis.keys]
    parts = [f"{_short(key, keys)}={value}" for key, value in settings.items()]
    if len(question.games) > 1:
        parts.insert(0, game.rpartition("/")[2])
    name = ",".join(_clean(part) for part in parts)[:LONGEST_NAME]
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def _short(key: str, keys: Sequence[str]) -> str:
    """Return the last part of a setting's name, if no other setting ends like it."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _clean(text: str) -> str:
    """Return a text without what a folder's name should not contain."""
    return re.sub(r"[^\w.=+:-]+", "_", text.replace('"', "")).strip("._") or "_"

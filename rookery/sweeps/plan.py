"""The plan of a sweep: all its cells, in sweep.json.

A cell is an ordinary run, in a folder of its own. It is trained by whoever takes it first,
and its folder alone says how far it is. The plan holds what is needed to start it: the
configuration and the seal of its group, which is all seeds of one combination; and the
changes that the user has asked for since, which cells that have begun are given when they
are trained next. The file has a checksum, and names code only in order to refuse it unless
the user names it again.

Several seeds of one run (`rookery train GAME seeds=0..9`) are a sweep with a single group.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.config.parse import merge
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.evaluation.probes import probe_of
from rookery.games.registry import Entry, entries_by_name
from rookery.local_code import is_local
from rookery.printing import command
from rookery.protocol.user_files import algorithms_of
from rookery.runs.agent_files import origin_checksum, origins_of
from rookery.runs.configure import configure
from rookery.runs.folder import SWEEP, is_sweep, new_run
from rookery.runs.run import is_named, trusted_entry, undefined, untrusted_algorithms
from rookery.runs.seal import seal_of
from rookery.storage.access import is_file
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum, write_with_checksum
from rookery.sweeps.axes import Question

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
    """That of its cells, with any seed; empty if it is not known."""

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

    def with_all(self, other: Named) -> Named:
        """Return what this or the other one names."""
        return Named(
            [*self.games, *other.games],
            [*self.algorithms, *other.algorithms],
            [*self.probes, *other.probes],
        )

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
        self._entries = {
            group.folder: self._trusted(group, asked or {}) for group in self.groups
        }

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
            _refuse_unnamed_game(group.game, self.named, self.folder / SWEEP)
        entry = trusted_entry(self.folder / SWEEP, group.tree, named)
        config = resolve(merge(group.tree, asked), entry.settings)
        with_resume = ", or with `rookery resume`: probe.code=" if self.is_seeds else ""
        refuse_unnamed(config, self.named, self.folder / SWEEP, with_resume)
        return entry

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells; the first seed of every group before the second of any."""
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
    if not _is_plan(content):
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


def new_plan(
    question: Question, folder: Path | None, named: Named, file: Path | None = None
) -> Plan:
    """Check all cells of a sweep, write its plan into a new folder, and return it.

    Args:
        question: what the sweep asks for.
        folder: of the sweep; by default the next free one in runs/. If it holds the same
            plan already, that one is returned, to be continued.
        named: code that the user has named.
        file: as for `groups_of`.
    """
    groups = groups_of(question, named, file)
    if folder is not None and is_file(folder / SWEEP):
        plan = Plan(folder, named)
        planned = content_of(question.seeds, groups)
        if _comparable(read_plan(folder)) != _comparable(planned):
            raise ConfigError(
                f"{folder} holds another sweep: choose another folder with --run, or go "
                f"on with that one: {command('sweep', 'go', folder)}"
            )
        return plan
    is_one_game = len(question.games) == 1
    path = new_run(folder, f"{question.games[0]}-sweep" if is_one_game else "sweep")
    write_plan(path, question.seeds, groups)
    return Plan(path, named)


def plan_seeds(
    entry: Entry, config: Config, seeds: Sequence[int], folder: Path | None
) -> Plan:
    """Write the plan of several seeds of one run into a new folder, and return it.

    Args:
        entry: the game, which the user has named.
        config: of all seeds; its code is what the user has named.
        seeds: of the runs.
        folder: by default the next free one in runs/.
    """
    group = _group("", entry, config, {})
    path = new_run(folder, entry.name)
    write_plan(path, seeds, [group])
    games = [] if entry.name in entries_by_name() else [entry.name]
    algorithms = untrusted_algorithms(algorithms_of(config).values(), ())
    probes = [config.probe.code] if config.probe.code else []
    return Plan(path, Named(games, algorithms, probes))


def side_by_side(config: Config) -> Config:
    """Return a configuration for runs that fill the cores with one process each."""
    workers = 0 if config.workers == "auto" else config.workers
    return config.model_copy(update={"workers": workers})


def _comparable(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plan asks for, without where it was written."""
    groups = [
        {**group, "seal": {k: v for k, v in group["seal"].items() if k != "begun"}}
        for group in content["groups"]
    ]
    return json.loads(json.dumps({"seeds": content["seeds"], "groups": groups}))


def named_in(question: Question) -> Named:
    """Return the code that a question names, which the user has typed."""
    games = [game for game in question.games if game not in entries_by_name()]
    named: dict[str, list[str]] = {"algorithm": [], "module": [], "code": []}
    steps = [step for axis in question.axes for step in axis.steps()]
    pairs = [tuple(word.split("=", 1)) for word in question.fixed]
    for key, value in [*pairs, *(item for step in steps for item in step.items())]:
        last = key.rpartition(".")[2].strip("\"'")
        if last in named:
            named[last].append(value.strip("\"'"))
    custom = untrusted_algorithms([*named["algorithm"], *named["module"]], ())
    return Named(games, custom, named["code"])


def groups_of(
    question: Question, named: Named | None = None, file: Path | None = None
) -> list[Group]:
    """Return all groups that a sweep asks for, with every setting checked.

    Args:
        question: what the sweep asks for.
        named: code that the user has named.
        file: the file that the question is from, if it is; code that it names must be in
            `named`.

    Raises:
        ConfigError: naming the combination that is impossible.
    """
    groups: dict[str, Group] = {}
    by_config: dict[str, str] = {}
    for game, settings in question.combinations():
        overrides = [f"{key}={value}" for key, value in settings.items()]
        combination = " ".join([game, *overrides])
        if file is not None:
            _refuse_unnamed_game(game, named or Named(), file)
        try:
            entry, config = configure(game, [*question.fixed, *overrides])
            if file is not None:
                refuse_unnamed(config, named or Named(), file)
            names = _names(question, game, settings)
            folder = next(name for name in names if name not in groups)
            group = _group(folder, entry, side_by_side(config), settings)
        except ConfigError as error:
            if not overrides:
                raise
            raise ConfigError(*(f"{combination}: {x}" for x in error.problems)) from None
        groups[folder] = group
        if (same := by_config.setdefault(group.config, combination)) != combination:
            raise ConfigError(f"{combination} is the same as {same}: name each once.")
    return list(groups.values())


def _refuse_unnamed_game(game: str, named: Named, where: Path) -> None:
    if game not in entries_by_name() and not is_named(game, named.games):
        raise ConfigError(
            f"{where} names {game!r}, which is not a built-in game. If you trust this "
            f"code, add: --game {game}"
        )


def refuse_unnamed(
    config: Config, named: Named, where: Path, with_resume: str = ""
) -> None:
    """Refuse algorithms, networks and probes that a file names and the user does not."""
    used = algorithms_of(config).values()
    if missing := untrusted_algorithms(used, named.algorithms):
        if is_local(missing[0]):
            raise undefined(where.parent, missing[0], "algorithm")
        raise ConfigError(
            f"{where} names {missing[0]!r}, which is not built in. If you trust this code, "
            f"add: --algorithm {missing[0]}"
        )
    probe = config.probe.code
    if probe and not is_named(probe, named.probes):
        raise ConfigError(
            f"{where} names the probe {probe!r}, which is code. If you trust it, add: "
            f"--probe {probe}{with_resume and with_resume + probe}"
        )


def _group(folder: str, entry: Entry, config: Config, settings: dict[str, str]) -> Group:
    """Return a group, after checking everything that its cells need."""
    probe_of(config)
    agents = agents_of(entry, config)
    config.check_agents([spec.id for spec in agents])
    origins = origins_of(config, agents)
    sums = {agent: origin_checksum(origin) for agent, origin in origins.items()}
    seal = seal_of(config, [spec.id for spec in agents], sums)
    return Group(folder, entry.name, settings, to_toml(config), seal)


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

"""From what a sweep asks for to its plan: every combination checked and named.

Nothing is written before all cells are known to be possible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.algorithms.agents import build_agents, check_agents
from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.evaluation.probes import probe_of
from rookery.games.registry import Entry, entries_by_name
from rookery.printing import command
from rookery.protocol.user_files import algorithms_of
from rookery.runs.agent_files import origin_checksum, origins_of
from rookery.runs.configure import configure
from rookery.runs.folder import SWEEP, new_run
from rookery.runs.run import untrusted_algorithms
from rookery.runs.seal import seal_of
from rookery.storage.access import is_file
from rookery.sweeps.axes import Question
from rookery.sweeps.plan import Group, Plan, content_of, read_plan, write_plan
from rookery.sweeps.trust import Named, refuse_unnamed, refuse_unnamed_game

LONGEST_NAME = 100


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
    question: Question,
    named: Named | None = None,
    file: Path | None = None,
    must_learn: bool = True,
) -> list[Group]:
    """Return all groups that a sweep asks for, with every setting checked.

    Args:
        question: what the sweep asks for.
        named: code that the user has named.
        file: the file that the question is from, if it is; code that it names must be in
            `named`.
        must_learn: whether combinations are refused with which an agent could never learn.

    Raises:
        ConfigError: naming the combination that is impossible.
    """
    groups: dict[str, Group] = {}
    by_config: dict[str, str] = {}
    for game, settings in question.combinations():
        overrides = [f"{key}={value}" for key, value in settings.items()]
        combination = " ".join([game, *overrides])
        if file is not None:
            refuse_unnamed_game(game, named or Named(), file)
        try:
            entry, config = configure(game, [*question.fixed, *overrides])
            if file is not None:
                refuse_unnamed(config, named or Named(), file)
            names = _names(question, game, settings)
            folder = next(name for name in names if name not in groups)
            group = _group(folder, entry, side_by_side(config), settings, must_learn)
        except ConfigError as error:
            if not overrides:
                raise
            raise ConfigError(*(f"{combination}: {x}" for x in error.problems)) from None
        groups[folder] = group
        if (same := by_config.setdefault(group.config, combination)) != combination:
            raise ConfigError(f"{combination} is the same as {same}: name each once.")
    return list(groups.values())


def side_by_side(config: Config) -> Config:
    """Return a configuration for runs that fill the cores with one process each."""
    workers = 0 if config.workers == "auto" else config.workers
    return config.model_copy(update={"workers": workers})


def _group(
    folder: str,
    entry: Entry,
    config: Config,
    settings: dict[str, str],
    must_learn: bool = True,
) -> Group:
    """Return a group, after checking everything that its cells need."""
    probe_of(config)
    agents = agents_of(entry, config)
    config.check_agents([spec.id for spec in agents])
    built = build_agents(config, agents)
    if must_learn:
        check_agents(built, config.worlds)
    origins = origins_of(config, agents)
    sums = {agent: origin_checksum(origin) for agent, origin in origins.items()}
    seal = seal_of(config, [spec.id for spec in agents], sums)
    return Group(folder, entry.name, settings, to_toml(config), seal)


def _comparable(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plan asks for, without where it was written."""
    groups = [
        {**group, "seal": {k: v for k, v in group["seal"].items() if k != "begun"}}
        for group in content["groups"]
    ]
    return json.loads(json.dumps({"seeds": content["seeds"], "groups": groups}))


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

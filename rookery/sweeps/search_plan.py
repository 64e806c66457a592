"""Planning a search, and its trials one by one.

A trial is a group like that of any sweep: the same settings in the same words give the same
configuration, and so the same bits. Only when it is planned is different: when something
has asked for it. The users' files must then still be those of when the search was planned.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rookery.algorithms.agents import build_agents, check_agents
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.errors import ConfigError, RookeryError, nearest
from rookery.evaluation.play import agents_of
from rookery.games.registry import Entry, find
from rookery.printing import command
from rookery.runs.folder import SWEEP, new_run
from rookery.runs.seal import all_settings
from rookery.stop import StopFlag
from rookery.storage.access import is_file
from rookery.storage.summed_json import write_with_checksum
from rookery.sweeps.axes import MOST_CELLS, Axis, Question
from rookery.sweeps.claimed import claimed
from rookery.sweeps.plan import Group, Plan, content_of, read_plan
from rookery.sweeps.planning import groups_of, named_in
from rookery.sweeps.search_record import (
    OPTUNA,
    RETURN,
    TRAINED,
    TURNS,
    Search,
    check_engine,
    search_in,
    trial_name,
)
from rookery.sweeps.search_space import Dimension, size_of
from rookery.sweeps.trust import Named


@dataclass(frozen=True)
class SearchQuestion:
    """What a search asks for."""

    question: Question
    """The game, the seeds, and the settings that all trials have in common; no axes."""
    space: tuple[Dimension, ...]
    """What is varied."""
    trials: int | None
    """How many combinations to try."""
    engine: str = OPTUNA
    seed: int = 0
    """Decides what is suggested."""
    metric: str | None = None
    """What is maximised; None for `trained`, or for `return` without evaluations."""
    pruning: bool = True
    """Whether trials that are behind the others are ended early."""

    def __post_init__(self) -> None:
        check_engine(self.engine)
        if len(self.question.games) != 1:
            raise ConfigError(
                f"{','.join(self.question.games)} are several games, whose scores cannot "
                "be compared: search the settings of one at a time."
            )
        if not self.space:
            raise ConfigError(
                "there is nothing to search: give a setting several values or a range, "
                "such as learning_rate=1e-5..1e-2..log."
            )
        keys = [key for dimension in self.space for key in dimension.keys]
        # Which raises if a setting is given twice, or cannot be varied.
        _ = replace(self.question, axes=tuple(Axis((key,), (("",),)) for key in keys))
        if self.trials is None or self.trials < 1:
            raise ConfigError(
                "a search needs the number of combinations to try: add --trials 40 (in "
                "Python trials=40)."
            )
        if self.seed < 0:
            raise ConfigError(f"the seed of a search is {self.seed}: give at least 0.")
        cells = self.trials * len(self.question.seeds)
        if cells > MOST_CELLS:
            raise ConfigError(
                f"the search has {cells} cells, expected at most {MOST_CELLS}."
            )
        size = size_of(self.space)
        if size is not None and self.trials > size:
            raise ConfigError(
                f"there are only {size} combinations, and {self.trials} trials: give at "
                f"most {size}, or sweep all of them, without --search."
            )

    @property
    def game(self) -> str:
        """The game."""
        return self.question.games[0]

    def sweep_of(self, axis: Axis, place: int = 0) -> Question:
        """Return a sweep of one axis.

        Args:
            axis: of one of the dimensions.
            place: which of their examples all other dimensions have.
        """
        others = [
            f"{key}={value}"
            for dimension in self.space
            if dimension.keys != axis.keys
            for key, value in zip(dimension.keys, dimension.examples()[place], strict=True)
        ]
        return replace(self.question, axes=(axis,), fixed=(*self.question.fixed, *others))


def code_named_in(search: SearchQuestion) -> Named:
    """Return the code that a search names, which the user has typed."""
    named = Named()
    for dimension in search.space:
        axis = Axis(dimension.keys, tuple(dimension.examples()))
        named = named.with_all(named_in(search.sweep_of(axis)))
    return Named(*(list(dict.fromkeys(names)) for names in vars(named).values()))


def plan_search(
    asked: SearchQuestion, folder: Path | None, named: Named, file: Path | None = None
) -> Plan:
    """Check a search, write its plan into a new folder, and return it.

    Args:
        asked: what it asks for.
        folder: of the sweep; by default the next free one in runs/. If it holds the same
            search already, that one is returned, to be continued, maybe with more trials.
        named: code that the user has named.
        file: the file that it is from, if it is; code that it names must be in `named`.
    """
    search = _checked(asked, named, file)
    if folder is not None and is_file(folder / SWEEP):
        return _continued(folder, named, search, asked.question.seeds)
    content = content_of(asked.question.seeds, [])
    path = new_run(folder, f"{asked.game}-search")
    write_with_checksum(path / SWEEP, {**content, "search": search.to_json()})
    return Plan(path, named)


def base_of(asked: SearchQuestion, named: Named, file: Path | None = None) -> Group:
    """Return a group like those of the trials, after checking all of the search."""
    return Group(**_checked(asked, named, file).base)


def add_trial(plan: Plan, group: Group, search: Search) -> None:
    """Write a plan with another trial, by a process that has claimed the sweep."""
    _write(plan, [*plan.groups, group], search)


def close_search(plan: Plan, search: Search) -> None:
    """Write a plan without further trials, by a process that has claimed the sweep."""
    _write(plan, plan.groups, replace(search, trials=len(plan.groups)))


def _write(plan: Plan, groups: Sequence[Group], search: Search) -> None:
    content = content_of(plan.seeds, groups, plan.changes)
    write_with_checksum(plan.folder / SWEEP, {**content, "search": search.to_json()})


def trial_group(plan: Plan, settings: Mapping[str, str]) -> Group:
    """Return the group of the next trial.

    Args:
        plan: of the search, as it is now.
        settings: of the trial, as on the command line.

    Raises:
        RookeryError: if this combination is impossible.
    """
    search = plan.search
    assert search is not None
    base, entry = Group(**search.base), plan.cells[0].entry
    question = Question(
        games=(entry.name,),
        axes=tuple(Axis((key,), ((value,),)) for key, value in settings.items()),
        seeds=tuple(plan.seeds),
        fixed=search.fixed,
    )
    (group,) = groups_of(question, plan.named, plan.folder / SWEEP)
    config = resolve(group.tree, entry.settings)
    check_agents(build_agents(config, agents_of(entry, config)), config.worlds)
    seal = {**group.seal, "begun": base.seal["begun"]}
    seal["files"] = _as_planned(seal["files"], search.files)
    if not any(_says_origin(key) for key in settings):
        seal["from"] = _as_planned(seal["from"], base.seal["from"])
    group = replace(group, folder=trial_name(len(plan.groups)), seal=seal)
    return _called(group, base, entry)


def _as_planned(sums: Mapping[str, str], planned: Mapping[str, str]) -> dict[str, str]:
    """Return checksums as they were when the search was planned, if they are known."""
    return {name: planned.get(name, checksum) for name, checksum in sums.items()}


def _says_origin(key: str) -> bool:
    return key.rpartition(".")[2].strip("\"'") == "from"


def _called(group: Group, base: Group, entry: Entry) -> Group:
    """Return a group whose game is called as in the plan, by whatever path it was found."""
    name = base.tree["game"]["name"]
    if group.tree["game"]["name"] == name:
        return group
    tree = tomllib.loads(group.config)
    config = to_toml(
        resolve({**tree, "game": {**tree["game"], "name": name}}, entry.settings)
    )
    settings = {**group.seal["settings"], "game.name": name}
    seal = {**group.seal, "settings": settings}
    return replace(group, game=base.game, config=config, seal=seal)


def _checked(asked: SearchQuestion, named: Named, file: Path | None) -> Search:
    """Return the search, after checking every choice, and both ends of every range."""
    files: dict[str, str] = {}
    samples = []
    for dimension in asked.space:
        groups = [_sample(asked, dimension, x, named, file) for x in dimension.examples()]
        _check_kind(dimension, groups[0])
        samples += groups
    for group in samples:
        files |= group.seal["files"]
    base = replace(samples[0], folder="", settings={})
    entry = find(asked.game)
    config = resolve(base.tree, entry.settings)
    is_evaluated = 0 < config.evaluate.every_rounds <= config.rounds
    metric = asked.metric or (TRAINED if is_evaluated else RETURN)
    counts = _counts_of(entry, config)
    _check_metric(metric, counts, is_evaluated)
    measured = is_evaluated and metric in (TRAINED, *counts)
    return Search(
        engine=asked.engine,
        trials=asked.trials or 0,
        seed=asked.seed,
        metric=metric,
        is_evaluated=measured,
        prunes=asked.pruning and measured,
        space=asked.space,
        fixed=asked.question.fixed,
        files=files,
        base=asdict(base),
    )


def _sample(
    asked: SearchQuestion,
    dimension: Dimension,
    values: tuple[str, ...],
    named: Named,
    file: Path | None,
) -> Group:
    """Return a group with certain values of one dimension.

    All others have their first values, or their last ones, if only that is possible: not
    all combinations of a search need to be.
    """
    problems: list[RookeryError] = []
    for place in (0, -1):
        question = asked.sweep_of(Axis(dimension.keys, (values,)), place)
        try:
            (group,) = groups_of(question, named, file, must_learn=False)
        except RookeryError as error:
            problems.append(error)
        else:
            return group
    raise problems[0]


def _check_kind(dimension: Dimension, group: Group) -> None:
    """Refuse a range of whole numbers for a setting that can be any number."""
    numbers = dimension.range
    if numbers is None or not numbers.is_whole:
        return
    config = resolve(group.tree, find(group.game).settings)
    value = all_settings(config, ()).get(dimension.keys[0])
    if isinstance(value, float):
        raise ConfigError(
            f"{dimension.name}={numbers.text} are whole numbers only, and it can be any "
            f"number: write {float(numbers.low)}..{float(numbers.high)}, or the values, "
            "with commas."
        )


def _counts_of(entry: Entry, config: Config) -> tuple[str, ...]:
    game = entry.build_guarded(config.game.settings, 1, config.seed)
    game.close()
    return game.counts


def _check_metric(metric: str, counts: tuple[str, ...], is_evaluated: bool) -> None:
    if metric == TRAINED and not is_evaluated:
        raise ConfigError(
            f"{TRAINED} is measured in evaluations: add evaluate.every_rounds=10, or "
            "another number of rounds."
        )
    known = [TRAINED, RETURN, TURNS, *counts]
    if metric not in known:
        raise ConfigError(f"the game has no score {metric!r}: {nearest(metric, known)}")


def _continued(folder: Path, named: Named, search: Search, seeds: Sequence[int]) -> Plan:
    """Return the plan of the same search in a folder, which can have more trials now."""
    content = read_plan(folder)
    before = search_in(content)
    same = before and _comparable(before) == _comparable(search)
    if before is None or not same or list(seeds) != content["seeds"]:
        raise ConfigError(
            f"{folder} holds another sweep: choose another folder with --run, or go on "
            f"with that one: {command('sweep', 'go', folder)}"
        )
    if search.trials < before.trials:
        raise ConfigError(
            f"the search in {folder} has {before.trials} trials already: give at least "
            f"{before.trials}."
        )
    if search.trials > before.trials:
        with claimed(folder, StopFlag()):
            plan = Plan(folder, named)
            _write(plan, plan.groups, replace(before, trials=search.trials))
    return Plan(folder, named)


def _comparable(search: Search) -> dict[str, Any]:
    """Return what a search asks for, without where it was planned, and how many trials."""
    content = search.to_json()
    seal = {key: x for key, x in search.base["seal"].items() if key != "begun"}
    return {**content, "trials": 0, "base": {**search.base, "seal": seal}}

"""What a search asks for, from the words of a command line or from a TOML file.

A file is like that of any sweep, with a table `search`; an axis of one setting can also
have a range, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.sweeps.axes import Axis, PlanFile, Question, axis_of, flat, parse_seeds
from rookery.sweeps.search_plan import SearchQuestion
from rookery.sweeps.search_record import OPTUNA
from rookery.sweeps.search_space import Dimension, choices_of, parse_dimension, range_of

OPTIONS: Mapping[str, type] = {
    "engine": str,
    "trials": int,
    "seed": int,
    "metric": str,
    "pruning": bool,
}
"""What the table of a search can have."""


def parse_search(
    games: str, words: Sequence[str], seeds: Sequence[int], options: Mapping[str, Any]
) -> SearchQuestion:
    """Return the search that the words of a command line ask for.

    Args:
        games: one.
        words: KEY=VALUE, KEY=VALUE,VALUE or KEY=RANGE each, without seeds.
        seeds: of every trial.
        options: of `SearchQuestion`.

    Raises:
        ConfigError: naming a word that cannot be read.
    """
    named = tuple(filter(None, games.split(",")))
    varied = [parse_dimension(word) for word in words]
    return _question(named, varied, seeds, (), options)


def search_of(plan: PlanFile) -> SearchQuestion:
    """Return the search that a file asks for.

    Raises:
        ConfigError: naming what cannot be read.
    """
    options = _options(plan.search, plan.file)
    varied = [_varied(table, plan.file) for table in plan.axes]
    fixed = [f"{key}={value}" for key, value in flat(plan.settings)]
    return _question(plan.games, varied, parse_seeds(plan.seeds), fixed, options)


def _question(
    games: Sequence[str],
    varied: Iterable[Dimension | Axis],
    seeds: Sequence[int],
    fixed: Sequence[str],
    options: Mapping[str, Any],
) -> SearchQuestion:
    space, single = list[Dimension](), list[str]()
    for dimension in varied:
        if isinstance(dimension, Dimension):
            space.append(dimension)
        else:
            pairs = dimension.steps()[0].items()
            single += [f"{key}={value}" for key, value in pairs]
    question = Question(tuple(games), (), tuple(seeds), (*fixed, *single))
    return SearchQuestion(question, tuple(space), **options)


def _options(table: Any, file: Path) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(f"search in {file} is {shown(table)}, expected a table.")
    for key, value in table.items():
        if key not in OPTIONS:
            raise ConfigError(
                f"search in {file} has {shown(key)}, expected only {', '.join(OPTIONS)}."
            )
        if type(value) is not OPTIONS[key]:
            raise ConfigError(f"search.{key} in {file} is {shown(value)}.")
    return {"engine": OPTUNA, "trials": None, **table}


def _varied(table: Mapping[str, Any], file: Path) -> Dimension | Axis:
    """Return what one axis of a file varies: a range, if it is a single text."""
    value: Any = table
    while isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if isinstance(value, str):
        ((key, _),) = flat(table)
        return range_of(key, value)
    return choices_of(axis_of(table, file))

"""What the plan of a sweep says if its settings are searched: in sweep.json, as `search`.

The groups in the plan are the trials that have been asked for so far, in order. The search
says how the next ones are found, and how many there may be.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from rookery.errors import ConfigError
from rookery.sweeps.axes import MOST_CELLS, Override
from rookery.sweeps.search_space import Dimension

OPTUNA = "optuna"
ENGINES = (OPTUNA,)
"""What can suggest settings."""
TRAINED, RETURN, TURNS = "trained", "return", "turns"
"""Scores that every game has; `trained` is the return in evaluations."""


@dataclass(frozen=True)
class Search:
    """A search for the settings with the highest score."""

    engine: str
    """One of ENGINES."""
    trials: int
    """How many combinations are tried."""
    seed: int
    """Decides what is suggested."""
    metric: str
    """What is maximised, after its mean over seeds was taken."""
    is_evaluated: bool
    """Whether it is measured in the evaluations of a run, rather than while it trains."""
    prunes: bool
    """Whether trials that are behind the others are ended early."""
    space: tuple[Dimension, ...]
    """What is varied."""
    fixed: tuple[Override, ...]
    """The settings that all trials have in common."""
    files: Mapping[str, str]
    """The checksums of the users' files when the search was planned."""
    base: Mapping[str, Any]
    """A group like those of the trials, which stands for those that are still to come."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Search:
        """Return what `to_json` has described."""
        search = cls(
            engine=str(content["engine"]),
            trials=int(content["trials"]),
            seed=int(content["seed"]),
            metric=str(content["metric"]),
            is_evaluated=bool(content["is_evaluated"]),
            prunes=bool(content["prunes"]),
            space=tuple(map(Dimension.from_json, content["space"])),
            fixed=tuple(map(str, content["fixed"])),
            files=dict(content["files"]),
            base=dict(content["base"]),
        )
        if not 0 <= search.trials <= MOST_CELLS or search.seed < 0 or not search.space:
            raise ValueError("a number is impossible")
        return search

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["space"] = [dimension.to_json() for dimension in self.space]
        return {**content, "fixed": list(self.fixed)}

    @cached_property
    def _config(self) -> dict[str, Any]:
        return tomllib.loads(self.base["config"])

    @property
    def rounds(self) -> int:
        """How many rounds every trial has."""
        return int(self._config["rounds"])

    @property
    def every_rounds(self) -> int:
        """How many rounds there are between evaluations; 0 if there are none."""
        return int(self._config["evaluate"]["every_rounds"])

    def samples(self) -> list[dict[str, str]]:
        """Return settings that contain every choice once, as far as they can name code."""
        return [
            dict(zip(dimension.keys, values, strict=True))
            for dimension in self.space
            for values in dimension.choices
        ]


def search_in(content: Mapping[str, Any]) -> Search | None:
    """Return the search in the plan of a sweep; None if it searches for nothing.

    Raises:
        ValueError: if it is not what was written.
    """
    if not content.get("search"):
        return None
    try:
        return Search.from_json(content["search"])
    except (ArithmeticError, AttributeError, ConfigError, LookupError, TypeError) as error:
        raise ValueError("the plan has no search that can be read") from error


def recorded_search(content: Mapping[str, Any]) -> Search:
    """Return the search in the plan of a sweep that is known to have one."""
    search = search_in(content)
    assert search is not None
    return search


def trial_name(number: int) -> str:
    """Return the folder of a trial, within that of the sweep."""
    return f"trial-{number}"


def check_engine(engine: str) -> None:
    """Check the name of what suggests settings.

    Raises:
        ConfigError: if there is no such thing.
    """
    if engine not in ENGINES:
        raise ConfigError(f"search {engine!r} is not known: choose {' or '.join(ENGINES)}.")


def fits(groups: Sequence[Mapping[str, Any]], search: Search) -> bool:
    """Whether groups are those of the first trials of a search."""
    names = [trial_name(number) for number in range(len(groups))]
    return len(groups) <= search.trials and [x["folder"] for x in groups] == names

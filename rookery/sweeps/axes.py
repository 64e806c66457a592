"""What a sweep varies: games, settings and seeds, from the command line or a TOML file.

learning_rate=1e-4,3e-4                 two values
game.agents=2..5                        2, 3, 4 and 5; 0.1..0.5..0.2 has a step
learning_rate:batch_size=1e-4:32,3e-4:64   two settings that vary together
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from rookery.config.messages import shown, toml_key, toml_value
from rookery.config.parse import parse_overrides
from rookery.config.toml import read_toml
from rookery.errors import ConfigError

MOST_CELLS = 100_000
MOST_VALUES = 10_000
MAX_SEEDS = 10_000
NUMBER = r"[+-]?(?:\d{1,15}\.?\d{0,15}|\.\d{1,15})(?:[eE][+-]?\d{1,2})?"
_RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(?:\.\.({NUMBER}))?")
_INSTEAD = {
    "seed": "use seeds=3 or seeds=0..9",
    "seeds": "give it once, as seeds=0..9",
    "game.name": "name the games, with commas",
}
"""What a sweep does not take as a setting, and what to do."""
_KEY = re.compile(r"""((?:[^="']|"(?:[^"\\]|\\.)*"|'[^']*')+)=(.*)""", re.DOTALL)

Override = str
"""A setting as on the command line: KEY=VALUE."""


@dataclass(frozen=True)
class Axis:
    """One or several settings that vary together."""

    keys: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    """For each step of the axis, a value of every key, as on the command line."""

    def __post_init__(self) -> None:
        if len(set(self.values)) < len(self.values):
            raise ConfigError(
                f"{':'.join(self.keys)} has the same value twice: name each value once."
            )

    def steps(self) -> list[dict[str, str]]:
        """Return the settings of every step, by key."""
        return [dict(zip(self.keys, values, strict=True)) for values in self.values]


@dataclass(frozen=True)
class Question:
    """What a sweep asks for."""

    games: tuple[str, ...]
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    fixed: tuple[Override, ...] = ()
    """Settings that all cells have in common."""

    def __post_init__(self) -> None:
        if not self.games:
            raise ConfigError("no game given: name one or several, such as tag,gathering.")
        if len(set(self.games)) < len(self.games):
            raise ConfigError(
                f"{','.join(self.games)} has the same game twice: name it once."
            )
        keys = [key for axis in self.axes for key in axis.keys]
        for key in keys:
            if keys.count(key) > 1 or any(x.startswith(f"{key}=") for x in self.fixed):
                raise ConfigError(f"{key} is given twice: give all its values at once.")
        fixed = [word.partition("=")[0] for word in self.fixed]
        for key, remedy in _INSTEAD.items():
            if key in [*keys, *fixed]:
                raise ConfigError(f"{key} cannot be set in a sweep: {remedy}.")
        cells = len(self.games) * len(self.seeds)
        for axis in self.axes:
            cells *= len(axis.values)
        if cells > MOST_CELLS:
            raise ConfigError(
                f"the sweep has {cells} cells, expected at most {MOST_CELLS}."
            )

    def combinations(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield every game with every combination of settings."""
        for game in self.games:
            for steps in itertools.product(*(axis.steps() for axis in self.axes)):
                yield game, {key: value for step in steps for key, value in step.items()}


def parse_words(games: str, words: Sequence[str], seeds: Sequence[int]) -> Question:
    """Return what the words of a command line ask for.

    Args:
        games: one, or several with commas.
        words: KEY=VALUE, KEY=VALUE,VALUE or KEY:KEY=VALUE:VALUE each, without seeds.
        seeds: of every combination.

    Raises:
        ConfigError: naming a word that cannot be read.
    """
    fixed, axes = [], []
    for word in words:
        axis = parse_axis(word)
        if len(axis.values) == 1:
            steps = axis.steps()[0].items()
            fixed += [f"{key}={value}" for key, value in steps]
        else:
            axes.append(axis)
    named = tuple(filter(None, games.split(",")))
    return Question(named, tuple(axes), tuple(seeds), tuple(fixed))


def parse_axis(word: str) -> Axis:
    """Return the axis that one word of a command line describes."""
    match = _KEY.fullmatch(word)
    if match is None:
        parse_overrides([word])  # raises an error that says what is wrong
        raise ConfigError(f"{shown(word)} cannot be read: write KEY=VALUE,VALUE.")
    keys = tuple(_split(match[1].strip(), ":"))
    values: list[tuple[str, ...]] = []
    for text in _split(match[2].strip(), ","):
        parts = [text] if len(keys) == 1 else _split(text, ":")
        if len(parts) != len(keys):
            raise ConfigError(
                f"{shown(word)} ties {len(keys)} settings, but {shown(text)} has "
                f"{len(parts)} values: write {':'.join(keys)}={':'.join('x' for _ in keys)}"
            )
        values += [tuple(parts)] if len(keys) > 1 else [(x,) for x in _expanded(text)]
    return Axis(keys, tuple(values))


def _split(text: str, separator: str) -> list[str]:
    """Split a text, but not inside of quotes and brackets."""
    parts, depth, current = [], 0, ""
    for token in re.findall(r"""[^"']|"(?:[^"\\]|\\.)*"|'[^']*'|["']""", text):
        depth += (token in "[{(") - (token in ")}]")
        if token == separator and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += token
    return [*parts, current.strip()]


def _expanded(text: str) -> list[str]:
    """Return the values of a range such as 2..5 or 0.1..0.5..0.2, or the text itself."""
    match = _RANGE.fullmatch(text)
    if match is None:
        if text.endswith("..log"):
            raise ConfigError(
                f"{shown(text)} is for a search: add --search optuna, or name the values."
            )
        return [text]
    first, last = Decimal(match[1]), Decimal(match[2])
    step = Decimal(match[3] or 1)
    if match[3] is None and {first, last} != {x.to_integral_value() for x in (first, last)}:
        raise ConfigError(
            f"{shown(text)} is not a range of whole numbers: write FIRST..LAST..STEP, as "
            "in 0.1..0.5..0.1, or search it: --search optuna."
        )
    if step > 0 and 0 <= last - first < MOST_VALUES * step:
        return [f"{first + i * step}" for i in range(int((last - first) / step) + 1)]
    raise ConfigError(
        f"{shown(text)} is not a range: write FIRST..LAST or FIRST..LAST..STEP, from low "
        f"to high, with at most {MOST_VALUES} values."
    )


@dataclass(frozen=True)
class PlanFile:
    """A TOML file that describes a sweep, as it was read."""

    file: Path
    games: tuple[str, ...]
    seeds: Any
    settings: dict[str, Any]
    axes: list[Any]
    search: Any
    """The options of a search; None if all combinations are trained."""


def read_question(file: Path) -> Question:
    """Return what a TOML file asks for, whose settings are not searched."""
    plan = read_plan_file(file)
    axes = tuple(axis_of(table, file) for table in plan.axes)
    fixed = tuple(f"{key}={value}" for key, value in flat(plan.settings))
    return Question(plan.games, axes, tuple(parse_seeds(plan.seeds)), fixed)


def read_plan_file(file: Path) -> PlanFile:
    """Return what is in a TOML file that describes a sweep.

    It has `games`, `seeds`, a table `settings`, a list of tables `axes`: settings of one
    table vary together; and a table `search` if they are searched.
    """
    tree = read_toml(file)
    known = {"games", "seeds", "settings", "axes", "search"}
    if unknown := sorted(set(tree) - known):
        raise ConfigError(
            f"{file} has {shown(unknown[0])}, expected only {', '.join(sorted(known))}."
        )
    games = tree.get("games", [])
    if isinstance(games, str):
        games = [games]
    if not isinstance(games, list) or not all(isinstance(game, str) for game in games):
        raise ConfigError(f"games in {file} is {shown(games)}, expected a list of names.")
    settings = tree.get("settings", {})
    if not isinstance(settings, dict):
        raise ConfigError(f"settings in {file} is {shown(settings)}, expected a table.")
    axes, seeds = _listed(tree, "axes", file), tree.get("seeds", [0])
    return PlanFile(file, tuple(games), seeds, settings, axes, tree.get("search"))


def _listed(tree: Mapping[str, Any], name: str, file: Path) -> list[Any]:
    tables = tree.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(x, dict) for x in tables):
        raise ConfigError(f"'{name}' in {file} is not a list of tables: write [[{name}]].")
    return tables


def axis_of(table: Mapping[str, Any], file: Path) -> Axis:
    """Return the axis that a table of a file describes."""
    columns = dict(_flat_lists(table, file))
    if not columns:
        raise ConfigError(f"an axis in {file} is empty: give a setting with its values.")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ConfigError(
            f"{' and '.join(columns)} in {file} vary together, but have "
            f"{' and '.join(str(len(x)) for x in columns.values())} values: give all the "
            "same number."
        )
    return Axis(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _flat_lists(
    table: Mapping[str, Any], file: Path, path: str = ""
) -> Iterator[tuple[str, list[str]]]:
    for key, value in table.items():
        name = f"{path}{toml_key(key)}"
        if isinstance(value, dict):
            yield from _flat_lists(value, file, f"{name}.")
        elif isinstance(value, list) and value:
            yield name, [toml_value(item) for item in value]
        else:
            raise ConfigError(f"{name} in {file} is {shown(value)}, expected a list.")


def flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the settings of a tree, by dotted name, as on the command line."""
    for key, value in table.items():
        name = f"{path}{toml_key(key)}"
        if isinstance(value, dict):
            yield from flat(value, f"{name}.")
        else:
            yield name, toml_value(value)


def parse_seeds(seeds: object) -> list[int]:
    """Return the seeds in text such as 0..9 or 1,4,7, or in a range or list."""
    if isinstance(seeds, str):
        text = seeds.strip("[] ")
        span = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", text)
        if span:
            first, last = int(span[1]), int(span[2])
            if first <= last < first + MAX_SEEDS:
                return list(range(first, last + 1))
        elif re.fullmatch(r"\d{1,18}(\s*,\s*\d{1,18})*", text):
            return list(dict.fromkeys(int(part) for part in text.split(",")))
    elif isinstance(seeds, Iterable):
        listed = list(dict.fromkeys(seeds))
        if 0 < len(listed) <= MAX_SEEDS and all(_is_seed(seed) for seed in listed):
            return [int(seed) for seed in listed]
    given = f"seeds={seeds}" if isinstance(seeds, str) else f"seeds={seeds!r}"
    raise ConfigError(
        f"{' '.join(given.split())[:60]!r} is not a list of seeds: write seeds=0..9 or "
        "seeds=1,4,7; in Python also seeds=range(10) or seeds=[1, 4, 7]."
    )


def _is_seed(value: Any) -> bool:
    is_whole = hasattr(value, "__index__") and not isinstance(value, bool)
    return is_whole and 0 <= value < 10**18

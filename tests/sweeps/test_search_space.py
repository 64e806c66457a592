"""What a search varies, in words, in a file and in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError
from rookery.sweeps.axes import Axis, parse_words, read_plan_file
from rookery.sweeps.planning import groups_of
from rookery.sweeps.search_plan import SearchQuestion, base_of, code_named_in, plan_search
from rookery.sweeps.search_record import Search
from rookery.sweeps.search_space import (
    Dimension,
    Range,
    combination_at,
    parse_dimension,
    size_of,
)
from rookery.sweeps.search_words import parse_search, search_of
from tests.sweeps.conftest import FIELD, words_of

OPTIONS: Mapping[str, Any] = {"engine": "optuna", "trials": 3}
DIMENSIONS = {
    "choices": ("algorithm=dqn,ppo", ("algorithm",), 2, "dqn"),
    "range in a list": ("worlds=1..3,8", ("worlds",), 4, "1"),
    "tied": ("worlds:batch_size=8:32,16:64", ("worlds", "batch_size"), 2, "8:32"),
    "whole numbers": ("game.agents=2..5", ("game.agents",), 4, 5),
    "whole steps": ("worlds=2..9..2", ("worlds",), 4, 8),
    "whole, logarithmic": ("worlds=1..64..log", ("worlds",), 64, 64),
    "any number": ("discount=0.5..0.99", ("discount",), None, 0.99),
    "steps": ("discount=0.1..0.6..0.2", ("discount",), 3, 0.5),
    "logarithmic": ("learning_rate=1e-5..1e-2..log", ("learning_rate",), None, 0.01),
    "pattern": ('agents."a*".discount=.5..1.0', ('agents."a*".discount',), None, 1.0),
}


@pytest.mark.parametrize(
    ("word", "keys", "size", "first"), DIMENSIONS.values(), ids=DIMENSIONS.keys()
)
def test_a_word_is_a_choice_or_a_range(
    word: str, keys: tuple[str, ...], size: int | None, first: Any
) -> None:
    dimension = parse_dimension(word)

    assert isinstance(dimension, Dimension)
    assert (dimension.keys, dimension.size) == (keys, size)
    settings = dict(zip(keys, dimension.examples()[0], strict=True))
    assert dimension.value_of(settings) == first
    assert dimension.settings_of(first) == settings
    assert Dimension.from_json(json.loads(json.dumps(dimension.to_json()))) == dimension


def test_a_word_with_one_value_varies_nothing() -> None:
    assert parse_dimension("worlds=3") == Axis(("worlds",), (("3",),))


@pytest.mark.parametrize("text", ["0.5..0.99", "1e-5..1e-2..log", "-1.0..1.0", "3..3e6"])
def test_numbers_are_rounded_and_stay_in_their_range(text: str) -> None:
    numbers = Range.parse(text)
    low, high = float(numbers.low), float(numbers.high)

    for number in [low, high, *np.random.default_rng(0).uniform(low, high, 100)]:
        rounded = numbers.number_of(numbers.text_of(float(number)))
        assert low <= rounded <= high
        assert abs(rounded - number) <= 1e-5 * abs(number)
        assert numbers.text_of(rounded) == repr(rounded)
    assert len(numbers.text_of(0.6 * high + 0.4 * low)) < 12


def test_steps_are_written_as_a_person_would() -> None:
    dimension = Dimension(("discount",), range_text="0.1..0.7..0.2")

    values = [dimension.value_at(index) for index in range(4)]
    texts = [dimension.settings_of(value)["discount"] for value in values]

    assert texts == ["0.1", "0.3", "0.5", "0.7"]
    assert dimension.size == 4


def test_a_space_without_ranges_of_any_number_can_be_counted() -> None:
    words = ["algorithm=dqn,ppo", "worlds=2..4", "worlds:frames=1:2,3:4"]
    space = [x for x in map(parse_dimension, words[:2]) if isinstance(x, Dimension)]

    combinations = [combination_at(space, index) for index in range(size_of(space) or 0)]

    assert len({json.dumps(x) for x in combinations}) == len(combinations) == 6
    assert {"algorithm": "ppo", "worlds": "3"} in combinations
    assert size_of([*space, Dimension(("discount",), range_text="0.1..0.9")]) is None


def asked(words: Sequence[str], **options: Any) -> SearchQuestion:
    return parse_search(FIELD, words_of(*words), [0, 1], {**OPTIONS, **options})


RATE = "learning_rate=1e-4..1e-2..log"
REFUSED = {
    "nothing": (
        ["worlds=3"],
        {},
        "there is nothing to search: give a setting several values or a range, such as "
        "learning_rate=1e-5..1e-2..log.",
    ),
    "no trials": (
        [RATE],
        {"trials": None},
        "a search needs the number of combinations to try: add --trials 40 (in Python "
        "trials=40).",
    ),
    "few combinations": (
        ["worlds=2,4"],
        {},
        "there are only 2 combinations, and 3 trials: give at most 2, or sweep all of "
        "them, without --search.",
    ),
    "many cells": (
        [RATE],
        {"trials": 60_000},
        "the search has 120000 cells, expected at most 100000.",
    ),
    "engine": ([RATE], {"engine": "x"}, "search 'x' is not known: choose optuna."),
    "seed": ([RATE], {"seed": -1}, "the seed of a search is -1: give at least 0."),
    "no low end": (
        ["learning_rate=0.0..1e-2..log"],
        {},
        "'0.0..1e-2..log' starts at 0.0, and a logarithmic scale has no 0: start it above "
        "0.",
    ),
    "falling": (
        ["learning_rate=1e-2..1e-3"],
        {},
        "'1e-2..1e-3' is not a range: write it from low to high, with a step above 0.",
    ),
    "step": (
        ["discount=0.1..0.9..-0.1"],
        {},
        "'0.1..0.9..-0.1' is not a range: write it from low to high, with a step above 0.",
    ),
    "rounds": (
        ["rounds=10..20"],
        {},
        "rounds cannot be searched, because trials are compared after the same rounds: "
        "give it one value.",
    ),
    "seeds": (
        [RATE, "seed=1..3"],
        {},
        "seed cannot be set in a sweep: use seeds=3 or seeds=0..9.",
    ),
    "twice": (
        [RATE, "learning_rate=1e-3,1e-4"],
        {},
        "learning_rate is given twice: give all its values at once.",
    ),
    "other numbers": (
        ["discount=0..1", RATE],
        {},
        "discount=0..1 are whole numbers only, and it can be any number: write 0.0..1.0, "
        "or the values, with commas.",
    ),
    "no whole numbers": (
        ["game.agents=1.0..4.0"],
        {},
        f"{FIELD} game.agents=4.0: game.agents must be a whole number, got 4.0",
    ),
    "impossible": (
        ["worlds=0..4"],
        {},
        f"{FIELD} worlds=0: worlds must be at least 1, got 0",
    ),
    "one of several": (
        ["algorithm=dqn,pppo", RATE],
        {},
        f"{FIELD} algorithm=pppo: unknown algorithm 'pppo': did you mean 'ppo'?",
    ),
    "metric": (
        [RATE],
        {"metric": "apples"},
        "the game has no score 'apples': known are return, trained, turns.",
    ),
    "no evaluations": (
        [RATE],
        {"metric": "trained"},
        "trained is measured in evaluations: add evaluate.every_rounds=10, or another "
        "number of rounds.",
    ),
}


@pytest.mark.parametrize(
    ("words", "options", "expected"), REFUSED.values(), ids=REFUSED.keys()
)
def test_what_cannot_be_searched_is_refused_in_one_line_before_anything_is_written(
    words: list[str], options: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    def plan() -> None:
        question = asked(words, **options)
        plan_search(question, tmp_path / "sweep", code_named_in(question))

    with pytest.raises(ConfigError) as refused:
        plan()

    assert str(refused.value).startswith(expected)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_several_games_cannot_be_compared() -> None:
    with pytest.raises(ConfigError, match="tag,gathering are several games, whose scores"):
        parse_search("tag,gathering", [RATE], [0], OPTIONS)


PLAN = """
games = "tag"
seeds = "0..2"

[search]
trials = 8
seed = 4
pruning = false

[settings]
rounds = 10

[[axes]]
learning_rate = "1e-5..1e-2..log"

[[axes]]
worlds = [8, 16]
batch_size = [32, 64]

[[axes]]
agents."a*".discount = "0.5..0.9"

[[axes]]
frames = [1]
"""


def test_a_file_asks_for_the_same_as_words(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)

    question = search_of(read_plan_file(tmp_path / "plan.toml"))

    words = ["learning_rate=1e-5..1e-2..log", "worlds:batch_size=8:32,16:64"]
    words += ['agents."a*".discount=0.5..0.9', "rounds=10", "frames=1"]
    options = {**OPTIONS, "trials": 8, "seed": 4, "pruning": False}
    assert question == parse_search("tag", words, [0, 1, 2], options)


WRONG_FILES = {
    "no table": ("search = 3", "search in plan.toml is 3, expected a table."),
    "unknown": (
        "[search]\ntrial = 3",
        "search in plan.toml has 'trial', expected only engine, trials, seed, metric, "
        "pruning.",
    ),
    "kind": ("[search]\ntrials = true", "search.trials in plan.toml is true."),
    "range": (
        "[search]\ntrials = 3\n[[axes]]\nworlds = 'many'",
        "'many' is not a range: write 1..8 for whole numbers, 0.0..1.0 for any number, or "
        "1e-5..1e-2..log for any number on a logarithmic scale.",
    ),
    "tied range": (
        "[search]\ntrials = 3\n[[axes]]\nworlds = '1..4'\nframes = [1, 2]",
        "worlds in plan.toml is '1..4', expected a list.",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_a_file_that_is_wrong_is_refused_in_one_line(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(f"games = 'tag'\n{text}")

    with pytest.raises(ConfigError) as refused:
        search_of(read_plan_file(Path("plan.toml")))

    assert str(refused.value) == expected


def test_python_varies_the_same_as_words() -> None:
    from rookery.api.sweep import _space

    vary: dict[Any, Any] = {
        "learning_rate": "1e-5..1e-2..log",
        ("worlds", "batch_size"): [(8, 32), (16, 64)],
        "algorithm": ["dqn", "ppo"],
        "frames": [1],
    }

    space, fixed = _space(vary)

    words = ["learning_rate=1e-5..1e-2..log", "worlds:batch_size=8:32,16:64"]
    assert space[:2] == tuple(map(parse_dimension, words))
    assert space[2].choices == (('"dqn"',), ('"ppo"',))
    assert fixed == ["frames=1"]


def test_python_refuses_what_it_cannot_vary_or_search(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"

    with pytest.raises(ConfigError, match=r"^trials=3 needs search='optuna'\.$"):
        rookery.sweep("tag", vary={"worlds": [1, 2]}, trials=3, run=folder)
    with pytest.raises(ConfigError, match="only with search='optuna' can one setting have"):
        rookery.sweep("tag", vary={"discount": "0.1..0.9"}, run=folder)
    with pytest.raises(ConfigError, match="there is nothing to search"):
        rookery.sweep("tag", search="optuna", trials=3, run=folder)
    with pytest.raises(ConfigError, match=r"trials is '3', expected a whole number"):
        rookery.sweep("tag", search="optuna", trials="3", run=folder)  # type: ignore[arg-type]
    assert not folder.exists()


def test_the_base_of_a_search_is_a_group_with_the_first_values_of_all() -> None:
    question = asked(["worlds=1..4", "discount=0.1,0.9", "evaluate.every_rounds=3"])

    base = base_of(question, code_named_in(question))

    words = words_of("worlds=4", "discount=0.1", "evaluate.every_rounds=3")
    (same,) = groups_of(parse_words(FIELD, words, [0, 1]))
    assert (base.config, base.seal) == (same.config, same.seal)


def test_a_search_in_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    question = asked(["worlds=1..4", RATE, "evaluate.every_rounds=3"], seed=7)

    plan = plan_search(question, tmp_path / "sweep", code_named_in(question))

    search = plan.search
    assert search is not None
    assert Search.from_json(json.loads(json.dumps(search.to_json()))) == search
    assert (search.trials, search.seed, search.metric) == (3, 7, "trained")
    assert search.prunes
    assert [cell.name for cell in plan.cells[:3]] == [
        "trial-0/seed-0",
        "trial-0/seed-1",
        "trial-1/seed-0",
    ]
    assert all(map(plan.is_open, plan.cells))

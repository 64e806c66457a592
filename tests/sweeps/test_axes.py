"""What a sweep varies, from words of the command line and from TOML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.errors import ConfigError
from rookery.sweeps.axes import (
    Axis,
    Question,
    parse_axis,
    parse_seeds,
    parse_words,
    read_question,
)


def values(word: str) -> list[str]:
    (column,) = zip(*parse_axis(word).values, strict=True)
    return list(column)


def refusal_of(words: list[str], games: str = "tag") -> str:
    with pytest.raises(ConfigError) as refused:
        parse_words(games, words, [0])
    return str(refused.value)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("learning_rate=1e-4,3e-4", ["1e-4", "3e-4"]),
        ("algorithm=dqn, iqn", ["dqn", "iqn"]),
        ("game.agents=2..5", ["2", "3", "4", "5"]),
        ("game.agents=2..8..3", ["2", "5", "8"]),
        ("game.agents=2..8..4", ["2", "6"]),
        ("discount=0.1..0.5..0.2", ["0.1", "0.3", "0.5"]),
        ("learning_rate=1e-4..3e-4..1e-4", ["0.0001", "0.0002", "0.0003"]),
        ("x=-1..1", ["-1", "0", "1"]),
        ("game.agents=2..3,7", ["2", "3", "7"]),
        ("network.hidden=[64,64],[32]", ["[64,64]", "[32]"]),
        ("x='a,b',\"c,d\"", ["'a,b'", '"c,d"']),
        ("algorithm=./own.py:Mine,dqn", ["./own.py:Mine", "dqn"]),
    ],
)
def test_a_word_lists_the_values_of_a_setting(word: str, expected: list[str]) -> None:
    assert values(word) == expected


@pytest.mark.parametrize(
    "key", ['agents."*".algorithm', "agents.'a=b:c'.algorithm", "agents.*.algorithm"]
)
def test_names_in_quotes_may_contain_anything(key: str) -> None:
    axis = parse_axis(f"{key}=dqn,iqn")

    assert axis == Axis((key,), (("dqn",), ("iqn",)))


def test_settings_that_are_tied_vary_together() -> None:
    question = parse_words("tag", ["learning_rate:batch_size=1e-4:32,3e-4:64"], [0])

    assert list(question.combinations()) == [
        ("tag", {"learning_rate": "1e-4", "batch_size": "32"}),
        ("tag", {"learning_rate": "3e-4", "batch_size": "64"}),
    ]


def test_all_combinations_of_games_and_values_are_asked_for() -> None:
    question = parse_words("tag,gathering", ["worlds=2,4", "frames=1", "discount=0,1"], [0])

    combinations = list(question.combinations())
    assert question.fixed == ("frames=1",)
    assert len(combinations) == 8
    assert combinations[0] == ("tag", {"worlds": "2", "discount": "0"})
    assert combinations[-1] == ("gathering", {"worlds": "4", "discount": "1"})


REFUSED = {
    "no equals sign": (["rounds"], "'rounds' has no '=': write a setting as key=value"),
    "no key": (["=3"], "'=3' has no key before '=': write a setting as key=value"),
    "open quote": (
        ['agents."x=3'],
        "the key of 'agents.\"x=3' cannot be read: separate names by dots, and quote names "
        "that contain dots, spaces or quotes",
    ),
    "tied, but one value": (
        ["worlds:frames=2:1,4"],
        "'worlds:frames=2:1,4' ties 2 settings, but '4' has 1 values: write "
        "worlds:frames=x:x",
    ),
    "range downwards": (
        ["worlds=5..2"],
        "'5..2' is not a range: write FIRST..LAST or FIRST..LAST..STEP, from low to high, "
        "with at most 10000 values.",
    ),
    "range without end": (
        ["worlds=1..4..0"],
        "'1..4..0' is not a range: write FIRST..LAST or FIRST..LAST..STEP, from low to "
        "high, with at most 10000 values.",
    ),
    "range of fractions": (
        ["discount=0.1..0.5"],
        "'0.1..0.5' is not a range of whole numbers: write FIRST..LAST..STEP, as in "
        "0.1..0.5..0.1, or search it: --search optuna.",
    ),
    "logarithmic": (
        ["learning_rate=1e-4..1e-2..log"],
        "'1e-4..1e-2..log' is for a search: add --search optuna, or name the values.",
    ),
    "value twice": (
        ["worlds=2,4,2"],
        "worlds has the same value twice: name each value once.",
    ),
    "axis twice": (
        ["worlds=2,4", "worlds=8,16"],
        "worlds is given twice: give all its values at once.",
    ),
    "axis and value": (
        ["worlds=2,4", "worlds=8"],
        "worlds is given twice: give all its values at once.",
    ),
    "seed": (["seed=3"], "seed cannot be set in a sweep: use seeds=3 or seeds=0..9."),
    "seeds varied": (
        ["seed=3,4"],
        "seed cannot be set in a sweep: use seeds=3 or seeds=0..9.",
    ),
    "game": (
        ["game.name=tag,gathering"],
        "game.name cannot be set in a sweep: name the games, with commas.",
    ),
    "too many": (
        ["worlds=1..1000", "frames=1..1000"],
        "the sweep has 1000000 cells, expected at most 100000.",
    ),
}


@pytest.mark.parametrize(("words", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_read_is_refused_in_one_line(
    words: list[str], expected: str
) -> None:
    assert refusal_of(words) == expected


def test_a_sweep_needs_games_and_each_once() -> None:
    assert refusal_of([], games="") == (
        "no game given: name one or several, such as tag,gathering."
    )
    assert refusal_of([], games="tag,tag") == (
        "tag,tag has the same game twice: name it once."
    )


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ("0..3", [0, 1, 2, 3]),
        ("[1, 4,7]", [1, 4, 7]),
        ("5", [5]),
        (range(2, 4), [2, 3]),
        ([4, 4, 1], [4, 1]),
    ],
)
def test_seeds_are_a_range_or_a_list(seeds: Any, expected: list[int]) -> None:
    assert parse_seeds(seeds) == expected


@pytest.mark.parametrize("seeds", ["", "3..1", "x", "1;2", "0..10000", [], [-1], [True], 3])
def test_anything_else_is_not_a_list_of_seeds(seeds: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not a list of seeds: write seeds=0..9 or"):
        parse_seeds(seeds)


PLAN = """
games = ["tag", "gathering"]
seeds = "0..2"

[settings]
rounds = 10
game.turns = 20
agents."*".algorithm = "dqn"

[[axes]]
learning_rate = [1e-4, 3e-4]

[[axes]]
worlds = [8, 16]
batch_size = [32, 64]
"""


def test_a_file_asks_for_the_same_as_words(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)

    question = read_question(tmp_path / "plan.toml")

    assert question == Question(
        games=("tag", "gathering"),
        axes=(
            Axis(("learning_rate",), (("0.0001",), ("0.0003",))),
            Axis(("worlds", "batch_size"), (("8", "32"), ("16", "64"))),
        ),
        seeds=(0, 1, 2),
        fixed=("rounds=10", "game.turns=20", 'agents."*".algorithm="dqn"'),
    )


WRONG_FILES = {
    "another key": (
        "game = 'tag'",
        "has 'game', expected only axes, games, search, seeds, settings",
    ),
    "games": ("games = 3", "games in plan.toml is 3, expected a list of names."),
    "game": ("games = [3]", "games in plan.toml is [3], expected a list of names."),
    "settings": (
        "games = 'tag'\nsettings = 3",
        "settings in plan.toml is 3, expected a table.",
    ),
    "axes": (
        "games = 'tag'\naxes = 3",
        "'axes' in plan.toml is not a list of tables: write [[axes]].",
    ),
    "no list": (
        "games = 'tag'\n[[axes]]\nworlds = 3",
        "worlds in plan.toml is 3, expected a list.",
    ),
    "empty axis": (
        "games = 'tag'\n[[axes]]",
        "an axis in plan.toml is empty: give a setting with its values.",
    ),
    "unequal lists": (
        "games = 'tag'\n[[axes]]\nworlds = [3, 4]\nframes = [1, 2, 3]",
        "worlds and frames in plan.toml vary together, but have 2 and 3 values: give all "
        "the same number.",
    ),
    "seeds": ("games = 'tag'\nseeds = 'x'", "'seeds=x' is not a list of seeds"),
    "no games": ("seeds = '0..2'", "no game given: name one or several"),
}


@pytest.mark.parametrize(("text", "expected"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_a_file_that_is_wrong_is_refused_in_one_line(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(text)

    with pytest.raises(ConfigError) as refused:
        read_question(Path("plan.toml"))

    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)

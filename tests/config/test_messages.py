"""Invalid settings: every problem is described on one line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from rookery.config.base import Settings
from rookery.config.messages import shown
from rookery.config.resolve import resolve
from rookery.errors import ConfigError
from tests.config.mazes import Maze, answer_of, resolve_overrides, values


def problems_of(*overrides: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        resolve_overrides(*overrides)
    return caught.value.problems


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("worlds=many", "worlds must be a whole number, got 'many'"),
        ("worlds=-3", "worlds must be at least 1, got -3"),
        ("worlds=5000", "worlds must be at most 4096, got 5000"),
        ("worlds=3.5", "worlds must be a whole number, got 3.5"),
        ("worlds=3.0", "worlds must be a whole number, got 3.0"),
        ("worlds=true", "worlds must be a whole number, got true"),
        ('worlds="3"', "worlds must be a whole number, got '3'"),
        ("worlds=[3]", "worlds must be a whole number, got [3]"),
        ("worlds.x=3", "worlds must be a whole number, got a group of settings"),
        ("seed=-1", "seed must be at least 0, got -1"),
        (f"seed={2**63}", f"seed must fit into 64 bits, got {2**63}"),
        (
            "seed=0x" + "f" * 4000,
            "seed must fit into 64 bits, got a value of type 'int'",
        ),
        ("evaluate=3", "evaluate must be a group of settings, got 3"),
        ("evaluate.episodes=0", "evaluate.episodes must be at least 1, got 0"),
        (
            "agents=3",
            "agents must be a group of settings, got 3: did you mean 'game.agents'?",
        ),
        ("agents.0=random", "agents.0 must be a group of settings, got 'random'"),
        ("agents.0.player=3", "agents.0.player must be text (in quotes), got 3"),
        (
            "game.acting=both",
            "game.acting must be 'simultaneous' or 'in_turn', got 'both'",
        ),
        ("game.colour=green", "game.colour must be 'red' or 'blue', got 'green'"),
        ("game.regrowth=0", "game.regrowth must be above 0, got 0"),
        ("game.regrowth=1", "game.regrowth must be below 1, got 1"),
        ("game.regrowth=nan", "game.regrowth must be a finite number, got nan"),
        ("game.regrowth=true", "game.regrowth must be a number, got true"),
        ("game.regrowth=often", "game.regrowth must be a number, got 'often'"),
        ("game.walls=1", "game.walls must be true or false, got 1"),
        ("game.walls=yes", "game.walls must be true or false, got 'yes'"),
        ("game.size=3", "game.size must be a list, got 3"),
        ("game.size=[3]", "game.size[1] is missing: it has no default"),
        (
            "game.size=[1, 2, 3]",
            "game.size: Tuple should have at most 2 items after validation, not 3, got [1",
        ),
        ("game.size=[3, x]", "game.size must be a list, got '[3, x]'"),
        ("game.size=[3, true]", "game.size[1] must be a whole number, got true"),
        (
            "game.gems=" + str([1] * 10),
            "game.gems: Tuple should have at most 9 items after validation, not 10, got [1",
        ),
        ("game.tags=[1]", "game.tags[0] must be text (in quotes), got 1"),
        ("game.sight=far", "game.sight must be 'all' or a whole number, got 'far'"),
        ("game.sight=-1", "game.sight must be 'all' or at least 0, got -1"),
        ("game.prices.gem=x", "game.prices.gem must be a number, got 'x'"),
        ("game.beam=3", "game.beam must be a group of settings, got 3"),
        ("game.kinds.a.length=0", "game.kinds.a.length must be at least 1, got 0"),
        ("game.start=soon", "game.start must be a valid date"),
    ],
)
def test_an_invalid_value_is_refused_with_what_was_expected(
    override: str, problem: str
) -> None:
    (message,) = problems_of(override)

    assert message.startswith(problem)
    assert message.isprintable()


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("sed=1", "unknown setting 'sed': did you mean 'seed'?"),
        ("game.agnets=4", "unknown setting 'game.agnets': did you mean 'game.agents'?"),
        ("game.nme=x", "unknown setting 'game.nme': did you mean 'game.name'?"),
        ("game.form=x", "unknown setting 'game.form': did you mean 'game.from'?"),
        (
            "evaluate.episode=1",
            "unknown setting 'evaluate.episode': did you mean 'evaluate.episodes'?",
        ),
        ("episodes=1", "unknown setting 'episodes': did you mean 'evaluate.episodes'?"),
        ("acting=x", "unknown setting 'acting': did you mean 'game.acting'?"),
        ("player=x", "unknown setting 'player': agents.ID.player=NAME names"),
        (
            'agents."h*".plyer=x',
            "unknown setting 'agents.\"h*\".plyer': did you mean 'agents.\"h*\".player'?",
        ),
        (
            "game.beam.lngth=1",
            "unknown setting 'game.beam.lngth': did you mean 'game.beam.length'?",
        ),
        (
            "game.kinds.a.lngth=1",
            "unknown setting 'game.kinds.a.lngth': did you mean 'game.kinds.a.length'?",
        ),
        (
            "qqq.x=1",
            "unknown setting 'qqq': known are actors, agents, algorithm, ",
        ),
        (
            "evaluate.qqq=1",
            "unknown setting 'evaluate.qqq': known are evaluate.episodes, "
            "evaluate.every_rounds, evaluate.turns.",
        ),
        ('"a\nb"=1', "the key of"),
    ],
)
def test_an_unknown_setting_is_answered_by_the_closest(override: str, problem: str) -> None:
    (message,) = problems_of(override)

    assert message.startswith(problem)


def test_a_game_without_settings_knows_only_its_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'game.x': known are game.n"):
        resolve({"game": {"name": "bare", "x": 1}}, Settings)


def test_all_problems_are_listed_at_once() -> None:
    problems = problems_of(
        "worlds=many", "seed=-1", "game.agnets=4", f"game.agents={2**70}"
    )

    assert problems == (
        f"game.agents must fit into 64 bits, got {2**70}",
        "seed must be at least 0, got -1",
        "worlds must be a whole number, got 'many'",
        "unknown setting 'game.agnets': did you mean 'game.agents'?",
    )


def test_of_very_many_problems_the_first_are_listed() -> None:
    problems = problems_of(*(f"key{i}=1" for i in range(100)))

    assert len(problems) == 21
    assert problems[-1] == "and 80 more"


def test_a_missing_game_is_named() -> None:
    with pytest.raises(ConfigError, match=r"game.name is missing: it has no default"):
        resolve({}, Maze)


def test_a_game_that_is_not_a_group_is_one_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"game": "maze"}, Maze)

    assert str(caught.value) == "game must be a group of settings, got 'maze'"


def test_the_message_of_a_games_own_validator_is_one_line() -> None:
    (message,) = problems_of("game.agents=5", "game.size=[2, 2]")

    assert message == "game: 5 agents are more than there are cells"


def test_a_game_cannot_declare_a_setting_called_name() -> None:
    class Named(Settings):
        name: str = Field(default="", description="Taken.")

    with pytest.raises(ConfigError, match="declares a setting called 'name': rename"):
        resolve({"game": {"name": "x"}}, Named)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"seed": "a\udc80"}, r"seed must be Unicode text, got 'a\\udc80'"),
        ({"a\udc80": 1}, r'"a\\U0000dc80" must be Unicode text'),
        ({"seed": object()}, "seed must be a whole number, got a value of type 'obj"),
        ({"seed": [None]}, "seed must be a whole number, got a value of type 'list'"),
    ],
)
def test_a_value_that_a_file_cannot_hold_is_refused(
    raw: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve(raw | {"game": {"name": "maze"}}, Maze)


def test_an_infinite_tree_is_refused() -> None:
    raw: dict[str, Any] = {"game": {"name": "maze"}}
    raw["seed"] = raw

    with pytest.raises(ConfigError, match="is nested deeper than 32 levels"):
        resolve(raw, Maze)


def test_long_values_and_keys_are_cut() -> None:
    problems = problems_of("worlds=" + "x" * 4000, "k" * 4000 + "=1")

    assert problems[0] == f"worlds must be a whole number, got '{'x' * 60}…'"
    assert all(len(problem) < 300 for problem in problems)


def test_control_characters_are_quoted() -> None:
    assert shown("a\n\x1b[31m\u2028\u202e") == r"'a\n\x1b[31m\u2028\u202e'"


@given(raw=st.dictionaries(st.text(), values(), max_size=4), game=values())
@settings(max_examples=100, deadline=None)
def test_whatever_tree_is_resolved_the_answer_is_one_line(
    raw: dict[str, Any], game: Any
) -> None:
    names = ["seed", "worlds", "evaluate", "agents"]
    tree = dict(zip(names, raw.values(), strict=False)) | raw | {"game": game}

    answer = answer_of(lambda: resolve(tree, Maze))

    assert answer.isprintable()

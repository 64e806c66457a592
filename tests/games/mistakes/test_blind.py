"""Mistakes thought up by somebody who had not seen the check: none is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.games.mistakes.test_mistakes import lines, quick

FOLDER = Path(__file__).with_name("blind")

BLIND = [
    ("actions_twice", "Turner", "failed", 26, "actions has 'turn_left' twice"),
    ("before_me", "Bushes", "failed", 31, "expected (self, world): write def before("),
    ("body_twice", "Sizes", "note", 28, "self.picker is assigned a second time"),
    ("char_p", "Plums", "failed", 17, "which stands for a start spot and plum: give"),
    ("class_list", "Bonus", "failed", 39, "Bonus.picked (class_list.py, line 39) changes"),
    ("clear_first", "Pickers", "note", 36, "comes before world.value reads me.cell"),
    ("clear_number", "Pickers", "note", 34, "but none was ever taken away: if it should"),
    ("counts_string", "Counted", "failed", 15, "write ('picked',)"),
    ("end_assigned", "Finish", "failed", 28, "'end' is a method, not a column: call it"),
    ("init_settings", "Grower", "failed", 27, "call super().__init__(settings) first"),
    ("no_move", "Pickers", "note", 34, "no agent ever moved in 60 turns: call me.move()"),
    ("not_reset", "Payday", "note", 37, "only ever grows, so it is paid again in every"),
    ("player_instance", "Walked", "failed", 25, "list the class of the player itself"),
    ("player_list", "Walked", "failed", 13, "returned (2,) int64"),
    ("player_state", "Walked", "failed", 20, "self.last (player_state.py, line 20)"),
    ("python_random", "Lucky", "failed", 38, "`random.random()`"),
    ("reset", "Bushes", "note", 28, "nothing uses the method 'reset' of Bushes: did you"),
    (
        "returns_reward",
        "Returner",
        "note",
        38,
        "act() returns `reward`, which nothing uses",
    ),
    ("starts", "Bushes", "note", 28, "did you mean 'start'?"),
    ("turns_zero", "Endless", "failed", 13, "game.turns is 0, expected at least 1"),
    ("uint8", "Hungry", "failed", 43, "the column's dtype cannot hold the result"),
    ("world_axis", "Explorers", "failed", 37, "the first axis of an array is the world"),
    ("wrong_agent", "Pickers", "failed", 36, "look at `world.agents[0]`"),
    ("zero_by_zero", "Skill", "note", 40, "numpy warns: invalid value encountered in"),
]

__all__ = ["quick"]  # the fixture makes these checks short, too


@pytest.mark.parametrize(
    ("name", "game", "result", "line", "says"), BLIND, ids=[row[0] for row in BLIND]
)
def test_mistake_of_somebody_else_is_one_line(name, game, result, line, says):
    said = list(lines(FOLDER / f"{name}.py", game))

    assert said[0][0] == result, said
    assert f"line {line}" in said[0][1], said
    assert says in said[0][1], said


def test_every_file_is_tested():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == [row[0] for row in BLIND]

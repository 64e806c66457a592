"""Walkers find their way in a window."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rookery.errors import PlayerError
from rookery.games.gridworld.walker import Walker
from rookery.games.player_guard import actions_of
from rookery.games.players import Observation
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Part

UP, RIGHT, DOWN, LEFT = range(4)
LABELS = ("wall", "goal", "walker")
SPEC = AgentSpec(
    "0",
    "walker",
    {"view": Part((3, 5, 5), np.dtype(np.uint8), LABELS)},
    ("up", "right", "down", "left"),
)


class GoalSeeker(Walker):
    """Goes to goals, and wanders if there are none."""

    def act(self, observation, turn):
        draws = self.draw(turn)[:, 0]
        move, has_goal = self.towards(observation, self.sees(observation, "goal"), draws)
        return np.where(has_goal, move, self.wander(observation, draws))


def moves(things, heading=UP, worlds=200):
    """Return the moves in many worlds that look alike: {(row, column): kind}."""
    view = np.zeros((worlds, 3, 5, 5), np.uint8)
    view[:, LABELS.index("walker"), 2, 2] = 1
    for (row, column), kind in things.items():
        view[:, LABELS.index(kind), row, column] = 1
    player = GoalSeeker(SPEC, None, worlds, Stream(0, Purpose.PLAYER, 0))
    player.memory["heading"][...] = heading
    return player.act(Observation({"view": view}, np.ones(worlds, bool), None), 0)


@pytest.mark.parametrize(
    ("goal", "way"), [((0, 2), UP), ((2, 4), RIGHT), ((4, 2), DOWN), ((2, 0), LEFT)]
)
def test_walker_goes_straight_to_its_goal(goal, way):
    assert set(moves({goal: "goal"})) == {way}


class Misspelt(Walker):
    """Looks for a kind that does not exist."""

    kind = "gaol"

    def act(self, observation, turn):
        return self.towards(observation, self.sees(observation, self.kind), None)[0]


class Fenced(GoalSeeker):
    """Believes that something blocks its way which does not exist."""

    blocks = ("fence",)


class Lost(Misspelt):
    """Looks for a kind whose name is like no other."""

    kind = "exit"


@pytest.mark.parametrize(
    ("player", "text"),
    [
        (Misspelt, "has no 'gaol': it has wall, goal, walker; did you mean 'goal'?"),
        (Lost, "has no 'exit': it has wall, goal, walker."),
        (Fenced, "has no 'fence', which is in blocks: it has wall, goal, walker."),
    ],
)
def test_kind_that_the_view_does_not_have_is_refused_with_those_it_has(player, text):
    with pytest.raises(PlayerError, match=rf"line \d+: the view {re.escape(text)}$"):
        actions_of(
            player(SPEC, None, 2, Stream(0, Purpose.PLAYER, 0)),
            Observation({"view": np.zeros((2, 3, 5, 5))}, np.ones(2, bool), None),
            0,
        )


def test_walker_goes_to_the_nearest():
    assert set(moves({(0, 2): "goal", (3, 2): "goal"})) == {DOWN}


def test_walker_takes_either_way_round_a_corner():
    assert set(moves({(0, 4): "goal"})) == {UP, RIGHT}


@pytest.mark.parametrize("thing", ["wall", "walker"])
def test_walker_steps_around_an_obstacle_and_not_back(thing):
    assert set(moves({(0, 2): "goal", (1, 2): thing})) == {RIGHT, LEFT}


def test_walker_without_a_goal_mostly_goes_straight_ahead():
    taken = moves({}, heading=LEFT)

    assert 0.85 < (taken == LEFT).mean() < 1


def test_walker_turns_at_a_wall():
    assert set(moves({(1, 2): "wall"}, heading=UP)) == {RIGHT, DOWN, LEFT}


def test_walker_that_is_walled_in_still_chooses():
    around = {(1, 2): "wall", (2, 1): "wall", (3, 2): "wall", (2, 3): "wall"}

    assert set(moves(around)) <= {UP, RIGHT, DOWN, LEFT}

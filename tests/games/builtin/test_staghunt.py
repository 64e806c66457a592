"""Staghunt: hares for one, a stag for two at once."""

from __future__ import annotations

import pytest

import rookery
from rookery.games.builtin.staghunt import Staghunt

STAG = (5, 5)


@pytest.fixture
def hunt(board):
    """Three hunters, of whom 0 and 1 stand beside the stag; nothing comes back."""
    hunt = board(Staghunt, worlds=2, agents=3, regrow=0.0)
    hunt.place(0, 4, 5)
    hunt.place(1, 6, 5)
    hunt.place(2, 1, 1)
    return hunt


def stags(game):
    return game.world.count(game.rules.stag).tolist()


def test_two_hunters_in_one_turn_both_get_the_stag(hunt):
    outcome = hunt.turn("down", "up", "stay")

    assert outcome.rewards.tolist() == [[5, 5, 0]] * 2
    assert outcome.counts["stags"].tolist() == [[1, 1, 0]] * 2
    assert stags(hunt) == [0, 0]


def test_three_hunters_in_one_turn_all_get_the_stag(hunt):
    hunt.place(2, 5, 4)

    assert hunt.turn("down", "up", "right").rewards.tolist() == [[5, 5, 5]] * 2


def test_hunting_a_stag_alone_costs_and_the_stag_stays(hunt):
    outcome = hunt.turn("down", "stay", "stay")

    assert outcome.rewards.tolist() == [[-0.5, 0, 0]] * 2
    assert outcome.counts["alone"].tolist() == [[1, 0, 0]] * 2
    assert stags(hunt) == [1, 1]
    assert hunt.spot(0) == (4, 5)


def test_hunting_in_different_turns_is_not_together(hunt):
    hunt.turn("down", "stay", "stay")

    assert hunt.turn("stay", "up", "stay").counts["stags"].sum() == 0


def test_together_is_decided_world_by_world(hunt):
    outcome = hunt.turn("down", ["up", "stay"], "stay")

    assert outcome.rewards.tolist() == [[5, 5, 0], [-0.5, 0, 0]]


@pytest.mark.parametrize("acting", ["simultaneous", "in_turn"])
def test_a_stag_takes_two_in_turn_as_well(board, acting):
    hunt = board(Staghunt, agents=2, acting=acting)
    hunt.place(0, 4, 5)
    hunt.place(1, 5, 6)

    assert hunt.turn("down", "left").rewards.tolist() == [[5, 5]]


@pytest.mark.parametrize("risk", [0.0, 2.0])
def test_the_risk_is_a_setting(board, risk):
    hunt = board(Staghunt, agents=1, risk=risk)
    hunt.place(0, 4, 5)

    assert hunt.turn("down").rewards.tolist() == [[-risk]]


def test_an_agent_that_steps_on_a_hare_gets_it(hunt):
    hunt.place(2, 1, 4)

    outcome = hunt.turn("stay", "stay", "right")

    assert outcome.rewards.tolist() == [[0, 0, 1]] * 2
    assert outcome.counts["hares"].tolist() == [[0, 0, 1]] * 2


def test_animals_come_back_where_they_were(board):
    hunt = board(Staghunt, worlds=2, agents=1, regrow=1.0)
    lived = hunt.world.layer("game").copy()
    hunt.world.layer("game")[...] = 0

    hunt.engine.begin_turn()

    free = hunt.world.layer("agents") == 0
    assert (hunt.world.layer("game") == lived)[free].all()


def test_hare_hunters_hunt_no_stags_and_stag_hunters_hardly_any_hares():
    match = rookery.play("staghunt", ["stag_hunter", "hare_hunter"], episodes=4)

    stags = sum(
        episode.counts["stags"] + episode.counts["alone"] for episode in match.episodes
    )
    hares = sum(episode.counts["hares"] for episode in match.episodes)
    assert stags[1] == 0
    assert hares[1] > 10 * hares[0]

"""Tag: one is it, whoever is touched is it next."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.games.builtin.tag import Tag


@pytest.fixture
def yard(board):
    """Agent 0 is it, agent 1 stands to its right, agent 2 far away; nobody stumbles."""
    yard = board(Tag, worlds=2, agents=3, stumble=0.0, free=0.0)
    for agent, spot in enumerate([(4, 5), (4, 6), (9, 1)]):
        yard.place(agent, *spot)
        yard.agents[agent].it = agent == 0
    return yard


def it(game):
    return np.stack([me.it for me in game.agents], axis=1)


def test_one_agent_is_it_at_the_start_and_not_always_the_same(board):
    flags = it(board(Tag, worlds=64))

    assert (flags.sum(axis=1) == 1).all()
    assert flags.any(axis=0).all()


def test_a_touched_agent_is_it(yard):
    outcome = yard.turn("right", "stay", "stay")

    assert it(yard).tolist() == [[False, True, False]] * 2
    assert outcome.rewards.tolist() == [[1, -1, 0]] * 2
    assert outcome.counts["touches"].tolist() == [[1, 0, 0]] * 2


def test_an_agent_that_is_not_it_touches_no_other(yard):
    outcome = yard.turn("stay", "left", "stay")

    assert it(yard).tolist() == [[True, False, False]] * 2
    assert not outcome.rewards.any()


def test_a_touched_agent_cannot_move_for_some_turns(yard):
    yard.turn("right", "stay", "stay")
    yard.turn("up", "stay", "stay")

    spots = []
    for _ in range(4):
        yard.turn("stay", "down", "stay")
        spots.append(yard.spot(1))

    assert spots == [(4, 6), (4, 6), (5, 6), (6, 6)]


def test_every_turn_of_not_being_it_is_rewarded(board):
    yard = board(Tag, agents=3, free=0.5)
    free = ~it(yard)

    outcome = yard.turn()

    assert outcome.rewards.tolist() == (0.5 * free).tolist()
    assert outcome.counts["turns_it"].tolist() == (~free).tolist()


def test_the_agent_that_is_it_carries_the_flag(yard):
    yard.turn("left", "stay", "stay")

    flags = yard.on_map(yard.world.mask(yard.rules.flag))
    assert np.argwhere(flags).tolist() == [list(yard.spot(0))]
    assert yard.spot(0) == (4, 4)


def test_flag_and_being_it_are_observed(yard):
    yard.turn()

    labels = yard.engine.agents[1].parts["view"].labels
    flag = yard.seen[1]["view"][0, labels.index("flag")]
    assert np.argwhere(flag).tolist() == [[4, 3]]
    assert [int(yard.seen[i]["self"][0, 0]) for i in range(3)] == [1, 0, 0]


def test_only_agents_that_are_not_it_stumble(board):
    yard = board(Tag, agents=2, stumble=1.0)
    yard.place(0, 4, 5)
    yard.place(1, 6, 5)
    yard.agents[0].it, yard.agents[1].it = True, False

    yard.turn("left", "left")

    assert yard.spot(0) == (4, 4)
    assert yard.spot(1) == (6, 5)


@pytest.mark.shows("H3")
def test_sprinters_touch_others_and_idlers_pay_for_not_doing_so():
    match = rookery.play("tag", ["idler", "sprinter", "sprinter"], episodes=16)

    touches = sum(episode.counts["touches"] for episode in match.episodes)
    assert touches[0] == 0
    assert (touches[1:] > 16).all()
    assert match.returns[:, 0].mean() < match.returns[:, 1:].mean()

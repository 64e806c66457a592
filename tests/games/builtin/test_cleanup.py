"""Cleanup: apples need a clean river, and somebody has to clean it."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.games.builtin.cleanup import Cleanup

UP, RIGHT, DOWN, LEFT = range(4)
RIVER, ORCHARD = 3 * 8, 4 * 8
BANK = 4


@pytest.fixture
def village(board):
    """Agent 0 at the river, agent 1 in the orchard; a clean river that stays so."""
    village = board(Cleanup, worlds=2, agents=2, pollution=0.0, dirt=0.0, growth=0.0)
    village.place(0, 3, BANK, facing=LEFT)
    village.place(1, 3, 10, facing=RIGHT)
    return village


def soil(village, *spots):
    village.world.fill(village.rules.dirt, village.mask(*spots))


def dirt(village):
    return village.world.count(village.rules.dirt).tolist()


def apples(village):
    return village.world.count(village.rules.apple).tolist()


def test_an_episode_starts_without_apples(board):
    assert apples(board(Cleanup, worlds=2)) == [0, 0]


@pytest.mark.parametrize(("share", "dirty"), [(0.0, 0), (1.0, RIVER)])
def test_dirt_at_the_start_is_a_setting(board, share, dirty):
    assert dirt(board(Cleanup, worlds=2, dirt=share)) == [dirty] * 2


def test_only_the_river_gets_dirty(board):
    game = board(Cleanup, worlds=2, pollution=1.0, dirt=0.0)

    game.turn()

    assert dirt(game) == [RIVER, RIVER]
    assert np.array_equal(
        game.world.mask(game.rules.dirt), game.world.mask(game.rules.water)
    )


@pytest.mark.shows("H1")
def test_river_gets_dirty_with_the_set_probability_before_agents_act(board):
    game = board(Cleanup, worlds=64, agents=1, pollution=0.1, dirt=0.0)

    game.engine.begin_turn()

    share = sum(dirt(game)) / (64 * RIVER)
    assert abs(share - 0.1) < 5 * np.sqrt(0.1 * 0.9 / (64 * RIVER))


@pytest.mark.parametrize(
    ("rows", "share"), [(0, 1.0), (2, 0.5), (4, 0.0), (8, 0.0)], ids=str
)
def test_apples_grow_less_the_dirtier_the_river_is(board, rows, share):
    game = board(Cleanup, worlds=64, agents=1, pollution=0.0, dirt=0.0, growth=0.2)
    soil(game, *((1 + row, 1 + column) for row in range(rows) for column in range(3)))

    game.engine.begin_turn()

    grown, expected = sum(apples(game)) / (64 * ORCHARD), 0.2 * share
    assert abs(grown - expected) <= 5 * np.sqrt(expected / (64 * ORCHARD))


def test_apple_gives_a_reward_of_one_and_is_counted(village):
    village.world.fill(village.rules.apple, village.mask((3, 11)))

    outcome = village.turn("stay", "right")

    assert outcome.rewards.tolist() == [[0, 1]] * 2
    assert outcome.counts["apples"].tolist() == [[0, 1]] * 2
    assert apples(village) == [0, 0]


def test_beam_removes_all_dirt_ahead_and_counts_it(village):
    soil(village, (3, 1), (3, 3), (4, 3))

    outcome = village.turn("clean", "stay")

    assert outcome.counts["cleaned"].tolist() == [[2, 0]] * 2
    assert outcome.rewards.tolist() == [[0, 0]] * 2
    assert dirt(village) == [1, 1]


def test_length_of_the_beam_is_a_setting(board):
    game = board(Cleanup, agents=1, pollution=0.0, dirt=1.0, length=2)
    game.place(0, 3, BANK, facing=LEFT)

    assert game.turn("clean").counts["cleaned"].tolist() == [[2]]


def test_dirt_that_two_beams_cross_is_counted_once(board):
    game = board(Cleanup, agents=2, pollution=0.0, dirt=0.0)
    game.place(0, 3, BANK, facing=LEFT)
    game.place(1, 4, 3, facing=UP)
    soil(game, (3, 3))

    assert game.turn("clean", "clean").counts["cleaned"].sum() == 1


def test_agents_turn_to_the_river_but_do_not_walk_into_it(village):
    village.place(0, 3, BANK, facing=UP)

    village.turn("left", "stay")
    village.turn("stay", "stay")

    assert village.spot(0) == (3, BANK)
    assert village.seen[0]["self"].tolist() == [[0, 0, 0, 1]] * 2


def test_facing_is_observed_from_the_first_turn(board):
    game = board(Cleanup, worlds=16)
    facing = game.agents[0].facing.copy()

    game.turn()

    assert game.seen[0]["self"].argmax(axis=1).tolist() == facing.tolist()
    assert (game.seen[0]["self"].sum(axis=1) == 1).all()


def test_cleaners_clean_and_eaters_do_not():
    match = rookery.play(
        "cleanup", ["cleaner", "cleaner", "eater", "eater"], episodes=4, game={"turns": 60}
    )

    cleaned = sum(episode.counts["cleaned"] for episode in match.episodes)
    assert (cleaned[:2] > 10).all()
    assert cleaned[2:].tolist() == [0, 0]

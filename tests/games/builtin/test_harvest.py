"""Harvest: apples grow back from apples nearby, and from nothing never."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.games.builtin.harvest import Harvest

PATCH = 13
ORCHARD = 5 * PATCH
MIDDLE = (6, 9)


@pytest.fixture
def field(board):
    """An agent beside the middle patch; nothing grows."""
    field = board(Harvest, worlds=2, agents=1, regrow=0.0)
    field.place(0, 6, 6)
    return field


def apples(game):
    return game.world.count(game.rules.apple)


def leave(game, *spots):
    """Leave apples only here."""
    game.world.layer("apples")[...] = 0
    game.world.fill(game.rules.apple, game.mask(*spots))


def test_five_patches_are_full_at_the_start(board):
    assert apples(board(Harvest, worlds=2)).tolist() == [ORCHARD] * 2


def test_apple_gives_a_reward_of_one_and_is_counted(field):
    outcome = field.turn("right")

    assert outcome.rewards.tolist() == [[1]] * 2
    assert outcome.counts["apples"].tolist() == [[1]] * 2
    assert apples(field).tolist() == [ORCHARD - 1] * 2


def test_nothing_grows_after_the_last_apple_of_a_patch_is_picked(board):
    game = board(Harvest, worlds=4, agents=1, regrow=1.0)
    patch = [(r, c) for r in range(4, 9) for c in range(7, 12)]
    leave(game, (3, 4), (3, 14), (9, 4), (9, 14))

    for _ in range(5):
        game.turn()

    grown = game.world.mask(game.rules.apple)
    assert not (grown & game.mask(*patch)).any()
    assert (apples(game) == 4 * PATCH).all()


@pytest.mark.shows("H1")
@pytest.mark.parametrize("left", [1, 2, 3])
def test_apples_grow_with_the_number_nearby(board, left):
    game = board(Harvest, worlds=512, agents=1, regrow=0.05, turns=1000)
    leave(game, *[(5, 9), (6, 8), (7, 9)][:left])

    game.engine.begin_turn()

    grown = game.world.mask(game.rules.apple) & game.mask(MIDDLE)
    chance = 0.05 * left
    assert abs(grown.any(axis=1).mean() - chance) < 5 * np.sqrt(chance / 512)


@pytest.mark.parametrize(("reach", "grows"), [(2, False), (3, True)])
def test_reach_is_a_setting(board, reach, grows):
    game = board(Harvest, agents=1, regrow=1.0, reach=reach)
    leave(game, (6, 7))

    game.engine.begin_turn()

    assert bool(game.world.mask(game.rules.apple)[0, game.cell(6, 10)]) is grows


def test_a_sharer_picks_no_apple_with_few_others_nearby():
    match = rookery.play("harvest", "sharer", episodes=4, game={"regrow": 0.0})

    left = [ORCHARD - episode.counts["apples"].sum() for episode in match.episodes]
    assert min(left) >= 5


def test_eaters_pick_the_field_bare():
    match = rookery.play("harvest", "eater", episodes=4, game={"regrow": 0.0})

    assert (match.returns.sum(axis=1) > 0.95 * ORCHARD).all()

"""Players: picking at random, random players, and what a player remembers."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.players import Observation, Player, PlayerStream, RandomPlayer, pick
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec

BUTTONS = AgentSpec("0", "presser", {}, ("a", "b", "c", "d"), masked=True)


def observation(worlds, legal=None):
    return Observation({}, np.ones(worlds, bool), legal)


def seat(kind, worlds, index=0):
    return kind(BUTTONS, None, worlds, Stream(0, Purpose.PLAYER, index))


@pytest.mark.parametrize(
    ("draw", "action"), [(0.0, 1), (0.32, 1), (0.34, 2), (0.65, 2), (0.67, 4), (0.999, 4)]
)
def test_pick_gives_every_candidate_an_equal_share_of_the_draws(draw, action):
    candidates = np.array([[False, True, True, False, True]])

    assert pick(candidates, np.array([draw])).tolist() == [action]


def test_pick_takes_the_only_candidate():
    candidates = np.eye(4, dtype=bool)

    assert pick(candidates, np.full(4, 0.999999)).tolist() == [0, 1, 2, 3]


def test_pick_works_row_by_row():
    candidates = np.array([[True, True], [False, True]])

    assert pick(candidates, np.array([0.4, 0.4])).tolist() == [0, 1]


def test_random_player_picks_only_legal_actions():
    legal = np.random.default_rng(0).random((500, 4)) < 0.5
    legal[~legal.any(axis=1), 0] = True
    player = seat(RandomPlayer, worlds=500)

    for turn in range(20):
        actions = player.act(observation(500, legal), turn)
        assert legal[np.arange(500), actions].all()


@pytest.mark.parametrize(
    ("legal", "shares"),
    [
        (None, [0.25, 0.25, 0.25, 0.25]),
        ([True, False, True, True], [1 / 3, 0, 1 / 3, 1 / 3]),
    ],
    ids=["all", "three"],
)
def test_random_player_takes_every_legal_action_equally_often(legal, shares):
    player = seat(RandomPlayer, worlds=1000)
    mask = None if legal is None else np.tile(legal, (1000, 1))

    actions = np.concatenate(
        [player.act(observation(1000, mask), turn) for turn in range(10)]
    )

    frequencies = np.bincount(actions, minlength=4) / 10_000
    assert np.abs(frequencies - shares).max() < 5 * np.sqrt(0.25 / 10_000)


def test_random_player_repeats_its_actions_in_the_same_turn():
    first, second = (seat(RandomPlayer, worlds=50) for _ in range(2))
    first.act(observation(50), 0)

    assert np.array_equal(first.act(observation(50), 7), second.act(observation(50), 7))


def test_random_players_in_different_seats_choose_differently():
    first, second = (seat(RandomPlayer, worlds=50, index=i) for i in range(2))

    assert not np.array_equal(first.act(observation(50), 0), second.act(observation(50), 0))


def test_random_player_chooses_differently_from_world_to_world_and_turn_to_turn():
    player = seat(RandomPlayer, worlds=50)
    first, second = player.act(observation(50), 0), player.act(observation(50), 1)

    assert len(set(first)) == 4
    assert not np.array_equal(first, second)


def test_player_forgets_only_where_an_episode_starts():
    class Elephant(Player):
        def act(self, observation, turn):
            return np.zeros(self.worlds, np.int64)

    elephant = seat(Elephant, worlds=3)
    elephant.memory["seen"] = np.array([[1, 2], [3, 4], [5, 6]])

    elephant.forget(np.array([True, False, True]))

    assert elephant.memory["seen"].tolist() == [[0, 0], [3, 4], [0, 0]]


def test_a_player_draws_by_the_numbers_of_its_worlds():
    whole = RandomPlayer(BUTTONS, None, 9, PlayerStream(5, 1))
    share = RandomPlayer(BUTTONS, None, 4, PlayerStream(5, 1, first_world=3))

    np.testing.assert_array_equal(share.draw(2, 3), whole.draw(2, 3)[3:7])

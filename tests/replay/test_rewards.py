"""Rewards: scaled, clipped, standardised, and unchanged by default."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.config.agent import RewardConfig
from rookery.replay.rewards import COUNT, RewardSpread, shaped
from tests.replay.histories import Replay, endless, histories, many_episodes

REWARDS = np.array([-10.0, -0.5, 0.0, 0.1, 3.0], np.float32)

pytestmark = pytest.mark.shows("D6")


def spread_of(replay, boundaries, **overrides):
    """Return the spread after some boundaries, one after the other."""
    reader = replay.reader()
    spread = RewardSpread(RewardConfig(**overrides))
    first = 0
    for boundary in boundaries:
        replay.write(boundary)
        reader.advance(boundary)
        spread.update(reader, first)
        first = boundary
    return spread


def rewards_of(worlds, turns):
    return np.array([[row.reward for row in rows[:turns]] for rows in worlds])


# Single rewards.


def test_rewards_are_unchanged_by_default():
    assert shaped(REWARDS, RewardConfig()).tobytes() == REWARDS.tobytes()


def test_rewards_are_multiplied_by_the_scale():
    rewards = shaped(REWARDS, RewardConfig(scale=0.1))

    np.testing.assert_allclose(rewards, REWARDS / 10, rtol=1e-6)
    assert rewards.dtype == np.float32


def test_rewards_are_clipped():
    rewards = shaped(REWARDS, RewardConfig(clip=1.0))

    np.testing.assert_array_equal(rewards, np.array([-1, -0.5, 0, 0.1, 1], np.float32))
    assert rewards.dtype == np.float32


def test_rewards_are_scaled_before_they_are_clipped():
    rewards = shaped(REWARDS, RewardConfig(scale=0.5, clip=1.0))

    np.testing.assert_allclose(rewards, [-1, -0.25, 0, 0.05, 1])


def test_shaping_does_not_change_the_rows():
    rows = REWARDS.copy()

    shaped(rows, RewardConfig(scale=2.0, clip=1.0))

    np.testing.assert_array_equal(rows, REWARDS)


# The spread.


@settings(max_examples=60, deadline=None)
@given(histories(max_turns=60), st.integers(1, 9), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_spread_is_numpys_over_all_rewards_so_far(worlds, turns, scale):
    replay = Replay(worlds, turns_per_round=turns)
    last = replay.turns - replay.turns % turns

    boundaries = range(turns, last + 1, turns)
    spread = spread_of(replay, boundaries, standardise=True, scale=scale)

    rewards = scale * rewards_of(worlds, last)
    if rewards.size >= 2:
        expected = 1 / max(rewards.std(), 1e-6)
        assert spread.factor == pytest.approx(expected, rel=1e-5)


def test_the_spread_counts_rewards_that_left_the_window():
    worlds = many_episodes(60, worlds=2)
    replay = Replay(worlds, capacity=20, turns_per_round=5)

    spread = spread_of(replay, range(5, 61, 5), standardise=True)

    assert spread.factor == pytest.approx(1 / rewards_of(worlds, 60).std())
    assert spread.state[COUNT] == 120


def test_the_spread_is_that_of_shaped_rewards():
    worlds = many_episodes(30, worlds=2)

    spread = spread_of(Replay(worlds), [10, 20, 30], standardise=True, scale=2.0, clip=1.0)

    expected = np.clip(2 * rewards_of(worlds, 30), -1, 1).std()
    assert spread.factor == pytest.approx(1 / expected)


def test_a_large_mean_does_not_make_the_spread_inaccurate():
    worlds = many_episodes(60, worlds=1)
    far = [[row._replace(reward=row.reward + 1e5) for row in rows] for rows in worlds]

    spread = spread_of(Replay(far), range(5, 61, 5), standardise=True)

    assert spread.factor == pytest.approx(1 / rewards_of(far, 60).std(), rel=1e-6)


def test_equal_rewards_do_not_give_an_infinite_factor():
    spread = spread_of(Replay(endless(20)), [10, 20], standardise=True)

    assert np.isfinite(spread.factor)


def test_without_standardising_the_factor_is_1():
    spread = spread_of(Replay(many_episodes(20)), [10, 20])

    assert spread.factor == 1.0
    assert spread.state.tolist() == [0, 0, 0]


def test_with_a_single_reward_the_factor_is_1():
    spread = spread_of(Replay(endless(1)), [1], standardise=True)

    assert spread.factor == 1.0


def test_a_round_without_rows_changes_nothing():
    """In `pipelined`, the first round is learned from no rows."""
    worlds = many_episodes(20, worlds=2)

    spread = spread_of(Replay(worlds), [0, 10, 10, 20], standardise=True)

    assert spread.factor == pytest.approx(1 / rewards_of(worlds, 20).std())


def test_a_loaded_spread_continues_where_it_was_saved():
    worlds = many_episodes(30, worlds=2)
    whole = spread_of(Replay(worlds), [10, 20, 30], standardise=True)
    replay = Replay(worlds)
    state = spread_of(replay, [10, 20], standardise=True).state.copy()
    replay.write(30)

    other = RewardSpread(RewardConfig(standardise=True))
    other.load(state)
    other.update(replay.reader(30), 20)

    np.testing.assert_array_equal(other.state, whole.state)


def test_a_loaded_state_is_a_copy():
    state = np.array([4.0, 1.0, 2.0])
    spread = RewardSpread(RewardConfig(standardise=True))
    spread.load(state)

    state[...] = 0

    assert spread.state.tolist() == [4, 1, 2]

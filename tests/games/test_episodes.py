"""Bookkeeping of episodes: which agents still play, for how long, with which returns."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.base import Outcome
from rookery.games.episodes import Episodes

NONE = np.zeros((2, 2), bool)


def ends(*pairs):
    """Return a mask of (world, agent) pairs."""
    mask = NONE.copy()
    for world, agent in pairs:
        mask[world, agent] = True
    return mask


def outcome(rewards=0.0, terminated=(), truncated=(), scores=None, zaps=0.0):
    """Return a turn's outcome in two worlds with two agents."""
    filled = np.full((2, 2), rewards, np.float32)
    counts = {"zaps": np.full((2, 2), zaps, np.float32)}
    return Outcome(filled, ends(*terminated), ends(*truncated), scores, counts)


@pytest.fixture
def episodes():
    return Episodes(2, 2, ["zaps"])


def play(episodes, *turns):
    """Add turns; return the result of each."""
    return [episodes.add(turn) for turn in turns]


def close_world_0(episodes):
    """Play two turns, the second of which ends world 0, and its closing turn."""
    return play(
        episodes, outcome(1.0), outcome(2.0, terminated=[(0, 0), (0, 1)]), outcome()
    )


def test_all_agents_are_live_and_all_counters_zero_at_first(episodes):
    assert episodes.live.all()
    assert episodes.age.tolist() == [0, 0]
    assert episodes.number.tolist() == [0, 0]
    assert episodes.closing.tolist() == [False, False]


def test_age_counts_rows_since_the_episodes_first(episodes):
    play(episodes, outcome(), outcome(), outcome())

    assert episodes.age.tolist() == [3, 3]


def test_an_agent_that_ended_is_no_longer_live(episodes):
    play(episodes, outcome(terminated=[(0, 1)], truncated=[(1, 0)]), outcome())

    assert episodes.live.tolist() == [[True, False], [False, True]]
    assert episodes.closing.tolist() == [False, False]


def test_an_episode_ends_when_its_last_agent_does(episodes):
    (_, first), (_, second) = play(
        episodes, outcome(terminated=[(0, 1)]), outcome(truncated=[(0, 0)])
    )

    assert first == []
    assert [(episode.world, episode.turns) for episode in second] == [(0, 2)]
    assert episodes.closing.tolist() == [True, False]


def test_the_closing_row_belongs_to_the_ended_episode(episodes):
    play(episodes, outcome(), outcome(terminated=[(0, 0), (0, 1)]))

    assert episodes.age[0] == 2  # of the closing row to come
    assert episodes.number[0] == 0


def test_the_next_episode_starts_after_the_closing_row(episodes):
    (starting, ended) = close_world_0(episodes)[-1]

    assert starting.tolist() == [True, False]
    assert ended == []
    assert episodes.live[0].all()
    assert episodes.age.tolist() == [0, 3]
    assert episodes.number.tolist() == [1, 0]


def test_nothing_starts_before_the_closing_row_is_over(episodes):
    turns = close_world_0(episodes)

    assert [starting.tolist() for starting, _ in turns[:2]] == [[False, False]] * 2


def test_returns_are_sums_of_rewards(episodes):
    (ended,) = close_world_0(episodes)[1][1]

    assert ended.returns.tolist() == [3, 3]
    assert ended.number == 0


def test_returns_are_sums_of_scores_if_there_are_any(episodes):
    scores = np.array([[1.0, 2.0], [3.0, 4.0]])
    turns = play(
        episodes,
        outcome(9.0, scores=scores),
        outcome(9.0, truncated=[(1, 0), (1, 1)], scores=scores),
    )

    (ended,) = turns[1][1]
    assert ended.world == 1
    assert ended.returns.tolist() == [6, 8]


def test_counts_are_summed(episodes):
    turns = play(episodes, outcome(zaps=1.0), outcome(zaps=2.0, truncated=[(0, 0), (0, 1)]))

    assert turns[1][1][0].counts["zaps"].tolist() == [3, 3]


def test_the_next_episode_starts_from_zero(episodes):
    close_world_0(episodes)

    turns = play(episodes, outcome(5.0, terminated=[(0, 0), (0, 1)], zaps=1.0))

    (ended,) = turns[0][1]
    assert ended.number == 1
    assert ended.turns == 1
    assert ended.returns.tolist() == [5, 5]
    assert ended.counts["zaps"].tolist() == [1, 1]


def test_a_finished_episode_does_not_change_afterwards(episodes):
    (ended,) = close_world_0(episodes)[1][1]

    play(episodes, outcome(100.0, zaps=7.0), outcome(100.0))

    assert ended.returns.tolist() == [3, 3]
    assert ended.counts["zaps"].tolist() == [0, 0]


def test_several_worlds_end_in_one_turn(episodes):
    all_agents = [(0, 0), (0, 1), (1, 0), (1, 1)]

    ((_, ended),) = play(episodes, outcome(terminated=all_agents))

    assert [episode.world for episode in ended] == [0, 1]
    assert episodes.closing.all()


def test_an_episode_of_one_turn_still_has_a_closing_row(episodes):
    all_agents = [(0, 0), (0, 1), (1, 0), (1, 1)]

    turns = play(episodes, *[outcome(terminated=all_agents), outcome()] * 3)

    assert [starting.all() for starting, _ in turns] == [False, True] * 3
    assert [len(ended) for _, ended in turns] == [2, 0] * 3
    assert episodes.number.tolist() == [3, 3]


def test_restored_episodes_continue_from_their_state(episodes):
    play(episodes, outcome(1.0, zaps=1.0, terminated=[(0, 0)]))
    state = {name: array.copy() for name, array in episodes.state().items()}
    rest = [outcome(2.0, terminated=[(0, 1)], zaps=3.0), outcome(), outcome(4.0)]
    expected = play(episodes, *rest)

    other = Episodes(2, 2, ["zaps"])
    other.restore(state)
    actual = play(other, *rest)

    (theirs,), (ours,) = expected[0][1], actual[0][1]
    assert ours.returns.tolist() == theirs.returns.tolist() == [3, 3]
    assert ours.counts["zaps"].tolist() == theirs.counts["zaps"].tolist() == [4, 4]
    for name, array in episodes.state().items():
        np.testing.assert_array_equal(other.state()[name], array)


def test_restored_episodes_do_not_write_into_the_state_they_came_from(episodes):
    state = {name: array.copy() for name, array in episodes.state().items()}
    episodes.restore(state)

    play(episodes, outcome(1.0, terminated=[(0, 0), (0, 1)], zaps=1.0), outcome())

    assert state["live"].all()
    assert not any(state[name].any() for name in ("age", "number", "returns", "count.zaps"))

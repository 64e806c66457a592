"""The replay buffer: which transitions are usable at a boundary, and batches of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.replay.buffer import DamagedRow, slots_needed
from tests.replay.histories import (
    Replay,
    Row,
    endless,
    episode,
    histories,
    legal_in,
    many_episodes,
    stacked,
)

NO_TRANSITIONS = np.empty(0, np.int64)


def boundaries(turns):
    """Some boundaries up to the last turn, in order."""
    return st.lists(st.integers(0, turns), max_size=4).map(lambda x: [*sorted(x), turns])


def everything(reader):
    """Return all that can be sampled from a reader, as one list of arrays."""
    batch = reader.batch(reader.usable)
    return [reader.usable.copy(), reader.closes(reader.usable), *arrays_of(batch)]


def arrays_of(batch):
    parts = [*batch.seen.values(), *batch.next_seen.values()]
    rest = [batch.actions, batch.returns, batch.discounts, batch.legal, batch.next_legal]
    return [*parts, *rest]


def assert_same(arrays, expected):
    for array, other in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, other)


def opened(reader):
    """Return the turns in which usable transitions opened."""
    return reader.opening(reader.usable)[0].tolist()


# Usable transitions.


@settings(max_examples=150, deadline=None)
@given(histories(), st.integers(1, 5), st.integers(1, 60), st.data())
def test_usable_transitions_at_a_boundary_are_those_that_close_before_it(
    worlds, n_step, capacity, data
):
    replay = Replay(worlds, capacity=capacity, n_step=n_step, turns_per_round=40)
    reader = replay.reader()

    for boundary in data.draw(boundaries(replay.turns)):
        replay.write(boundary)
        reader.advance(boundary)
        assert sorted(reader.usable) == replay.usable(boundary)


def test_a_transition_is_usable_once_its_nth_next_row_is_before_the_boundary():
    replay = Replay(endless(10), n_step=3)
    replay.write(10)

    assert opened(replay.reader(3)) == []
    assert opened(replay.reader(4)) == [0]
    assert opened(replay.reader(5)) == [0, 1]


@pytest.mark.parametrize(
    "end", [(True, False), (False, True)], ids=["terminated", "truncated"]
)
def test_a_last_transition_is_usable_once_its_closing_row_is_before_the_boundary(end):
    rows = episode([(True, 1.0)] * 3, end)
    replay = Replay([rows], n_step=5)
    replay.write(4)

    assert opened(replay.reader(3)) == []
    assert opened(replay.reader(4)) == [0, 1, 2]


def test_rows_in_which_the_agent_is_out_are_never_usable():
    rows = [Row(i, i % 3 == 0) for i in range(10)]
    replay = Replay([rows])
    replay.write(10)

    assert opened(replay.reader(10)) == [0, 3, 6]


def test_an_empty_replay_has_no_usable_transitions():
    reader = Replay(endless(1)).reader()

    assert reader.advance(0).tolist() == []
    assert reader.usable.tolist() == []


def test_advancing_returns_the_transitions_that_closed_since():
    replay = Replay(endless(12), n_step=3)
    replay.write(12)
    reader = replay.reader()

    assert reader.advance(5).tolist() == [0, 1]
    assert reader.advance(5).tolist() == []
    assert reader.advance(9).tolist() == [2, 3, 4, 5]


def test_advancing_gives_a_sign_of_life_for_every_turn():
    replay = Replay(endless(12), n_step=3)
    replay.write(12)
    beats = []

    replay.reader().advance(9, lambda: beats.append(1))

    assert len(beats) == 9


def test_a_transition_that_stays_open_over_several_boundaries_closes_in_the_end():
    rows = [Row(i, i in (0, 14), 1.0) for i in range(15)]
    replay = Replay([rows], discount=0.5)
    replay.write(15)
    reader = replay.reader()

    closed = [reader.advance(boundary).tolist() for boundary in (5, 10, 14, 15)]

    assert closed == [[], [], [], [0]]
    assert reader.batch(reader.usable).returns[0] == pytest.approx(2 - 0.5**13)
    assert reader.batch(reader.usable).discounts[0] == pytest.approx(0.5**14)


def test_transitions_since_a_turn_are_those_that_closed_in_it_or_later():
    replay = Replay(endless(10), n_step=3)
    replay.write(10)
    reader = replay.reader(10)

    assert reader.closed_since(7).tolist() == [4, 5, 6]


# The window.


def test_the_window_drops_the_oldest():
    replay = Replay(endless(30), capacity=8, turns_per_round=5)
    reader = replay.reader()
    windows = {}

    for boundary in (5, 10, 15, 30):
        replay.write(boundary)
        reader.advance(boundary)
        windows[boundary] = opened(reader)

    assert windows[5] == [0, 1, 2, 3]
    assert windows[10] == [2, 3, 4, 5, 6, 7, 8]
    assert windows[15] == [7, 8, 9, 10, 11, 12, 13]
    assert windows[30] == [22, 23, 24, 25, 26, 27, 28]


@pytest.mark.parametrize(
    ("capacity", "worlds", "window"), [(8, 1, 8), (8, 2, 4), (9, 2, 5), (1, 3, 1)]
)
def test_capacity_is_shared_by_the_worlds_and_rounded_up(capacity, worlds, window):
    replay = Replay(endless(30, worlds), capacity=capacity)
    replay.write(30)

    assert replay.reader(30).oldest == 30 - window


def test_an_open_transition_that_leaves_the_window_is_forgotten():
    rows = [Row(i, i in (0, 14), 1.0) for i in range(15)]
    replay = Replay([rows], capacity=10)
    reader = replay.reader()
    for boundary in (5, 10, 15):
        replay.write(boundary)
        reader.advance(boundary)

    assert reader.usable.tolist() == []


@pytest.mark.parametrize(
    ("capacity", "worlds", "turns", "frames", "slots"),
    [(100, 4, 10, 1, 35), (101, 4, 10, 3, 38), (1, 16, 50, 5, 55)],
)
def test_there_are_slots_for_the_window_a_round_and_frames(
    capacity, worlds, turns, frames, slots
):
    assert slots_needed(capacity, worlds, turns, frames) >= slots


@pytest.mark.shows("B4")
@settings(max_examples=60, deadline=None)
@given(
    histories(max_turns=60),
    st.integers(1, 30),
    st.integers(1, 5),
    st.integers(1, 8),
    st.integers(1, 4),
)
def test_a_round_being_written_overwrites_nothing_that_the_learner_reads(
    worlds, capacity, frames, turns, n_step
):
    replay = Replay(
        worlds, capacity=capacity, frames=frames, turns_per_round=turns, n_step=n_step
    )
    reader = replay.reader()
    last = replay.turns - replay.turns % turns

    for boundary in range(0, last, turns):
        replay.write(boundary)
        reader.advance(boundary)
        before = everything(reader)
        replay.write(boundary + turns)
        assert_same(everything(reader), before)


@settings(max_examples=30, deadline=None)
@given(histories(max_turns=60), st.integers(1, 30), st.integers(1, 8))
def test_the_next_round_does_not_overwrite_rewards_however_small_the_capacity(
    worlds, capacity, turns
):
    replay = Replay(worlds, capacity=capacity, frames=1, turns_per_round=turns)
    reader = replay.reader()
    last = replay.turns - replay.turns % turns

    for boundary in range(turns, last, turns):
        replay.write(boundary)
        reader.advance(boundary)
        replay.write(boundary + turns)
        rewards = reader.rewards_since(boundary - turns)
        expected = [
            [row.reward for row in rows[boundary - turns : boundary]] for rows in worlds
        ]
        np.testing.assert_array_equal(rewards.T, expected)


# Boundary by boundary.


@pytest.mark.shows("B4")
@settings(max_examples=100, deadline=None)
@given(
    histories(max_turns=60),
    st.integers(1, 60),
    st.integers(1, 4),
    st.sampled_from(["turn", "step"]),
    st.data(),
)
def test_advancing_boundary_by_boundary_gives_the_same_as_all_at_once(
    worlds, capacity, n_step, discount_per, data
):
    """So a restarted learner samples the same transitions, in the same order."""
    replay = Replay(
        worlds,
        capacity=capacity,
        n_step=n_step,
        discount_per=discount_per,
        discount=0.9,
        turns_per_round=60,
    )
    replay.write(replay.turns)
    step_by_step = replay.reader()

    for boundary in data.draw(boundaries(replay.turns)):
        step_by_step.advance(boundary)

    assert_same(everything(step_by_step), everything(replay.reader(replay.turns)))


def test_a_transition_that_closes_late_is_sorted_in():
    long = endless(6)[0]
    short = [*episode([(True, 1.0)] * 3, (True, False)), Row(0), Row(1)]
    replay = Replay([long, short], n_step=3)
    replay.write(6)
    step_by_step, at_once = replay.reader(4), replay.reader(6)

    step_by_step.advance(6)

    assert step_by_step.usable.tolist() == at_once.usable.tolist()


# Batches.


@pytest.mark.shows("B4", "B5")
@settings(max_examples=60, deadline=None)
@given(histories(max_turns=50), st.integers(1, 40), st.integers(1, 5), st.integers(1, 4))
def test_batches_are_those_of_plain_lists(worlds, capacity, frames, n_step):
    replay = Replay(worlds, capacity=capacity, frames=frames, n_step=n_step)
    reader = replay.reader()
    count = len(worlds)

    for boundary in [*range(0, replay.turns, 5), replay.turns]:
        replay.write(boundary)
        reader.advance(boundary)
    batch = reader.batch(reader.usable)

    for i, number in enumerate(reader.usable.tolist()):
        turn, world = divmod(number, count)
        expected = replay.transition(turn, world, replay.turns)
        rows = worlds[world]
        assert batch.returns[i] == pytest.approx(expected.returns)
        assert batch.discounts[i] == pytest.approx(expected.discount)
        assert batch.actions[i] == world % 3
        assert batch.legal[i].tolist() == legal_in(turn, world)
        assert batch.next_legal[i].tolist() == legal_in(expected.closes, world)
        for seen, at in ((batch.seen, turn), (batch.next_seen, expected.closes)):
            for name, part in stacked(rows, at, world, count, frames).items():
                np.testing.assert_array_equal(seen[name][i], part)


def test_rewards_are_shaped_before_they_are_summed():
    replay = Replay(
        endless(4, reward=8.0),
        n_step=2,
        discount=0.5,
        shape_rewards=lambda rewards: np.clip(rewards, -1, 1),
    )
    replay.write(4)

    reader = replay.reader(4)

    assert reader.batch(reader.usable).returns.tolist() == [1.5, 1.5]


def test_an_empty_batch_is_a_batch():
    replay = Replay(endless(4))
    replay.write(4)

    batch = replay.reader(4).batch(NO_TRANSITIONS)

    assert batch.seen["view"].shape == (0, 3, 2, 2)
    assert batch.returns.shape == (0,)


# Sampling.


def test_every_usable_transition_is_sampled_equally_often():
    replay = Replay(many_episodes(40, worlds=2), n_step=2)
    replay.write(40)
    reader = replay.reader(40)
    count = len(reader.usable)

    uniforms = (np.arange(3 * count) + 0.5) / (3 * count)

    sampled, times = np.unique(reader.sample(uniforms), return_counts=True)
    assert sampled.tolist() == sorted(reader.usable)
    assert set(times) == {3}


@settings(max_examples=50, deadline=None)
@given(histories(), st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_only_usable_transitions_are_sampled(worlds, bits):
    replay = Replay(worlds)
    replay.write(replay.turns)
    reader = replay.reader(replay.turns)

    if len(reader.usable):
        sampled = reader.sample(np.array(bits) * 2.0**-32)
        assert set(sampled.tolist()) <= set(reader.usable.tolist())


def test_the_smallest_and_the_largest_number_sample_the_first_and_the_last():
    replay = Replay(endless(10))
    replay.write(10)
    reader = replay.reader(10)

    sampled = reader.sample(np.array([0.0, 1 - 2.0**-32]))

    assert sampled.tolist() == [0, 8]


# Damage.


@pytest.mark.shows("B12")
@settings(max_examples=60, deadline=None)
@given(st.integers(3, 9), st.integers(0, 10_000), st.integers(0, 7))
def test_a_damaged_row_is_not_learned_from(turn, byte, bit):
    replay = Replay(many_episodes(10, worlds=2))
    replay.write(10)
    reader = replay.reader(3)
    record = replay.rows.records[turn : turn + 1].view(np.uint8)

    record[byte % len(record)] ^= 1 << bit

    with pytest.raises(DamagedRow) as damaged:
        reader.advance(10)
    assert str(damaged.value) == (
        f"row {turn} of agent 'magpie' is damaged: shared memory does not hold what was "
        "written; start the run again."
    )


def test_an_overwritten_row_is_a_damaged_row():
    replay = Replay(endless(40), capacity=10, turns_per_round=5, frames=1)
    replay.write(30)  # a reader is only given boundaries up to a round before

    with pytest.raises(DamagedRow, match="row 0 of agent 'magpie'"):
        replay.reader(10)


def test_a_row_that_was_never_written_is_a_damaged_row():
    replay = Replay(endless(10))
    replay.write(4)

    with pytest.raises(DamagedRow, match="row 4 of agent 'magpie'"):
        replay.reader(5)


def test_a_damaged_row_is_found_again_the_next_time():
    replay = Replay(endless(10))
    replay.write(10)
    reader = replay.reader(3)
    replay.rows.columns["reward"][4] += 1
    with pytest.raises(DamagedRow):
        reader.advance(10)

    with pytest.raises(DamagedRow, match="row 4 "):
        reader.advance(10)

    assert reader.boundary == 3


@pytest.mark.shows("B12")
@pytest.mark.parametrize("turn", [18, 19], ids=["the stack's oldest", "its second"])
def test_a_damaged_row_under_the_windows_oldest_stack_is_not_learned_from(turn):
    """A restarted learner has not verified it when it was in the window."""
    replay = Replay(endless(30), capacity=10, frames=3)
    replay.write(30)
    replay.rows.columns["part.view"][turn % replay.slots] += 1

    with pytest.raises(DamagedRow, match=f"row {turn} "):
        replay.reader(30)


def test_damage_to_rows_that_are_no_longer_read_does_not_matter():
    replay = Replay(endless(30), capacity=10, frames=3)
    replay.write(30)
    replay.rows.columns["part.view"][17 % replay.slots] += 1

    assert len(replay.reader(30).usable) == 9

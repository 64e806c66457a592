"""N-step transitions, compared with those computed row by row, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.replay.nstep import Segment, n_step_transitions
from tests.replay.histories import Row, episode, histories, transition_at

GAMMA = 0.5
N_STEP = st.integers(1, 5)
DISCOUNT = st.sampled_from([0.0, 0.5, 0.9, 1.0])
PER_STEP = st.booleans()

pytestmark = pytest.mark.shows("D2")


def segment_of(worlds):
    columns = [
        np.array([[getattr(row, name) for row in rows] for rows in worlds]).T
        for name in ("active", "reward", "terminated", "truncated")
    ]
    active, rewards, terminated, truncated = columns
    return Segment(active, rewards.astype(np.float32), terminated, truncated)


def transition_of(rows, opens=0, n_step=1, discount=GAMMA, per_step=False):
    """Return where a transition closes, its return and its discount."""
    transitions = n_step_transitions(segment_of([rows]), n_step, discount, per_step)
    columns = (transitions.closes, transitions.returns, transitions.discounts)
    return tuple(column[opens, 0].item() for column in columns)


def closes_at(rows, opens=0, n_step=1):
    return transition_of(rows, opens, n_step)[0]


# Row by row.


@settings(max_examples=150, deadline=None)
@given(histories(), N_STEP, DISCOUNT)
def test_transitions_are_those_computed_row_by_row(worlds, n_step, discount):
    compare(worlds, n_step, discount, per_step=False)


@settings(max_examples=150, deadline=None)
@given(histories(), N_STEP, DISCOUNT)
def test_transitions_are_those_computed_row_by_row_with_discounts_per_step(
    worlds, n_step, discount
):
    compare(worlds, n_step, discount, per_step=True)


def compare(worlds, n_step, discount, per_step):
    transitions = n_step_transitions(segment_of(worlds), n_step, discount, per_step)

    for world, rows in enumerate(worlds):
        for turn in range(len(rows)):
            expected = transition_at(rows, turn, n_step, discount, per_step)
            closes = transitions.closes[turn, world]
            if expected is None:
                assert closes == len(rows), f"turn {turn} of world {world} is not closed"
                continue
            computed = [array[turn, world] for array in vars(transitions).values()]
            np.testing.assert_allclose(computed, expected, 1e-6, 1e-6, err_msg=f"{turn}")


@settings(max_examples=100, deadline=None)
@given(histories(), N_STEP, PER_STEP)
def test_worlds_do_not_affect_each_other(worlds, n_step, per_step):
    together = n_step_transitions(segment_of(worlds), n_step, 0.9, per_step)

    for world, rows in enumerate(worlds):
        alone = n_step_transitions(segment_of([rows]), n_step, 0.9, per_step)
        np.testing.assert_array_equal(together.closes[:, world], alone.closes[:, 0])
        np.testing.assert_array_equal(together.returns[:, world], alone.returns[:, 0])
        np.testing.assert_array_equal(together.discounts[:, world], alone.discounts[:, 0])


@settings(max_examples=100, deadline=None)
@given(histories(max_worlds=1), N_STEP, PER_STEP, st.data())
def test_a_transition_is_the_same_bits_wherever_the_segment_begins(
    worlds, n_step, per_step, data
):
    (rows,) = worlds
    first = data.draw(st.integers(0, len(rows) - 1))

    whole = n_step_transitions(segment_of([rows]), n_step, 0.9, per_step)
    part = n_step_transitions(segment_of([rows[first:]]), n_step, 0.9, per_step)

    closed = part.closes[:, 0] < len(rows) - first
    np.testing.assert_array_equal(part.closes[:, 0] + first, whole.closes[first:, 0])
    for name in ("returns", "discounts"):
        ours, theirs = getattr(part, name)[:, 0], getattr(whole, name)[first:, 0]
        np.testing.assert_array_equal(ours[closed], theirs[closed])


# By hand.


def test_a_transition_closes_at_the_next_active_row():
    rows = [Row(0, True, 1.0), Row(1, False, 4.0), Row(2, True, 16.0)]

    assert transition_of(rows) == (2, 1 + 4 * 0.5, 0.25)


def test_a_3_step_transition_sums_three_rewards():
    rows = [Row(i, True, reward) for i, reward in enumerate([1.0, 2.0, 4.0, 8.0])]

    assert transition_of(rows, n_step=3) == (3, 1 + 1 + 1, 0.125)


def test_an_agent_that_is_out_for_25_turns_bootstraps_at_the_28th_turn():
    turns = [0, 26, 27, 28]  # active at t, out from t+1 to t+25, n = 3
    rows = [Row(i, i in turns, 1.0) for i in range(29)]

    closes, returns, discount = transition_of(rows, n_step=3, discount=0.9)

    assert closes == 28
    assert discount == pytest.approx(0.9**28)
    assert returns == pytest.approx(sum(0.9**i for i in range(28)))


def test_an_agent_that_is_out_for_25_turns_discounts_its_own_3_steps():
    turns = [0, 26, 27, 28]
    rows = [Row(i, i in turns, 1.0) for i in range(29)]

    closes, returns, discount = transition_of(rows, n_step=3, discount=0.9, per_step=True)

    assert closes == 28
    assert discount == pytest.approx(0.9**3)
    assert returns == pytest.approx(26 + 0.9 + 0.9**2)  # its first step takes 26 turns


def test_a_transition_that_has_not_closed_closes_past_the_end():
    rows = [Row(0, True), Row(1, True), Row(2, False)]

    assert closes_at(rows, opens=1) == 3


def test_no_transition_opens_where_the_agent_is_not_active():
    rows = [Row(0, False), Row(1, True)]

    assert closes_at(rows) == 2


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_sums_stop_at_terminated(n_step):
    rows = episode([(True, 1.0)], (True, False)) + episode(
        [(True, 64.0)] * 5, (False, True)
    )

    assert transition_of(rows, n_step=n_step) == (1, 1.0, 0.0)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
def test_the_closing_row_bootstraps_at_truncated(n_step):
    rows = episode([(True, 1.0)], (False, True)) + episode(
        [(True, 64.0)] * 5, (False, True)
    )

    assert transition_of(rows, n_step=n_step) == (1, 1.0, 0.5)


def test_the_closing_row_bootstraps_at_truncated_after_fewer_than_n_steps():
    rows = episode([(True, 1.0), (True, 2.0)], (False, True))

    assert transition_of(rows, n_step=5) == (2, 1 + 2 * 0.5, 0.25)


def test_the_closing_row_counts_as_a_step_of_the_agent():
    rows = episode([(True, 1.0), (False, 4.0), (True, 2.0), (False, 8.0)], (False, True))

    transition = transition_of(rows, n_step=5, per_step=True)

    assert transition == (4, 1 + 4 + 2 * 0.5 + 8 * 0.5, 0.25)  # two steps: γ²


def test_terminated_prevails_if_both_are_set():
    rows = episode([(True, 1.0)], (True, True))

    assert transition_of(rows) == (1, 1.0, 0.0)


def test_an_end_while_out_closes_the_transition_before():
    rows = episode([(True, 1.0), (False, 2.0), (False, 4.0)], (False, True))

    assert transition_of(rows) == (3, 1 + 1 + 1, 0.125)


def test_the_closing_row_of_an_agent_that_ends_before_its_world_is_its_next_row():
    rows = episode([(True, 1.0), (True, 2.0)], (False, True), after=7)

    assert transition_of(rows, opens=1) == (2, 2.0, 0.5)


def test_a_transition_that_ends_in_the_last_row_is_not_closed_yet():
    rows = episode([(True, 1.0)], (True, False))[:1]

    assert closes_at(rows) == 1


def test_the_next_episode_does_not_close_a_transition_of_this_one():
    rows = [*episode([(True, 1.0)], (False, True)), Row(0, True, 64.0)]

    assert transition_of(rows) == (1, 1.0, 0.5)
    assert closes_at(rows, opens=2) == 3


def test_a_discount_of_0_keeps_only_the_first_reward():
    rows = [Row(i, True, 3.0) for i in range(4)]

    assert transition_of(rows, n_step=3, discount=0.0) == (3, 3.0, 0.0)

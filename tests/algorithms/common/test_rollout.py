"""The rollout of on-policy learners: advantages, layout, minibatches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.algorithms.base import Agent
from rookery.algorithms.common.rollout import Rollout, advantages_of, successors_of
from rookery.algorithms.nets.layers import Features
from rookery.config.agent import AgentSettings
from tests.replay.histories import SPEC, Replay, histories, legal_in, many_episodes, stacked

FRAMES = 2
FEATURES = Features(SPEC, FRAMES)
AGENTS = [Agent(i, SPEC, AgentSettings(frames=FRAMES)) for i in range(2)]


def slow_advantages(opens, closes, worlds, errors, decays):
    """Add up, for each transition, the errors of all that follow it, one by one."""
    advantages = []
    for start in range(len(opens)):
        total, share, current = 0.0, 1.0, start
        while current is not None:
            total += share * errors[current]
            share *= decays[current]
            following = [
                i
                for i in range(len(opens))
                if opens[i] == closes[current] and worlds[i] == worlds[current]
            ]
            current = following[0] if following else None
        advantages.append(total)
    return advantages


def fast_advantages(opens, closes, worlds, errors, decays):
    return advantages_of(successors_of(opens, closes, worlds), errors, decays)


def rollout_of(replay, boundary, slots=100, agent=0, first=0, most=None):
    """Return a rollout with the transitions of one agent that closed since a turn."""
    reader = replay.reader(boundary)
    transitions = np.sort(reader.closed_since(first))[:most]
    per_agent = [transitions if i == agent else transitions[:0] for i in range(2)]
    rollout = Rollout(FEATURES, AGENTS, [reader, reader], per_agent, slots)
    return rollout, reader, transitions


@pytest.fixture
def replay():
    replay = Replay(many_episodes(20, worlds=2), frames=FRAMES)
    replay.write(20)
    return replay


# Advantages.


def test_advantages_of_an_unbroken_world_are_sums_of_decayed_errors():
    errors = np.array([1.0, 2.0, 4.0], np.float32)
    turns = np.arange(3)

    result = fast_advantages(turns, turns + 1, np.zeros(3, int), errors, np.full(3, 0.5))

    assert result.tolist() == [1 + 2 * 0.5 + 4 * 0.25, 2 + 4 * 0.5, 4]
    assert result.dtype == np.float32


def test_each_world_has_its_own_advantages_however_they_are_interleaved():
    opens, worlds = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
    errors = np.array([1.0, 100.0, 2.0, 200.0, 4.0, 400.0])

    result = fast_advantages(opens, opens + 1, worlds, errors, np.full(6, 0.5))

    assert result.tolist() == [3, 300, 4, 400, 4, 400]


def test_an_advantage_does_not_reach_past_an_end():
    opens = np.array([0, 2])  # the first closes at row 1, where the agent does not act

    result = fast_advantages(
        opens, np.array([1, 3]), np.zeros(2, int), np.array([1.0, 8.0]), np.ones(2)
    )

    assert result.tolist() == [1, 8]


def test_an_advantage_continues_over_turns_in_which_the_agent_was_out():
    opens, closes = np.array([0, 26]), np.array([26, 27])

    result = fast_advantages(
        opens, closes, np.zeros(2, int), np.array([1.0, 8.0]), np.array([0.5, 0.5])
    )

    assert result.tolist() == [5, 8]


def test_nothing_is_added_after_termination():
    turns = np.arange(2)

    result = fast_advantages(
        turns, turns + 1, np.zeros(2, int), np.array([1.0, 8.0]), np.array([0.0, 0.5])
    )

    assert result.tolist() == [1, 8]


def test_without_transitions_there_are_no_advantages():
    none = np.empty(0, np.int64)

    assert fast_advantages(none, none, none, none, none).shape == (0,)


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 2**31), st.floats(0, 1), st.integers(0, 20))
def test_advantages_are_those_of_adding_up_one_by_one(worlds, seed, gae, first):
    replay = Replay(worlds, frames=1, discount=0.9)
    replay.write(replay.turns)
    reader = replay.reader(replay.turns)
    transitions = np.sort(reader.closed_since(first))
    turns, places = reader.opening(transitions)
    closes, batch = reader.closes(transitions), reader.batch(transitions)
    errors = np.random.default_rng(seed).normal(size=len(turns)).astype(np.float32)

    result = fast_advantages(turns, closes, places, errors, batch.discounts * gae)

    expected = slow_advantages(turns, closes, places, errors, batch.discounts * gae)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def plain_successors(opens, closes, worlds):
    """Look every closing row up among the opening ones."""
    indices = {row: i for i, row in enumerate(zip(opens, worlds, strict=True))}
    return [indices.get(row, -1) for row in zip(closes, worlds, strict=True)]


def plain_recursion(successors, errors, decays):
    """Add up errors from the last transition to the first, in double precision."""
    advantages = [float(error) for error in errors]
    for i in reversed(range(len(errors))):
        if successors[i] >= 0:
            advantages[i] += float(decays[i]) * advantages[successors[i]]
    return np.array(advantages, np.float32)


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 2**31), st.integers(0, 20))
def test_advantages_have_the_bits_of_plain_loops(worlds, seed, first):
    replay = Replay(worlds, frames=1, discount=0.9)
    replay.write(replay.turns)
    reader = replay.reader(replay.turns)
    transitions = np.sort(reader.closed_since(first))
    opens, places = reader.opening(transitions)
    closes = reader.closes(transitions)
    errors, decays = np.random.default_rng(seed).normal(size=(2, len(opens)))
    errors, decays = errors.astype(np.float32), decays.astype(np.float32)

    successors = successors_of(opens, closes, places)
    advantages = advantages_of(successors, errors, decays)

    expected = plain_successors(opens.tolist(), closes.tolist(), places.tolist())
    assert successors.tolist() == expected
    assert advantages.tobytes() == plain_recursion(expected, errors, decays).tobytes()


# Layout.


def test_transitions_are_in_the_order_they_opened_and_other_slots_have_weight_0(replay):
    rollout, reader, transitions = rollout_of(replay, 20, agent=1)
    batch = reader.batch(transitions)
    count = len(transitions)

    assert 0 < count < 100
    assert rollout.weights[1].tolist() == [1.0] * count + [0.0] * (100 - count)
    np.testing.assert_array_equal(rollout.rewards[1, :count], batch.returns)
    np.testing.assert_array_equal(rollout.discounts[1, :count], batch.discounts)
    np.testing.assert_array_equal(rollout.actions[1, :count], batch.actions)


def test_one_agents_transitions_leave_the_others_slots_empty(replay):
    rollout, _, _ = rollout_of(replay, 20, agent=1)

    assert not rollout.weights[0].any()
    assert not rollout.inputs[0].any()


@pytest.mark.shows("B6")
def test_inputs_are_the_observations_where_transitions_open_and_close(replay):
    rollout, reader, transitions = rollout_of(replay, 20)
    closes = reader.closes(transitions)

    for i, (turn, world) in enumerate(zip(*reader.opening(transitions), strict=True)):
        rows = replay.worlds[world]
        for inputs, at in ((rollout.inputs, turn), (rollout.next_inputs, closes[i])):
            parts = stacked(rows, at, world, 2, FRAMES)
            flat = np.concatenate([parts[name].ravel() for name in SPEC.parts])
            np.testing.assert_array_equal(inputs[0, i, : len(flat)], flat)
            assert not inputs[0, i, len(flat) :].any()


def test_probabilities_and_legal_actions_are_those_of_the_opening_row(replay):
    rollout, reader, transitions = rollout_of(replay, 20)
    count = len(transitions)
    opened = zip(*reader.opening(transitions), strict=True)

    np.testing.assert_allclose(rollout.old_log_probs[0, :count], np.log(0.25), rtol=1e-6)
    expected = [legal_in(turn, world) for turn, world in opened]
    assert rollout.legal[0, :count].tolist() == expected
    assert rollout.legal[0, count:].all()


def test_transitions_are_those_that_close_in_the_round_wherever_they_opened(replay):
    _, reader, transitions = rollout_of(replay, 20, first=15)
    closes = reader.closes(transitions)

    expected = [
        step
        for step in replay.usable(20)
        if replay.transition(step // 2, step % 2, 20).closes >= 15
    ]
    assert transitions.tolist() == expected
    assert min(closes) >= 15
    assert min(reader.opening(transitions)[0]) < 15


# Values.


def test_returns_are_values_plus_advantages_and_advantages_are_standardised(replay):
    rollout, reader, transitions = rollout_of(replay, 20)
    count = len(transitions)
    values, next_values = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)

    rollout.estimate_advantages(0, values, next_values, 0.9)

    rewards, discounts = rollout.rewards[0, :count], rollout.discounts[0, :count]
    errors = rewards + discounts * next_values[:count] - values[:count]
    turns, worlds = reader.opening(transitions)
    raw = np.array(
        slow_advantages(turns, reader.closes(transitions), worlds, errors, discounts * 0.9)
    )
    result = rollout.advantages[0, :count]
    np.testing.assert_allclose(rollout.returns[0, :count], values[:count] + raw, 1e-5)
    np.testing.assert_allclose(result, (raw - raw.mean()) / raw.std(), 1e-4, 1e-5)
    assert result.mean() == pytest.approx(0, abs=1e-6)
    assert result.std() == pytest.approx(1, rel=1e-4)
    assert not rollout.returns[0, count:].any()


def test_with_lambda_0_returns_look_one_transition_ahead(replay):
    rollout, reader, transitions = rollout_of(replay, 20)
    count = len(transitions)
    values, next_values = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)

    rollout.estimate_advantages(0, values, next_values, 0.0)

    batch = reader.batch(transitions)
    expected = batch.returns + batch.discounts * next_values[:count]
    np.testing.assert_allclose(rollout.returns[0, :count], expected, 1e-5, 1e-6)


def test_an_agent_without_transitions_is_left_out():
    replay = Replay(many_episodes(4), frames=FRAMES)
    rollout, _, _ = rollout_of(replay, 0)
    values = np.ones(100, np.float32)

    rollout.estimate_advantages(0, values, values, 0.9)

    assert not rollout.advantages.any()
    assert not rollout.returns.any()


def test_a_single_transition_has_no_advantage_over_others(replay):
    rollout, _, _ = rollout_of(replay, 20, most=1)
    values = np.ones(100, np.float32)

    rollout.estimate_advantages(0, values, values, 0.9)

    assert rollout.advantages[0, 0] == 0


# Minibatches.


def test_a_minibatch_has_a_fixed_shape_and_unused_slots_have_weight_0(replay):
    rollout, _, transitions = rollout_of(replay, 20)
    slots = np.array([[0, 1, 99, 0], [0, 1, 2, 0]])
    unused = np.array([False, False, False, True])

    minibatch = rollout.minibatch(slots, unused)

    assert len(transitions) > 2
    assert minibatch.weights.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert minibatch.inputs.shape == (2, 4, FEATURES.padded)
    assert minibatch.legal.shape == (2, 4, 3)
    np.testing.assert_array_equal(minibatch.inputs[0, 1], rollout.inputs[0, 1])
    np.testing.assert_array_equal(minibatch.actions[0, :2], rollout.actions[0, :2])

"""Experience of on-policy learners: advantages, and how steps are laid out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.algorithms.base import Agent
from rookery.algorithms.common.rollout import Experience, advantages_of
from rookery.algorithms.nets.layers import Features
from rookery.config.agent import AgentSettings
from tests.replay.histories import SPEC, Replay, histories, legal_in, many_episodes, stacked

FRAMES = 2
FEATURES = Features(SPEC, FRAMES)
AGENTS = [Agent(i, SPEC, AgentSettings(frames=FRAMES)) for i in range(2)]


def slow_advantages(opens, closes, worlds, errors, decays):
    """Add up, for each step, the errors of all that follow it, one by one."""
    found = []
    for start in range(len(opens)):
        total, share, here = 0.0, 1.0, start
        while here is not None:
            total += share * errors[here]
            share *= decays[here]
            followers = [
                i
                for i in range(len(opens))
                if opens[i] == closes[here] and worlds[i] == worlds[here]
            ]
            here = followers[0] if followers else None
        found.append(total)
    return found


def laid(replay, boundary, places=100, agent=0, first=0):
    """Return experience with one agent's steps that closed since a turn in it."""
    reader = replay.reader(boundary)
    steps = np.sort(reader.closed_since(first))
    experience = Experience.empty(FEATURES, AGENTS, places)
    experience.lay(agent, FEATURES, reader, steps, reader.batch(steps))
    return experience, reader, steps


@pytest.fixture
def replay():
    made = Replay(many_episodes(20, worlds=2), frames=FRAMES)
    made.write(20)
    return made


# Advantages.


def test_advantages_of_an_unbroken_world_are_sums_of_decayed_errors():
    errors = np.array([1.0, 2.0, 4.0], np.float32)
    turns = np.arange(3)

    found = advantages_of(turns, turns + 1, np.zeros(3, int), errors, np.full(3, 0.5))

    assert found.tolist() == [1 + 2 * 0.5 + 4 * 0.25, 2 + 4 * 0.5, 4]
    assert found.dtype == np.float32


def test_each_world_has_its_own_advantages_however_they_are_interleaved():
    opens, worlds = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
    errors = np.array([1.0, 100.0, 2.0, 200.0, 4.0, 400.0])

    found = advantages_of(opens, opens + 1, worlds, errors, np.full(6, 0.5))

    assert found.tolist() == [3, 300, 4, 400, 4, 400]


def test_an_advantage_does_not_go_past_an_end():
    opens = np.array([0, 2])  # the first closes at row 1, where nobody acts

    found = advantages_of(
        opens, np.array([1, 3]), np.zeros(2, int), np.array([1.0, 8.0]), np.ones(2)
    )

    assert found.tolist() == [1, 8]


def test_an_advantage_goes_on_over_turns_in_which_the_agent_was_out():
    opens, closes = np.array([0, 26]), np.array([26, 27])

    found = advantages_of(
        opens, closes, np.zeros(2, int), np.array([1.0, 8.0]), np.array([0.5, 0.5])
    )

    assert found.tolist() == [5, 8]


def test_no_decay_counts_after_terminated():
    turns = np.arange(2)

    found = advantages_of(
        turns, turns + 1, np.zeros(2, int), np.array([1.0, 8.0]), np.array([0.0, 0.5])
    )

    assert found.tolist() == [1, 8]


def test_no_steps_have_no_advantages():
    none = np.empty(0, np.int64)

    assert advantages_of(none, none, none, none, none).shape == (0,)


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 2**31), st.floats(0, 1), st.integers(0, 20))
def test_advantages_are_those_of_adding_up_one_by_one(worlds, seed, gae, first):
    replay = Replay(worlds, frames=1, discount=0.9)
    replay.write(replay.turns)
    reader = replay.reader(replay.turns)
    steps = np.sort(reader.closed_since(first))
    turns, places = reader.opening(steps)
    closes, batch = reader.closes(steps), reader.batch(steps)
    errors = np.random.default_rng(seed).normal(size=len(steps)).astype(np.float32)

    found = advantages_of(turns, closes, places, errors, batch.discounts * gae)

    wanted = slow_advantages(turns, closes, places, errors, batch.discounts * gae)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# Layout.


def test_steps_lie_in_the_order_they_opened_and_the_rest_weighs_nothing(replay):
    experience, reader, steps = laid(replay, 20, agent=1)
    batch = reader.batch(steps)
    count = len(steps)

    assert 0 < count < 100
    assert experience.weights[1].tolist() == [1.0] * count + [0.0] * (100 - count)
    np.testing.assert_array_equal(experience.returns[1, :count], batch.returns)
    np.testing.assert_array_equal(experience.discounts[1, :count], batch.discounts)
    np.testing.assert_array_equal(experience.actions[1, :count], batch.actions)


def test_one_agents_steps_leave_the_others_places_empty(replay):
    experience, _, _ = laid(replay, 20, agent=1)

    assert not experience.weights[0].any()
    assert not experience.inputs[0].any()


@pytest.mark.shows("B6")
def test_inputs_are_what_was_seen_where_steps_opened_and_closed(replay):
    experience, reader, steps = laid(replay, 20)
    closes = reader.closes(steps)

    for i, (turn, world) in enumerate(zip(*reader.opening(steps), strict=True)):
        rows = replay.worlds[world]
        for inputs, at in ((experience.inputs, turn), (experience.next_inputs, closes[i])):
            parts = stacked(rows, at, world, 2, FRAMES)
            flat = np.concatenate([parts[name].ravel() for name in SPEC.parts])
            np.testing.assert_array_equal(inputs[0, i, : len(flat)], flat)
            assert not inputs[0, i, len(flat) :].any()


def test_probabilities_and_legal_actions_are_those_of_the_opening_row(replay):
    experience, reader, steps = laid(replay, 20)
    count = len(steps)
    opened = zip(*reader.opening(steps), strict=True)

    np.testing.assert_allclose(experience.old_logs[0, :count], np.log(0.25), rtol=1e-6)
    wanted = [legal_in(turn, world) for turn, world in opened]
    assert experience.legal[0, :count].tolist() == wanted
    assert experience.legal[0, count:].all()


def test_steps_are_those_that_close_in_the_round_wherever_they_opened(replay):
    _, reader, steps = laid(replay, 20, first=15)
    closes = reader.closes(steps)

    every = [
        step
        for step in replay.usable(20)
        if replay.transition(step // 2, step % 2, 20).closes >= 15
    ]
    assert steps.tolist() == every
    assert min(closes) >= 15
    assert min(reader.opening(steps)[0]) < 15


# Values.


def test_targets_are_values_plus_advantages_and_advantages_are_standardised(replay):
    experience, reader, steps = laid(replay, 20)
    count = len(steps)
    values, after = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)

    experience.value(0, reader, steps, values, after, gae=0.9)

    returns, discounts = experience.returns[0, :count], experience.discounts[0, :count]
    errors = returns + discounts * after[:count] - values[:count]
    turns, worlds = reader.opening(steps)
    raw = np.array(
        slow_advantages(turns, reader.closes(steps), worlds, errors, discounts * 0.9)
    )
    found = experience.advantages[0, :count]
    np.testing.assert_allclose(experience.targets[0, :count], values[:count] + raw, 1e-5)
    np.testing.assert_allclose(found, (raw - raw.mean()) / raw.std(), 1e-4, 1e-5)
    assert found.mean() == pytest.approx(0, abs=1e-6)
    assert found.std() == pytest.approx(1, rel=1e-4)
    assert not experience.targets[0, count:].any()


def test_with_a_gae_of_nothing_targets_look_one_step_ahead(replay):
    experience, reader, steps = laid(replay, 20)
    count = len(steps)
    values, after = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)

    experience.value(0, reader, steps, values, after, gae=0.0)

    batch = reader.batch(steps)
    wanted = batch.returns + batch.discounts * after[:count]
    np.testing.assert_allclose(experience.targets[0, :count], wanted, 1e-5, 1e-6)


def test_an_agent_without_steps_is_left_out():
    replay = Replay(many_episodes(4), frames=FRAMES)
    experience, reader, _ = laid(replay, 0)
    values = np.ones(100, np.float32)

    experience.value(0, reader, np.empty(0, np.int64), values, values, gae=0.9)

    assert not experience.advantages.any()
    assert not experience.targets.any()


def test_a_single_step_has_no_advantage_over_others(replay):
    experience, reader, steps = laid(replay, 20)
    values = np.ones(100, np.float32)

    experience.value(0, reader, steps[:1], values, values, gae=0.9)

    assert experience.advantages[0, 0] == 0


# Minibatches.


def test_a_minibatch_has_a_fixed_shape_and_spare_places_weigh_nothing(replay):
    experience, _, steps = laid(replay, 20)
    chosen = np.array([[0, 1, 99, 0], [0, 1, 2, 0]])
    spare = np.array([False, False, False, True])

    part = experience.part(chosen, spare)

    assert len(steps) > 2
    assert part.weights.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert part.inputs.shape == (2, 4, FEATURES.padded)
    assert part.legal.shape == (2, 4, 3)
    np.testing.assert_array_equal(part.inputs[0, 1], experience.inputs[0, 1])
    np.testing.assert_array_equal(part.actions[0, :2], experience.actions[0, :2])

"""Prioritised replay: a tree of sums, draws in proportion, and what leaves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.config.agent import ReplayConfig
from rookery.replay.priorities import SMALLEST, Priorities
from tests.replay.histories import Replay, endless, histories, many_episodes

ONE_BELOW_ONE = 1 - 2.0**-32  # the largest number a stream gives

pytestmark = pytest.mark.shows("B13")


@dataclass
class Shelf:
    """As much of a reader as a tree needs: every step from 0 on is usable."""

    slots: int
    worlds: int = 1
    usable: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def rows(self):
        return SimpleNamespace(slots=self.slots)

    @property
    def boundary(self):
        return self.slots

    def opening(self, steps):
        return np.divmod(steps, self.worlds)


def tree_of(weights, exponent=1.0, correction=0.4):
    """Return a tree in which steps 0, 1, 2, … weigh this much."""
    shelf = Shelf(len(weights), usable=np.flatnonzero(weights))
    tree = Priorities(ReplayConfig(exponent=exponent, correction=correction), shelf)
    tree.load(np.array(weights, float), max([1.0, *weights]))
    return tree


def assert_sums(tree):
    nodes = tree._tree
    children = nodes[2:].reshape(-1, 2)
    np.testing.assert_array_equal(nodes[1:-1][: len(children)], children.sum(axis=1))


def taken_in(replay, boundaries, exponent=0.6):
    """Return a reader and its tree after some borders."""
    reader = replay.reader()
    tree = Priorities(ReplayConfig(exponent=exponent), reader)
    for boundary in boundaries:
        replay.write(boundary)
        tree.take_in(reader.advance(boundary))
    return reader, tree


def places(reader, steps):
    turns, worlds = reader.opening(np.asarray(steps))
    return (turns % reader.rows.slots) * reader.worlds + worlds


def weights_by_step(reader, tree):
    """Return what each usable step weighs, and what all other places weigh together."""
    at = places(reader, reader.usable)
    others = np.delete(tree.leaves, at)
    return dict(zip(reader.usable.tolist(), tree.leaves[at], strict=True)), others


# The tree.


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 40),
    st.lists(st.lists(st.tuples(st.integers(0, 39), st.floats(0, 1e6)), min_size=1)),
)
def test_an_inner_node_is_the_sum_of_its_children_after_any_updates(slots, rounds):
    tree = Priorities(ReplayConfig(), Shelf(slots))

    for updates in rounds:
        steps, errors = zip(*updates, strict=True)
        tree.update(np.array(steps) % slots, np.array(errors))
        assert_sums(tree)


@settings(max_examples=50, deadline=None)
@given(histories(max_turns=60), st.integers(1, 40), st.data())
def test_an_inner_node_is_the_sum_of_its_children_through_any_rounds(
    worlds, capacity, data
):
    replay = Replay(worlds, capacity=capacity, n_step=2)
    reader = replay.reader()
    tree = Priorities(ReplayConfig(), reader)

    for boundary in range(0, replay.turns, 5):
        replay.write(boundary)
        tree.take_in(reader.advance(boundary))
        if len(reader.usable):
            some = data.draw(st.lists(st.sampled_from(reader.usable.tolist()), min_size=1))
            tree.update(np.array(some), np.arange(len(some)))
        assert_sums(tree)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_loaded_leaves_make_the_same_tree_as_the_one_they_came_from(errors):
    shelf = Shelf(len(errors))
    grown = Priorities(ReplayConfig(), shelf)
    for step, error in enumerate(errors):
        grown.update(np.array([step]), np.array([error]))

    loaded = Priorities(ReplayConfig(), shelf)
    loaded.load(grown.leaves, grown.largest)

    np.testing.assert_array_equal(loaded._tree, grown._tree)
    assert loaded.largest == grown.largest


def test_a_tree_after_loading_draws_the_same_and_goes_on_the_same():
    replay = Replay(many_episodes(40, worlds=3), capacity=60, n_step=2)
    reader, tree = taken_in(replay, [5, 10, 15, 20])
    tree.update(reader.usable[::2], np.arange(len(reader.usable[::2])) / 7)
    numbers = np.random.default_rng(1).random(200)

    fresh = replay.reader(20)  # a learner that starts anew from a published state
    other = Priorities(ReplayConfig(), fresh)
    other.load(tree.leaves.copy(), tree.largest)

    for one, another in zip(tree.draw(numbers), other.draw(numbers), strict=True):
        np.testing.assert_array_equal(one, another)
    replay.write(25)
    tree.take_in(reader.advance(25))
    other.take_in(fresh.take_in(25))
    np.testing.assert_array_equal(tree._tree, other._tree)


def test_a_first_state_of_one_zero_stands_for_all_leaves():
    tree = Priorities(ReplayConfig(), Shelf(5))
    tree.update(np.arange(5), np.ones(5))

    tree.load(np.zeros(1), 1.0)

    assert tree.leaves.tolist() == [0.0] * 5
    assert_sums(tree)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5, 8, 9])
def test_there_is_a_leaf_for_every_place(slots):
    tree = Priorities(ReplayConfig(), Shelf(slots, worlds=3))

    assert tree.leaves.shape == (slots * 3,)


# Draws.


def test_steps_are_drawn_in_proportion():
    tree = tree_of([1.0, 0.0, 3.0, 4.0, 2.0])
    numbers = (np.arange(100) + 0.5) / 100

    steps, _ = tree.draw(numbers)

    assert np.bincount(steps, minlength=5).tolist() == [10, 0, 30, 40, 20]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=33).filter(
        any
    ),
    st.lists(st.integers(0, 2**32 - 1), max_size=20),
)
def test_the_step_drawn_is_the_first_whose_running_sum_passes_the_number(weights, bits):
    tree = tree_of(weights)
    numbers = np.array([0, 2**32 - 1, *bits]) * 2.0**-32

    steps, _ = tree.draw(numbers)

    sums = np.cumsum(weights)
    wanted = numbers * sums[-1]
    slack = 1e-9 * sums[-1]
    assert all(weights[step] > 0 for step in steps)
    assert (sums[steps] >= wanted - slack).all()
    assert (sums[steps] - np.array(weights)[steps] <= wanted + slack).all()


@pytest.mark.parametrize("number", [0.0, 0.5, ONE_BELOW_ONE])
def test_what_weighs_nothing_is_never_drawn(number):
    tree = tree_of([0.0, 0.0, 0.0, 5.0, 0.0])

    steps, _ = tree.draw(np.full(3, number))

    assert steps.tolist() == [3, 3, 3]


def test_draws_only_ever_give_usable_steps():
    replay = Replay(many_episodes(60, worlds=3), capacity=40, n_step=3)
    reader, tree = taken_in(replay, range(5, 61, 5))

    steps, weights = tree.draw(np.linspace(0, ONE_BELOW_ONE, 1000))

    assert set(steps.tolist()) == set(reader.usable.tolist())
    assert np.isfinite(weights).all()


def test_importance_weights_undo_the_chance_of_being_drawn():
    tree = tree_of([1.0, 3.0, 4.0], correction=0.5)

    steps, weights = tree.draw(np.array([0.0, 0.2, 0.9]))

    assert steps.tolist() == [0, 1, 2]
    by_hand = (3 * np.array([1, 3, 4]) / 8) ** -0.5  # (usable steps × chance) ** -β
    np.testing.assert_allclose(weights, by_hand / by_hand[0], rtol=1e-6)


def test_the_largest_importance_weight_in_a_batch_is_one():
    tree = tree_of([1.0, 3.0, 4.0])

    _, weights = tree.draw(np.array([0.9, 0.9, 0.2]))

    assert weights.max() == 1.0
    assert weights.dtype == np.float32


@pytest.mark.parametrize(
    ("correction", "expected"), [(0.0, [1.0, 1.0]), (1.0, [1.0, 0.25])]
)
def test_a_correction_of_0_undoes_nothing_and_of_1_everything(correction, expected):
    tree = tree_of([1.0, 4.0], correction=correction)

    _, weights = tree.draw(np.array([0.0, 0.9]))

    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_without_differences_draws_are_those_of_a_uniform_replay():
    replay = Replay(endless(40), capacity=1000)
    reader, tree = taken_in(replay, [20, 40])
    numbers = (np.arange(390) + 0.5) / 390

    steps, weights = tree.draw(numbers)

    assert steps.tolist() == reader.sample(numbers).tolist()
    assert weights.tolist() == [1.0] * 390


# Weights.


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_a_step_weighs_its_error_to_the_exponent(exponent):
    tree = Priorities(ReplayConfig(exponent=exponent), Shelf(4))

    tree.update(np.array([0, 1, 3]), np.array([0.0, -2.0, 5.0], np.float32))

    wanted = [SMALLEST**exponent, (2 + SMALLEST) ** exponent, 0, (5 + SMALLEST) ** exponent]
    np.testing.assert_allclose(tree.leaves, wanted, rtol=1e-6)


def test_a_step_drawn_twice_weighs_its_last_error():
    tree = Priorities(ReplayConfig(exponent=1.0), Shelf(4))

    tree.update(np.array([2, 1, 2]), np.array([9.0, 1.0, 4.0]))

    np.testing.assert_allclose(tree.leaves, [0, 1 + SMALLEST, 4 + SMALLEST, 0])
    assert tree.largest == pytest.approx(9 + SMALLEST)


def test_a_step_without_error_can_still_be_drawn():
    tree = Priorities(ReplayConfig(), Shelf(1))

    tree.update(np.array([0]), np.zeros(1))

    assert tree.leaves[0] > 0


def test_an_error_that_is_no_number_changes_no_weight():
    """Its agent is stopped, and publishes its last good state."""
    tree = Priorities(ReplayConfig(exponent=1.0), Shelf(4))
    tree.update(np.arange(3), np.array([1.0, 2.0, 4.0]))
    before = tree._tree.copy()

    tree.update(np.array([0, 2]), np.array([np.nan, np.inf]))

    np.testing.assert_array_equal(tree._tree, before)
    assert tree.largest == pytest.approx(4 + SMALLEST)


# Rounds.


def test_new_steps_get_the_largest_weight_so_far():
    replay = Replay(endless(20))
    reader, tree = taken_in(replay, [10], exponent=1.0)
    tree.update(np.array([3, 4]), np.array([7.0, 0.5]))
    tree.update(np.array([3]), np.array([0.25]))  # the largest stays what it was

    replay.write(20)
    tree.take_in(reader.advance(20))

    weights, _ = weights_by_step(reader, tree)
    assert weights[3] == pytest.approx(0.25 + SMALLEST)
    assert {weights[step] for step in range(9, 19)} == {7 + SMALLEST}


def test_the_first_steps_weigh_one():
    replay = Replay(endless(5))
    _, tree = taken_in(replay, [5])

    assert tree.leaves[:4].tolist() == [1.0] * 4


@settings(max_examples=60, deadline=None)
@given(histories(max_turns=60), st.integers(1, 40), st.integers(1, 4))
def test_only_usable_steps_weigh_anything_at_every_border(worlds, capacity, n_step):
    replay = Replay(worlds, capacity=capacity, n_step=n_step)
    reader = replay.reader()
    tree = Priorities(ReplayConfig(), reader)

    for boundary in [*range(0, replay.turns, 5), replay.turns]:
        replay.write(boundary)
        tree.take_in(reader.advance(boundary))
        weights, others = weights_by_step(reader, tree)
        assert list(sorted(weights)) == replay.usable(boundary)
        assert all(weight > 0 for weight in weights.values())
        assert not others.any()


def test_what_leaves_the_window_weighs_nothing():
    replay = Replay(endless(30), capacity=8)
    reader, tree = taken_in(replay, [5])
    tree.update(np.array([0, 3]), np.array([5.0, 5.0]))

    replay.write(10)
    tree.take_in(reader.advance(10))

    weights, others = weights_by_step(reader, tree)
    assert min(weights) == 2
    assert not others.any()
    assert weights[3] == pytest.approx((5 + SMALLEST) ** 0.6)  # still in the window


def test_weights_stay_with_their_steps_around_the_ring():
    replay = Replay(endless(100), capacity=10, turns_per_round=5)
    reader, tree = taken_in(replay, range(5, 96, 5), exponent=1.0)
    tree.update(np.array([90]), np.array([3.0]))

    replay.write(100)
    tree.take_in(reader.advance(100))
    steps, _ = tree.draw(np.linspace(0, ONE_BELOW_ONE, 500))

    weights, _ = weights_by_step(reader, tree)
    assert weights[90] == pytest.approx(3 + SMALLEST)
    assert min(steps) == 90
    assert max(steps) == 98


def test_taking_in_nothing_new_changes_nothing():
    replay = Replay(endless(20), capacity=8)
    _, tree = taken_in(replay, [10])
    before = tree._tree.copy()

    tree.take_in(np.empty(0, np.int64))

    np.testing.assert_array_equal(tree._tree, before)

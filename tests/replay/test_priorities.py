"""Prioritised replay: a sum tree, and transitions sampled from it in proportion."""

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

ONE_BELOW_ONE = 1 - 2.0**-32  # the largest uniform number of a stream

pytestmark = pytest.mark.shows("B13")


@dataclass
class FakeReader:
    """As much of a reader as a tree needs: every transition from 0 on is usable."""

    slots: int
    worlds: int = 1
    usable: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def rows(self):
        return SimpleNamespace(slots=self.slots)

    @property
    def boundary(self):
        return self.slots

    def opening(self, transitions):
        return np.divmod(transitions, self.worlds)


def tree_of(priorities, exponent=1.0, correction=0.4):
    """Return a tree with the priorities of transitions 0, 1, 2, …."""
    reader = FakeReader(len(priorities), usable=np.flatnonzero(priorities))
    tree = Priorities(ReplayConfig(exponent=exponent, correction=correction), reader)
    tree.load(np.array(priorities, float), max([1.0, *priorities]))
    return tree


def assert_sums(tree):
    nodes = tree._tree
    children = nodes[2:].reshape(-1, 2)
    np.testing.assert_array_equal(nodes[1:-1][: len(children)], children.sum(axis=1))


def advanced(replay, boundaries, exponent=0.6):
    """Return a reader and its tree after some boundaries."""
    reader = replay.reader()
    tree = Priorities(ReplayConfig(exponent=exponent), reader)
    for boundary in boundaries:
        replay.write(boundary)
        tree.advance(reader.advance(boundary))
    return reader, tree


def priorities_of(reader, tree):
    """Return the priority of each usable transition, and all other leaves."""
    turns, worlds = reader.opening(reader.usable)
    leaves = (turns % reader.rows.slots) * reader.worlds + worlds
    others = np.delete(tree.leaves, leaves)
    return dict(zip(reader.usable.tolist(), tree.leaves[leaves], strict=True)), others


# The tree.


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 40),
    st.lists(st.lists(st.tuples(st.integers(0, 39), st.floats(0, 1e6)), min_size=1)),
)
def test_an_inner_node_is_the_sum_of_its_children_after_any_updates(slots, rounds):
    tree = Priorities(ReplayConfig(), FakeReader(slots))

    for updates in rounds:
        transitions, errors = zip(*updates, strict=True)
        tree.update(np.array(transitions) % slots, np.array(errors))
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
        tree.advance(reader.advance(boundary))
        if len(reader.usable):
            usable = st.sampled_from(reader.usable.tolist())
            chosen = np.array(data.draw(st.lists(usable, min_size=1)))
            tree.update(chosen, np.arange(len(chosen)))
        assert_sums(tree)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_loaded_leaves_make_the_same_tree_as_the_one_they_came_from(errors):
    reader = FakeReader(len(errors))
    grown = Priorities(ReplayConfig(), reader)
    for transition, error in enumerate(errors):
        grown.update(np.array([transition]), np.array([error]))

    loaded = Priorities(ReplayConfig(), reader)
    loaded.load(grown.leaves, grown.largest)

    np.testing.assert_array_equal(loaded._tree, grown._tree)
    assert loaded.largest == grown.largest


def test_a_loaded_tree_samples_and_continues_in_the_same_way():
    replay = Replay(many_episodes(40, worlds=3), capacity=60, n_step=2)
    reader, tree = advanced(replay, [5, 10, 15, 20])
    tree.update(reader.usable[::2], np.arange(len(reader.usable[::2])) / 7)
    uniforms = np.random.default_rng(1).random(200)

    fresh = replay.reader(20)  # a learner that is restarted from a published state
    other = Priorities(ReplayConfig(), fresh)
    other.load(tree.leaves.copy(), tree.largest)

    for sampled, expected in zip(
        other.sample(uniforms), tree.sample(uniforms), strict=True
    ):
        np.testing.assert_array_equal(sampled, expected)
    replay.write(25)
    tree.advance(reader.advance(25))
    other.advance(fresh.advance(25))
    np.testing.assert_array_equal(tree._tree, other._tree)


def test_loading_a_single_zero_sets_all_leaves():
    tree = Priorities(ReplayConfig(), FakeReader(5))
    tree.update(np.arange(5), np.ones(5))

    tree.load(np.zeros(1), 1.0)

    assert tree.leaves.tolist() == [0.0] * 5
    assert_sums(tree)


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5, 8, 9])
def test_there_is_a_leaf_for_every_row(slots):
    tree = Priorities(ReplayConfig(), FakeReader(slots, worlds=3))

    assert tree.leaves.shape == (slots * 3,)


# Sampling.


def test_transitions_are_sampled_in_proportion():
    tree = tree_of([1.0, 0.0, 3.0, 4.0, 2.0])
    uniforms = (np.arange(100) + 0.5) / 100

    transitions, _ = tree.sample(uniforms)

    assert np.bincount(transitions, minlength=5).tolist() == [10, 0, 30, 40, 20]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=33).filter(
        any
    ),
    st.lists(st.integers(0, 2**32 - 1), max_size=20),
)
def test_the_transition_sampled_is_the_first_whose_running_sum_exceeds_the_number(
    priorities, bits
):
    tree = tree_of(priorities)
    uniforms = np.array([0, 2**32 - 1, *bits]) * 2.0**-32

    transitions, _ = tree.sample(uniforms)

    sums = np.cumsum(priorities)
    target = uniforms * sums[-1]
    slack = 1e-9 * sums[-1]
    assert all(priorities[transition] > 0 for transition in transitions)
    assert (sums[transitions] >= target - slack).all()
    assert (sums[transitions] - np.array(priorities)[transitions] <= target + slack).all()


@pytest.mark.parametrize("number", [0.0, 0.5, ONE_BELOW_ONE])
def test_a_transition_with_priority_0_is_never_sampled(number):
    tree = tree_of([0.0, 0.0, 0.0, 5.0, 0.0])

    transitions, _ = tree.sample(np.full(3, number))

    assert transitions.tolist() == [3, 3, 3]


def test_only_usable_transitions_are_sampled():
    replay = Replay(many_episodes(60, worlds=3), capacity=40, n_step=3)
    reader, tree = advanced(replay, range(5, 61, 5))

    transitions, weights = tree.sample(np.linspace(0, ONE_BELOW_ONE, 1000))

    assert set(transitions.tolist()) == set(reader.usable.tolist())
    assert np.isfinite(weights).all()


def test_importance_weights_correct_for_the_sampling_probability():
    tree = tree_of([1.0, 3.0, 4.0], correction=0.5)

    transitions, weights = tree.sample(np.array([0.0, 0.2, 0.9]))

    assert transitions.tolist() == [0, 1, 2]
    by_hand = (3 * np.array([1, 3, 4]) / 8) ** -0.5  # (usable × probability) ** -β
    np.testing.assert_allclose(weights, by_hand / by_hand[0], rtol=1e-6)


def test_the_largest_importance_weight_in_a_batch_is_one():
    tree = tree_of([1.0, 3.0, 4.0])

    _, weights = tree.sample(np.array([0.9, 0.9, 0.2]))

    assert weights.max() == 1.0
    assert weights.dtype == np.float32


@pytest.mark.parametrize(
    ("correction", "expected"), [(0.0, [1.0, 1.0]), (1.0, [1.0, 0.25])]
)
def test_a_correction_of_0_corrects_nothing_and_of_1_everything(correction, expected):
    tree = tree_of([1.0, 4.0], correction=correction)

    _, weights = tree.sample(np.array([0.0, 0.9]))

    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_with_equal_priorities_samples_are_those_of_a_uniform_replay():
    replay = Replay(endless(40), capacity=1000)
    reader, tree = advanced(replay, [20, 40])
    uniforms = (np.arange(390) + 0.5) / 390

    transitions, weights = tree.sample(uniforms)

    assert transitions.tolist() == reader.sample(uniforms).tolist()
    assert weights.tolist() == [1.0] * 390


# Priorities.


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0])
def test_a_priority_is_the_error_to_the_exponent(exponent):
    tree = Priorities(ReplayConfig(exponent=exponent), FakeReader(4))

    tree.update(np.array([0, 1, 3]), np.array([0.0, -2.0, 5.0], np.float32))

    expected = [
        SMALLEST**exponent,
        (2 + SMALLEST) ** exponent,
        0,
        (5 + SMALLEST) ** exponent,
    ]
    np.testing.assert_allclose(tree.leaves, expected, rtol=1e-6)


def test_a_transition_updated_twice_has_the_priority_of_its_last_error():
    tree = Priorities(ReplayConfig(exponent=1.0), FakeReader(4))

    tree.update(np.array([2, 1, 2]), np.array([9.0, 1.0, 4.0]))

    np.testing.assert_allclose(tree.leaves, [0, 1 + SMALLEST, 4 + SMALLEST, 0])
    assert tree.largest == pytest.approx(9 + SMALLEST)


def test_a_transition_without_error_can_still_be_sampled():
    tree = Priorities(ReplayConfig(), FakeReader(1))

    tree.update(np.array([0]), np.zeros(1))

    assert tree.leaves[0] > 0


def test_an_error_that_is_not_finite_changes_no_priority():
    """Its agent is stopped, and publishes its last good state."""
    tree = Priorities(ReplayConfig(exponent=1.0), FakeReader(4))
    tree.update(np.arange(3), np.array([1.0, 2.0, 4.0]))
    before = tree._tree.copy()

    tree.update(np.array([0, 2]), np.array([np.nan, np.inf]))

    np.testing.assert_array_equal(tree._tree, before)
    assert tree.largest == pytest.approx(4 + SMALLEST)


# Rounds.


def test_new_transitions_get_the_largest_priority_so_far():
    replay = Replay(endless(20))
    reader, tree = advanced(replay, [10], exponent=1.0)
    tree.update(np.array([3, 4]), np.array([7.0, 0.5]))
    tree.update(np.array([3]), np.array([0.25]))  # the largest stays what it was

    replay.write(20)
    tree.advance(reader.advance(20))

    priorities, _ = priorities_of(reader, tree)
    assert priorities[3] == pytest.approx(0.25 + SMALLEST)
    assert {priorities[number] for number in range(9, 19)} == {7 + SMALLEST}


def test_the_first_transitions_have_priority_1():
    replay = Replay(endless(5))
    _, tree = advanced(replay, [5])

    assert tree.leaves[:4].tolist() == [1.0] * 4


@settings(max_examples=60, deadline=None)
@given(histories(max_turns=60), st.integers(1, 40), st.integers(1, 4))
def test_only_usable_transitions_have_a_priority_at_every_boundary(
    worlds, capacity, n_step
):
    replay = Replay(worlds, capacity=capacity, n_step=n_step)
    reader = replay.reader()
    tree = Priorities(ReplayConfig(), reader)

    for boundary in [*range(0, replay.turns, 5), replay.turns]:
        replay.write(boundary)
        tree.advance(reader.advance(boundary))
        priorities, others = priorities_of(reader, tree)
        assert list(sorted(priorities)) == replay.usable(boundary)
        assert all(priority > 0 for priority in priorities.values())
        assert not others.any()


def test_a_transition_that_leaves_the_window_has_priority_0():
    replay = Replay(endless(30), capacity=8)
    reader, tree = advanced(replay, [5])
    tree.update(np.array([0, 3]), np.array([5.0, 5.0]))

    replay.write(10)
    tree.advance(reader.advance(10))

    priorities, others = priorities_of(reader, tree)
    assert min(priorities) == 2
    assert not others.any()
    assert priorities[3] == pytest.approx((5 + SMALLEST) ** 0.6)  # still in the window


def test_priorities_stay_with_their_transitions_around_the_ring():
    replay = Replay(endless(100), capacity=10, turns_per_round=5)
    reader, tree = advanced(replay, range(5, 96, 5), exponent=1.0)
    tree.update(np.array([90]), np.array([3.0]))

    replay.write(100)
    tree.advance(reader.advance(100))
    transitions, _ = tree.sample(np.linspace(0, ONE_BELOW_ONE, 500))

    priorities, _ = priorities_of(reader, tree)
    assert priorities[90] == pytest.approx(3 + SMALLEST)
    assert min(transitions) == 90
    assert max(transitions) == 98


def test_advancing_without_new_transitions_changes_nothing():
    replay = Replay(endless(20), capacity=8)
    _, tree = advanced(replay, [10])
    before = tree._tree.copy()

    tree.advance(np.empty(0, np.int64))

    np.testing.assert_array_equal(tree._tree, before)


# Compiled loops.


def plain_leaf(tree, target):
    """Walk down the tree for one target, with Python's own numbers."""
    node = 1
    while node < len(tree) // 2:
        left = float(tree[2 * node])
        node, target = (
            (2 * node + 1, target - left) if target >= left else (2 * node, target)
        )
    return node - len(tree) // 2


def plain_tree(leaves, size):
    """Return a tree of so many nodes, summed up from its leaves."""
    tree = np.zeros(size)
    tree[size // 2 : size // 2 + len(leaves)] = leaves
    for node in range(size // 2 - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]
    return tree


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 9), min_size=1, max_size=40).filter(any),
    st.lists(st.tuples(st.integers(0, 39), st.floats(0, 9)), max_size=30),
    st.lists(st.floats(0, ONE_BELOW_ONE), min_size=1, max_size=30),
)
def test_trees_and_what_is_sampled_from_them_have_the_bits_of_plain_walks(
    priorities, updates, uniforms
):
    tree, expected = tree_of(priorities), list(priorities)
    leaves = np.array([leaf % len(priorities) for leaf, _ in updates], np.int64)

    tree._set(leaves, np.array([priority for _, priority in updates], np.float64))

    for leaf, (_, priority) in zip(leaves.tolist(), updates, strict=True):
        expected[leaf] = priority
    plain = plain_tree(expected, len(tree._tree))
    assert tree._tree.tobytes() == plain.tobytes()
    if plain[1]:
        sampled, _ = tree.sample(np.array(uniforms))
        targets = [uniform * float(plain[1]) for uniform in uniforms]
        assert sampled.tolist() == [plain_leaf(plain, target) for target in targets]

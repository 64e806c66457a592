"""Exploring by chance and by a softmax, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.algorithms.base import PolicyInput
from rookery.algorithms.common.exploration import draw, explore, temperatures_of
from tests.algorithms.conftest import agent_of

VALUES = [1.0, 3.0, 2.0]


def moment_of(worlds: int, exploration: list[float], legal=None) -> PolicyInput:
    draws = np.random.default_rng(0).random((len(exploration), worlds, 2))
    masks = [None if legal is None else np.tile(legal, (worlds, 1)) for _ in exploration]
    return PolicyInput([], masks, draws, np.array(exploration))


def values_of(worlds: int, agents: int = 1, values=VALUES) -> np.ndarray:
    return np.tile(np.array(values, np.float32), (agents, worlds, 1))


def shares(actions: np.ndarray) -> list[float]:
    return (np.bincount(actions.ravel(), minlength=3) / actions.size).tolist()


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_a_temperature_takes_actions_by_a_softmax_of_their_values(temperature):
    moment = moment_of(20_000, [0.1])

    done = explore(values_of(20_000), moment, np.array([temperature]))

    weights = np.exp(np.array(VALUES) / temperature)
    expected = 0.9 * weights / weights.sum() + 0.1 / 3
    assert shares(done.actions) == pytest.approx(expected, abs=0.015)
    assert done.probabilities[0] == pytest.approx(expected[done.actions[0]], rel=1e-6)
    assert done.entropies == pytest.approx(-(expected * np.log(expected)).sum())


def test_actions_of_nearly_the_same_value_are_taken_nearly_alike():
    flat = values_of(9_000, values=[0.01, 0.0, 0.005])

    done = explore(flat, moment_of(9_000, [0.1]), np.ones(1))

    assert shares(done.actions) == pytest.approx([1 / 3] * 3, abs=0.02)


def test_an_illegal_action_is_never_taken_at_any_temperature():
    moment = moment_of(5_000, [0.5], np.array([True, False, True]))

    done = explore(values_of(5_000), moment, np.array([10.0]))

    assert set(done.actions.ravel()) == {0, 2}


def test_where_nothing_is_legal_any_action_will_do():
    moment = moment_of(3_000, [1.0], np.zeros(3, bool))

    done = explore(values_of(3_000), moment, np.ones(1))

    assert shares(done.actions) == pytest.approx([1 / 3] * 3, abs=0.03)
    assert np.isfinite(done.probabilities).all()


def test_who_does_not_explore_takes_the_best_whatever_the_temperature():
    tied = values_of(50, agents=2, values=[3.0, 3.0, 1.0])

    alone = explore(tied[:1], moment_of(50, [0.0]), None)
    beside = explore(tied, moment_of(50, [0.0, 0.5]), np.array([0.0, 1.0]))

    assert not alone.actions.any()
    assert not beside.actions[0].any()
    assert (beside.probabilities[0] == 1).all()
    assert set(beside.actions[1]) == {0, 1, 2}


def test_a_temperature_falls_as_epsilon_does():
    agents = [
        agent_of(epsilon={"start": start, "temperature": 2.0}) for start in (1.0, 0.5, 0.0)
    ]

    found = temperatures_of(agents, np.array([0.5, 0.5, 0.0]))

    assert found.tolist() == [1.0, 2.0, 0.0]
    assert temperatures_of(agents, np.zeros(3)) is None
    rising = agent_of(epsilon={"start": 0.0, "end": 0.1, "temperature": 2.0})
    assert temperatures_of([rising], np.array([0.05])).tolist() == [1.0]
    assert temperatures_of([agent_of()], np.ones(1)) is None


def test_the_largest_draws_take_the_last_likely_action():
    probabilities = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.7]])

    assert draw(probabilities, np.array([1.0, 1.0])).tolist() == [1, 2]
    assert draw(probabilities, np.array([0.0, 0.0])).tolist() == [0, 2]

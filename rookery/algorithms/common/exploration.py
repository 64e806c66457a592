"""Exploring by chance: what becomes of values when an agent must also try things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.algorithms.base import LEAST, Agent, PolicyInput
from rookery.algorithms.common.losses import FAR_BELOW
from rookery.specs import Array


@dataclass
class Explored:
    """What is done; arrays are (agents, worlds)."""

    actions: Array
    probabilities: Array
    entropies: Array


def temperatures_of(agents: Sequence[Agent], exploration: Array) -> Array | None:
    """Return how evenly agents take actions that look alike; None: all take the best.

    A temperature falls as the chance of a random action does, from where that is largest,
    and is gone with it.
    """
    chosen = [agent.settings.epsilon for agent in agents]  # of one group: one temperature
    if not chosen[0].temperature or not exploration.any():
        return None
    largest = np.array([max(one.start, one.end, LEAST) for one in chosen])
    return chosen[0].temperature * exploration / largest


def explore(values: Array, moment: PolicyInput, temperatures: Array | None) -> Explored:
    """Choose by values, (agents, worlds, actions), or by chance any legal action.

    Without temperatures, (agents,), the best action is taken. With them, actions of nearly
    the same value are taken nearly alike, by a softmax; who does not explore has none.
    """
    liked = _legal(values, moment.legal)
    if temperatures is None:
        return _greedily(liked, moment)
    return _softly(liked, moment, temperatures[:, None, None])


def _greedily(values: Array, moment: PolicyInput) -> Explored:
    """The first draw decides whether to explore, the second which legal action."""
    greedy, probability = values.argmax(axis=2), moment.exploration[:, None]
    counts = _legal_counts(values.shape[2], moment)
    any_action = (moment.draws[..., 1] * counts).astype(np.int64)
    for i, mask in enumerate(moment.legal):
        if mask is not None:
            any_action[i] = _nth_true(mask, any_action[i])
    actions = np.where(moment.draws[..., 0] < probability, any_action, greedy)
    share = probability / counts
    top = 1.0 - probability + share
    probabilities = np.where(actions == greedy, top, share).astype(np.float32)
    entropies = -(top * log(top) + (counts - 1) * share * log(share))
    return Explored(actions, probabilities, np.full(greedy.shape, entropies))


def _softly(values: Array, moment: PolicyInput, warmth: Array) -> Explored:
    """The first draw decides, by the chances of all actions together."""
    probability = moment.exploration[:, None, None]
    below = (values - values.max(axis=2, keepdims=True)).astype(np.float64)
    best = np.eye(values.shape[2])[values.argmax(axis=2)]
    soft = np.where(warmth > 0, np.exp(below / np.maximum(warmth, LEAST)), best)
    even = (values > FAR_BELOW).astype(np.float64)
    probabilities = (1.0 - probability) * _shares(soft) + probability * _shares(even)
    actions = draw(probabilities, moment.draws[..., 0])
    picked = np.take_along_axis(probabilities, actions[..., None], axis=2)[..., 0]
    entropies = -(probabilities * log(probabilities)).sum(axis=2)
    return Explored(actions, picked.astype(np.float32), entropies)


def draw(probabilities: Array, draws: Array) -> Array:
    """Return the actions, (…), that draws in [0, 1) pick by their chances, (…, actions)."""
    sums = probabilities.cumsum(axis=-1)
    drawn = (sums <= draws[..., None] * sums[..., -1:]).sum(axis=-1)
    # The largest draws may reach the whole sum by rounding: they take the last likely one.
    last = probabilities.shape[-1] - 1 - (probabilities[..., ::-1] > 0).argmax(axis=-1)
    return np.minimum(drawn, last)


def log(probabilities: Array) -> Array:
    """Return logarithms, where 0 does not matter."""
    return np.log(np.maximum(probabilities, LEAST))


def _shares(weights: Array) -> Array:
    total = weights.sum(axis=2, keepdims=True)
    # Where nothing is legal, any action will do.
    return np.where(total > 0, weights, 1.0) / np.where(total > 0, total, weights.shape[2])


def _legal(values: Array, legal: Sequence[Array | None]) -> Array:
    """Return values with those of illegal actions far below all others."""
    if any(mask is not None for mask in legal):
        values = values.copy()
        for of_agent, mask in zip(values, legal, strict=True):
            if mask is not None:
                of_agent[~mask] = FAR_BELOW
    return values


def _legal_counts(num_actions: int, moment: PolicyInput) -> Array | int:
    """Return how many actions may be chosen from, at least 1.

    It is (agents, worlds), or one number where everything is always legal.
    """
    if all(mask is None for mask in moment.legal):
        return num_actions
    counts = np.full(moment.draws.shape[:2], num_actions)
    for i, mask in enumerate(moment.legal):
        if mask is not None:
            counts[i] = np.maximum(mask.sum(axis=1), 1)
    return counts


def _nth_true(mask: Array, rank: Array) -> Array:
    return (mask.cumsum(axis=1) > rank[:, None]).argmax(axis=1)

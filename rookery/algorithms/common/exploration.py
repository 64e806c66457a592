"""From values or probabilities to actions: epsilon-greedy, softmax, and sampling.

Illegal actions are never chosen, and all randomness comes from `PolicyInput.draws`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput, PolicyOutput
from rookery.algorithms.common.losses import FAR_BELOW
from rookery.specs import Array

SMALLEST = 1e-12
"""Lower bound on probabilities in logarithms and on divisors."""

Choice = tuple[Array, Array, Array]
"""Actions, their probabilities and the entropies of the choice, (agents, worlds)."""


def act_by_values(
    values: Array, inputs: PolicyInput, temperatures: Array | None
) -> PolicyOutput:
    """Choose by values, (agents, worlds, actions), and explore.

    Without temperatures, (agents,), this is epsilon-greedy. With them, the greedy part is
    a softmax, so that actions of nearly the same value are taken nearly equally often.
    """
    legal_values = _mask_illegal(values, inputs.legal)
    if temperatures is None:
        choice = _epsilon_greedy(legal_values, inputs)
    else:
        choice = _softmax(legal_values, inputs, temperatures[:, None, None])
    actions, probabilities, entropies = choice
    taken = _pick(values, actions)
    return PolicyOutput(actions, probabilities, taken, entropies, action_values=values)


def temperatures_of(agents: Sequence[Agent], exploration: Array) -> Array | None:
    """Return the agents' softmax temperatures, (agents,); None: all act greedily.

    A temperature is proportional to the probability of a random action: it starts at
    `epsilon.temperature`, where that is largest, and vanishes with it.
    """
    settings = [agent.settings.epsilon for agent in agents]
    if not settings[0].temperature or not exploration.any():  # the same in all the group
        return None
    largest = np.array([max(each.start, each.end, SMALLEST) for each in settings])
    return settings[0].temperature * exploration / largest


def _epsilon_greedy(values: Array, inputs: PolicyInput) -> Choice:
    """The first draw decides whether to explore, the second which legal action."""
    greedy, epsilon = values.argmax(axis=2), inputs.exploration[:, None]
    counts = _legal_counts(values.shape[2], inputs)
    random = (inputs.draws[..., 1] * counts).astype(np.int64)
    for i, mask in enumerate(inputs.legal):
        if mask is not None:
            random[i] = _nth_true(mask, random[i])
    actions = np.where(inputs.draws[..., 0] < epsilon, random, greedy)
    share = epsilon / counts
    top = 1.0 - epsilon + share
    probabilities = np.where(actions == greedy, top, share).astype(np.float32)
    entropies = -(top * safe_log(top) + (counts - 1) * share * safe_log(share))
    return actions, probabilities, np.full(greedy.shape, entropies)


def _softmax(values: Array, inputs: PolicyInput, temperatures: Array) -> Choice:
    """The first draw chooses among all actions by their probabilities."""
    probabilities = _soft_probabilities(values, inputs, temperatures)
    actions = sample(probabilities, inputs.draws[..., 0])
    chosen = _pick(probabilities, actions).astype(np.float32)
    return actions, chosen, entropies_of(probabilities)


def _soft_probabilities(values: Array, inputs: PolicyInput, temperatures: Array) -> Array:
    """Return the probability of every action, (agents, worlds, actions)."""
    epsilon = inputs.exploration[:, None, None]
    below = (values - values.max(axis=2, keepdims=True)).astype(np.float64)
    best = np.eye(values.shape[2])[values.argmax(axis=2)]
    soft = np.exp(below / np.maximum(temperatures, SMALLEST))
    soft = np.where(temperatures > 0, soft, best)
    uniform = (values > FAR_BELOW).astype(np.float64)
    return (1.0 - epsilon) * _normalised(soft) + epsilon * _normalised(uniform)


def probabilities_of(
    agents: Sequence[Agent], inputs: PolicyInput, output: PolicyOutput
) -> Array:
    """Return the probability of every action, (agents, worlds, actions).

    Of agents that choose by value, these are the probabilities with which they explore;
    without exploration, the best action has all of it.

    Args:
        agents: the group.
        inputs: what its policy got.
        output: what its policy returned.
    """
    if output.action_probabilities is not None:
        return output.action_probabilities
    assert output.action_values is not None
    values = _mask_illegal(output.action_values, inputs.legal)
    temperatures = temperatures_of(agents, inputs.exploration)
    if temperatures is None:
        temperatures = np.zeros(len(agents))
    return _soft_probabilities(values, inputs, temperatures[:, None, None])


def act_by_probabilities(probabilities: Array, inputs: PolicyInput) -> PolicyOutput:
    """Sample one agent's actions by probabilities, (worlds, actions).

    The most likely action is taken where exploration is 0.
    """
    (legal,) = inputs.legal
    kept = probabilities if legal is None else np.where(legal, probabilities, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    uniform = np.ones_like(kept) if legal is None else legal
    kept = np.where(total > SMALLEST, kept, uniform)  # no legal action has a probability
    kept = kept / np.maximum(kept.sum(axis=1, keepdims=True), SMALLEST)
    sampled = sample(kept, inputs.draws[0, :, 0])
    actions = kept.argmax(axis=1) if inputs.exploration[0] == 0 else sampled
    chosen = _pick(kept, actions)[None]
    return PolicyOutput(
        actions[None],
        chosen,
        np.zeros_like(chosen),
        entropies_of(kept)[None],
        action_probabilities=kept[None],
    )


def sample(probabilities: Array, draws: Array) -> Array:
    """Return actions, (…), from draws in [0, 1) and probabilities, (…, actions)."""
    sums = probabilities.cumsum(axis=-1)
    sampled = (sums <= draws[..., None] * sums[..., -1:]).sum(axis=-1)
    # By rounding, the largest draws can reach the whole sum: they take the last action
    # with a probability above 0.
    last = probabilities.shape[-1] - 1 - (probabilities[..., ::-1] > 0).argmax(axis=-1)
    return np.minimum(sampled, last)


def entropies_of(probabilities: Array) -> Array:
    """Return entropies in nats, (…), of probabilities, (…, actions)."""
    return -(probabilities * safe_log(probabilities)).sum(axis=-1)


def safe_log(probabilities: Array) -> Array:
    """Return logarithms that are finite at 0."""
    return np.log(np.maximum(probabilities, SMALLEST))


def _pick(array: Array, actions: Array) -> Array:
    """Return the entries of given actions: (…, actions) and (…) give (…)."""
    return np.take_along_axis(array, actions[..., None], axis=-1)[..., 0]


def _normalised(weights: Array) -> Array:
    total = weights.sum(axis=2, keepdims=True)
    # Where nothing is legal, any action will do.
    return np.where(total > 0, weights, 1.0) / np.where(total > 0, total, weights.shape[2])


def _mask_illegal(values: Array, legal: Sequence[Array | None]) -> Array:
    """Return values with those of illegal actions far below all others."""
    if any(mask is not None for mask in legal):
        values = values.copy()
        for agent_values, mask in zip(values, legal, strict=True):
            if mask is not None:
                agent_values[~mask] = FAR_BELOW
    return values


def _legal_counts(num_actions: int, inputs: PolicyInput) -> Array | int:
    """Return the number of legal actions, at least 1.

    It is (agents, worlds), or one number where every action is always legal.
    """
    if all(mask is None for mask in inputs.legal):
        return num_actions
    counts = np.full(inputs.draws.shape[:2], num_actions)
    for i, mask in enumerate(inputs.legal):
        if mask is not None:
            counts[i] = np.maximum(mask.sum(axis=1), 1)
    return counts


def _nth_true(mask: Array, rank: Array) -> Array:
    return (mask.cumsum(axis=1) > rank[:, None]).argmax(axis=1)

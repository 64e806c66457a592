"""From values or probabilities to actions: epsilon-greedy, softmax, and sampling.

Illegal actions are never chosen, and all randomness comes from `PolicyInput.draws`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput, PolicyOutput
from rookery.algorithms.common.losses import FAR_BELOW
from rookery.kernels import kernel
from rookery.specs import Array

SMALLEST = 1e-12
"""Lower bound on probabilities in logarithms and on divisors."""


def act_by_values(
    values: Array, inputs: PolicyInput, temperatures: Array | None
) -> PolicyOutput:
    """Choose by values, (agents, worlds, actions), and explore.

    Without temperatures, (agents,), this is epsilon-greedy. With them, the greedy part is
    a softmax, so that actions of nearly the same value are taken nearly equally often.
    """
    if temperatures is None:
        return _epsilon_greedy(values, inputs)
    legal_values = _mask_illegal(values, inputs.legal)
    return _softmax(values, legal_values, inputs, temperatures[:, None, None])


def temperatures_of(agents: Sequence[Agent], exploration: Array) -> Array | None:
    """Return the agents' softmax temperatures, (agents,); None: all act greedily.

    A temperature is proportional to the probability of a random action: it starts at
    `epsilon.temperature`, where that is largest, and vanishes with it.
    """
    temperature = agents[0].settings.epsilon.temperature  # the same in all the group
    if not temperature or not exploration.any():
        return None
    settings = [agent.settings.epsilon for agent in agents]
    largest = np.array([max(each.start, each.end, SMALLEST) for each in settings])
    return temperature * exploration / largest


def _epsilon_greedy(values: Array, inputs: PolicyInput) -> PolicyOutput:
    """The first draw decides whether to explore, the second which legal action."""
    shape, epsilon = values.shape, inputs.exploration.astype(np.float64, copy=False)
    output = PolicyOutput(
        np.empty(shape[:2], np.int64),
        np.empty(shape[:2], np.float32),
        np.empty(shape[:2], values.dtype),
        np.empty(shape[:2]),
        action_values=values,
    )
    _take_best_or_explore(
        values,
        stack_legal(inputs.legal, shape),
        np.ascontiguousarray(inputs.draws),
        epsilon,
        _epsilon_entropies(epsilon.tobytes(), shape[2]),
        output.actions,
        output.probabilities,
        output.values,
        output.entropies,
    )
    return output


@kernel
def _take_best_or_explore(
    values: Array,
    legal: Array,
    draws: Array,
    epsilon: Array,
    entropies: Array,
    actions: Array,
    probabilities: Array,
    taken: Array,
    entropies_taken: Array,
) -> None:
    """Fill the last four arrays, (agents, worlds).

    `entropies` is (agents, number of legal actions).
    """
    agents, worlds, num_actions = values.shape
    for agent in range(agents):
        for world in range(worlds):
            own, is_legal = values[agent, world], legal[agent, world]
            count, best = 0, 0
            for action in range(num_actions):
                if is_legal[action]:
                    if count == 0 or own[action] > own[best]:
                        best = action
                    count += 1
            action = best
            if draws[agent, world, 0] < epsilon[agent]:
                rank, action = int(draws[agent, world, 1] * count), 0
                for candidate in range(num_actions):
                    if is_legal[candidate]:
                        if rank == 0:
                            action = candidate
                        rank -= 1
            share = epsilon[agent] / max(count, 1)
            top = 1.0 - epsilon[agent] + share
            actions[agent, world] = action
            probabilities[agent, world] = top if action == best else share
            taken[agent, world] = own[action]
            entropies_taken[agent, world] = entropies[agent, max(count, 1)]


@lru_cache(maxsize=64)
def _epsilon_entropies(epsilon: bytes, num_actions: int) -> Array:
    """Return entropies by number of legal actions, (agents, 0 to num_actions).

    Epsilon, (agents,) float64, changes once a round, and this is needed every turn.
    """
    each, counts = np.frombuffer(epsilon)[:, None], np.arange(num_actions + 1)
    counts[0] = 1
    share = each / counts
    top = 1.0 - each + share
    return -(top * safe_log(top) + (counts - 1) * share * safe_log(share))


def _softmax(
    values: Array, legal_values: Array, inputs: PolicyInput, temperatures: Array
) -> PolicyOutput:
    """The first draw chooses among all actions by their probabilities."""
    probabilities = _soft_probabilities(legal_values, inputs, temperatures)
    actions = sample(probabilities, inputs.draws[..., 0])
    return PolicyOutput(
        actions,
        _pick(probabilities, actions).astype(np.float32),
        _pick(values, actions),
        entropies_of(probabilities),
        action_values=values,
    )


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


def stack_legal(legal: Sequence[Array | None], shape: Sequence[int]) -> Array:
    """Return legal actions, (agents, worlds, actions); all are where there is no mask."""
    stacked = np.empty(shape, bool)
    stacked.fill(True)
    for i, mask in enumerate(legal):
        if mask is not None:
            stacked[i] = mask
    return stacked

"""Choosing by values or by probabilities: one agent in all worlds.

The agent's own part is a table (worlds, actions); which actions are legal, exploration
and chance are added here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.algorithms.base import LEAST, Agent, PolicyInput, PolicyOutput
from rookery.algorithms.common.exploration import draw, explore, log, temperatures_of
from rookery.specs import Array


def choose_by_values(
    values: Array, moment: PolicyInput, agents: Sequence[Agent] = ()
) -> PolicyOutput:
    """Return the action of the highest value, or by chance any legal one."""
    temperatures = temperatures_of(agents, moment.exploration) if agents else None
    done = explore(values[None], moment, temperatures)
    expected = np.take_along_axis(values, done.actions[0][:, None], axis=1).T
    return PolicyOutput(done.actions, done.probabilities, expected, done.entropies)


def choose_by_chances(probabilities: Array, moment: PolicyInput) -> PolicyOutput:
    """Draw by probabilities of legal actions; the likeliest where exploration is 0."""
    (legal,) = moment.legal
    kept = probabilities if legal is None else np.where(legal, probabilities, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    even = np.ones_like(kept) if legal is None else legal
    kept = np.where(total > LEAST, kept, even)  # nothing legal was likely: all are
    kept = kept / np.maximum(kept.sum(axis=1, keepdims=True), LEAST)
    likeliest = kept.argmax(axis=1)
    drawn = draw(kept, moment.draws[0, :, 0])
    actions = likeliest if moment.exploration[0] == 0 else drawn
    picked = np.take_along_axis(kept, actions[:, None], axis=1).T
    entropies = -(kept * log(kept)).sum(axis=1)
    unknown = np.zeros_like(picked)  # it says nothing of what it expects
    return PolicyOutput(actions[None], picked, unknown, entropies[None])

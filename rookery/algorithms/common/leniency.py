"""Lenient learning (Wei and Luke, 2016): forgive low returns, less and less.

Every action of every observation has a temperature T, which cools each time its value is
updated. A value that was too high stays as it is with probability exp(−1/T). This is the
update of LMRL2 with a moderation factor θ of 1 (θ only multiplies T). How an agent explores
is left to `epsilon.*`, where LMRL2 takes a softmax by its temperatures.
"""

from __future__ import annotations

from math import exp

import numpy as np

from rookery.algorithms.base import Agent
from rookery.config.agent import TabularConfig
from rookery.specs import Array

COLDEST = 1e-9
"""A temperature at which nothing is forgiven, so that there is always a 1/T."""


def initial_temperatures(agent: Agent) -> Array:
    """Return the temperatures of a table that has learned nothing, (entries, actions)."""
    settings = agent.settings.tabular
    shape = (settings.entries, agent.spec.num_actions)
    return np.full(shape, settings.leniency, np.float64)


class Leniency:
    """The temperatures of one agent's table.

    Args:
        settings: of the table.
        temperatures: (entries, actions), changed in place.
        draws: one random number in [0, 1) for each transition of a round.
    """

    def __init__(
        self, settings: TabularConfig, temperatures: Array, draws: Array | None = None
    ) -> None:
        self._settings, self.temperatures, self._draws = settings, temperatures, draws

    def copy(self, draws: Array) -> Leniency:
        """Return the same with copied temperatures, to learn a round with."""
        return Leniency(self._settings, self.temperatures.copy(), draws)

    def forgives(self, transition: int, row: int, action: int) -> bool:
        """Whether a value stays as it is, though it was too high for a transition."""
        assert self._draws is not None
        temperature = max(float(self.temperatures[row, action]), COLDEST)
        return bool(self._draws[transition] < exp(-1.0 / temperature))

    def mean(self, row: int | None) -> float:
        """Return the mean temperature of an observation; None is one not yet learned."""
        return self._settings.leniency if row is None else self.temperatures[row].mean()

    def cool(self, row: int, action: int, towards: float | None) -> None:
        """Cool the temperature of an action that was learned from.

        Args:
            row: of the observation.
            action: that was taken.
            towards: the mean temperature of the observation that follows, so that what
                comes early in an episode does not cool before the rest has been learned;
                None if nothing that follows counts.
        """
        settings, warm = self._settings, self.temperatures[row, action]
        if towards is not None:
            warm = (1.0 - settings.diffusion) * warm + settings.diffusion * towards
        self.temperatures[row, action] = settings.cooling * warm

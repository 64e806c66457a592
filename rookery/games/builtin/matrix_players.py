"""Scripted players for matrix games; action 0 is the kind one, action 1 the other.

They read the last turn off the newest row of the part `past`: a one-hot of
(mine, theirs), all zeros in an episode's first turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.games.players import Observation, Player
from rookery.specs import Array

KIND, UNKIND = 0, 1


class Cooperator(Player):
    """Always takes the first action."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Take action 0."""
        return np.full(self.worlds, KIND)


class Defector(Player):
    """Always takes the second action."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Take action 1."""
        return np.full(self.worlds, UNKIND)


class TitForTat(Player):
    """Starts kindly, then does what the other did last."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Copy the other's last action."""
        return np.where(_they_were_unkind(observation), UNKIND, KIND)


class Grim(Player):
    """Kind until the other is not, and then never again in that episode."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.memory["betrayed"] = np.zeros(self.worlds, np.bool_)

    def act(self, observation: Observation, turn: int) -> Array:
        """Remember the first betrayal."""
        self.memory["betrayed"] |= _they_were_unkind(observation)
        return np.where(self.memory["betrayed"], UNKIND, KIND)


class Pavlov(Player):
    """Does the same again if the other was kind, and the opposite if not."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Win: stay; lose: shift."""
        last = observation.parts["past"][:, 0]
        i_was_unkind = (last[:, 2] | last[:, 3]).astype(bool)
        return np.where(i_was_unkind ^ _they_were_unkind(observation), UNKIND, KIND)


def _they_were_unkind(observation: Observation) -> Array:
    last = observation.parts["past"][:, 0]
    return np.asarray((last[:, 1] | last[:, 3]).astype(bool))


PLAYERS = {
    "cooperator": Cooperator,
    "defector": Defector,
    "tit_for_tat": TitForTat,
    "grim": Grim,
    "pavlov": Pavlov,
}

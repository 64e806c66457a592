"""Common-payoff matrix games: both agents always get the same, and miscoordination costs.

Independent learners find them hard. While the other agent still explores, the best joint
action looks worse than a safe one (relative overgeneralisation). From Claus and Boutilier
(1998).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rookery.games.builtin.matrix import MatrixGame, MatrixSettings
from rookery.games.players import Observation, Player
from rookery.specs import Array

Turns = Annotated[int, Field(ge=0, le=1000)]


class Always(Player):
    """Takes the same action in every turn."""

    action: ClassVar[int]

    def act(self, observation: Observation, turn: int) -> Array:
        """Take it."""
        return np.full(self.worlds, self.action)


class AlwaysA(Always):
    """Always takes action a."""

    action = 0


class AlwaysB(Always):
    """Always takes action b."""

    action = 1


class AlwaysC(Always):
    """Always takes action c."""

    action = 2


class CommonPayoffSettings(MatrixSettings):
    """The settings of every common-payoff game, except what miscoordination costs."""

    turns: int = Field(
        1, ge=1, le=1_000_000, description="Turns of an episode; 1 is the one-shot game."
    )
    history: tuple[Turns, Turns] = Field(
        (0, 0),
        description="Past turns that the first and the second agent observe; 0 for none.",
    )


class CommonPayoffGame(MatrixGame):
    """Two agents, three actions, and one reward for both."""

    Settings: ClassVar[type[MatrixSettings]] = CommonPayoffSettings
    settings: CommonPayoffSettings
    players = {"always_a": AlwaysA, "always_b": AlwaysB, "always_c": AlwaysC}
    # By default, what an agent does has no effect on later turns.
    training = {"discount": 0.0, "frames": 1, "n_step": 1}
    actions = ("a", "b", "c")

    @property
    def payoffs(self) -> Array:
        """The matrix, for both."""
        return np.stack([np.array(self.matrix)] * 2, axis=2)

    @property
    @abstractmethod
    def matrix(self) -> Sequence[Sequence[float]]:
        """A row for each action of the first agent, a column for each of the second."""


class Climbing(CommonPayoffGame):
    """The best joint action is next to the worst ones."""

    class Settings(CommonPayoffSettings):
        """What it costs to aim for the best alone."""

        penalty: float = Field(
            -30.0, description="Reward of both if one takes a and the other b."
        )

    settings: Settings

    @property
    def matrix(self) -> Sequence[Sequence[float]]:
        """Return 11 for (a, a), 7 for (b, b) and 5 for (c, c)."""
        penalty = self.settings.penalty
        return (11.0, penalty, 0.0), (penalty, 7.0, 6.0), (0.0, 0.0, 5.0)


class Penalty(CommonPayoffGame):
    """There are two best joint actions, and a penalty for aiming at different ones."""

    class Settings(CommonPayoffSettings):
        """The penalty k."""

        penalty: float = Field(
            0.0, description="Reward k of both if one takes a and the other c."
        )

    settings: Settings

    @property
    def matrix(self) -> Sequence[Sequence[float]]:
        """Return 10 for (a, a) and (c, c), and 2 for (b, b)."""
        k = self.settings.penalty
        return (10.0, 0.0, k), (0.0, 2.0, 0.0), (k, 0.0, 10.0)

"""The game contract: stage 1 of the data path, run by the actor.

A game runs `worlds` copies of itself at once and speaks arrays with a leading world axis.
One turn is: `begin_turn`, then for each phase `observe` and `act`, then `end_turn`.

The one rule: what happens in a world depends on that world's number, the seed and the
actions taken in it, and on no other world.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rookery.config.base import Settings as BaseSettings
from rookery.errors import GameError
from rookery.specs import AgentSpec, Array

Phases = tuple[tuple[int, ...], ...]
LARGEST = 2.0**128 - 2.0**103
"""Numbers from here on are infinite in float32, as rows and networks hold them."""


def are_finite(numbers: Array) -> Array:
    """Return which numbers are finite, and still are in float32."""
    if numbers.dtype.itemsize <= 4:
        return np.isfinite(numbers)
    return np.abs(numbers) < LARGEST


@dataclass(slots=True)
class Observations:
    """What some agents see at one moment; entries are in the order they were asked for."""

    parts: Sequence[Mapping[str, Array]]
    """Per agent: part name to (worlds, *shape)."""
    active: Sequence[Array]
    """Per agent: (worlds,) bool, who acts this turn (not: out, dead, closing)."""
    legal: Sequence[Array | None]
    """Per agent: (worlds, num_actions) bool, or None if everything is always legal."""


@dataclass(slots=True)
class Outcome:
    """What one turn brought; every array is (worlds, agents)."""

    rewards: Array
    terminated: Array
    truncated: Array
    scores: Array | None = None
    """The reward to report, where training is on a shaped one."""
    counts: Mapping[str, Array] = field(default_factory=dict)
    """The game's own metrics."""


class Game(ABC):
    """N agents in `worlds` copies of one game."""

    Settings: ClassVar[type[BaseSettings]] = BaseSettings
    players: Mapping[str, Any] = {}
    """Scripted players made for this game, by name."""
    training: Mapping[str, Any] = {}
    """Settings of training that suit the game, by dotted key."""
    counts: tuple[str, ...] = ()
    """Names of the game's own metrics, as every `Outcome` has them."""
    fair: bool = True
    """Whether seats of one role are meant to be equal; turn-based games may not be."""
    replayable: bool = False
    """Whether the same seed and actions give the same game, verified by `check`."""

    agents: tuple[AgentSpec, ...]
    """Set while the game is built, and never changed."""
    settings: BaseSettings
    worlds: int

    def __init__(
        self, settings: BaseSettings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        self.settings = settings
        self.worlds = worlds

    @abstractmethod
    def begin_turn(self) -> Phases:
        """Let everything that is not an agent move; return who acts when.

        Phases are tuples of agent indices that act at the same moment, in the order in
        which their actions take effect. Every agent is in exactly one phase.
        """

    @abstractmethod
    def observe(self, agents: Sequence[int]) -> Observations:
        """Return what these agents see now, in every world."""

    @abstractmethod
    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Take `actions` (worlds, len(agents)); those of inactive agents are ignored."""

    @abstractmethod
    def end_turn(self) -> Outcome:
        """Return what the turn brought.

        A world in which every agent has ended spends its next turn closing: nobody is
        active, the observation is the last of the ended episode, and then it starts its
        next episode by itself.
        """

    def snapshot(self) -> dict[str, Array]:
        """Return everything needed to go on from here, as (worlds, ...) arrays."""
        raise GameError(f"{type(self).__name__} cannot be snapshot.")

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go back to where `snapshot` was taken, in this or an equal game."""
        raise GameError(f"{type(self).__name__} cannot be restored.")

    @property
    def can_snapshot(self) -> bool:
        """Whether `snapshot` and `restore` work."""
        return type(self).snapshot is not Game.snapshot

    def facts(self) -> dict[str, Array]:
        """Return (worlds, ...) arrays for recordings: positions, facing, and the like.

        In tables a fact is taken for the agents' if its second axis has their number.
        """
        return {}

    def begin_round(self, number: int) -> None:
        """Prepare a round; a curriculum is a pure function of its number."""

    def render(self, world: int) -> Array:
        """Return a picture of one world, (height, width, 3) uint8."""
        raise GameError(
            f"{type(self).__name__} has no picture to show: use `rookery evaluate`, or "
            "`rookery record` for a table of every turn."
        )

    def close(self) -> None:
        """Let go of what the game holds."""

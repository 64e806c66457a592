"""The game contract: stage 1 of the data path, run by the actor.

A game steps `worlds` copies of itself together; its arrays have a leading world axis. One
turn is `begin_turn`, then `observe` and `act` for each phase, then `end_turn`.

The one rule: a world depends on its number, the seed and the actions taken in it, and on
no other world.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rookery.config.base import Settings as BaseSettings
from rookery.errors import GameError
from rookery.specs import AgentSpec, Array

Phases = tuple[tuple[int, ...], ...]
FLOAT32_LIMIT = 2.0**128 - 2.0**103
"""The smallest number that rounds to infinity in float32, which rows and networks use."""


def are_finite(numbers: Array) -> Array:
    """Return which numbers are finite, also after conversion to float32."""
    if numbers.dtype.itemsize <= 4:
        return np.isfinite(numbers)
    return np.abs(numbers) < FLOAT32_LIMIT


@dataclass(slots=True)
class Observations:
    """What `Game.observe` returns: one entry per requested agent, in that order."""

    parts: Sequence[Mapping[str, Array]]
    """Per agent: part name to (worlds, *shape)."""
    active: Sequence[Array]
    """Per agent: (worlds,) bool, whether it acts in this turn."""
    legal: Sequence[Array | None]
    """Per agent: (worlds, num_actions) bool, or None if all actions are always legal."""


@dataclass(slots=True)
class Outcome:
    """What `Game.end_turn` returns; every array is (worlds, agents)."""

    rewards: Array
    """What agents learn from."""
    terminated: Array
    """Whether an agent's episode has ended, for good."""
    truncated: Array
    """Whether it was cut off, such as by a time limit; values are still estimated there."""
    scores: Array | None = None
    """The reward to report, if agents are trained on a shaped one."""
    counts: Mapping[str, Array] = field(default_factory=dict)
    """The game's own metrics, one array for each name in `Game.counts`."""


class Game(ABC):
    """A game of several agents, played in `worlds` copies at once.

    Subclass it for a game without a grid (for grid games, subclass
    `rookery.games.gridworld.GridGame`, which is shorter). In `__init__`, call
    `super().__init__` and set `agents`. Implement `begin_turn`, `observe`, `act` and
    `end_turn`, which the actor calls in this order in every turn; `snapshot` and
    `restore`, so that a run can resume exactly; and `render`, if there is something to
    show. `rookery.games.builtin.matrix` is a complete example, and `rookery check` plays
    the game and reports whatever breaks this contract.
    """

    Settings: ClassVar[type[BaseSettings]] = BaseSettings
    """The settings a user can choose as `game.NAME`."""
    players: Mapping[str, Any] = {}
    """Scripted players for this game: name to subclass of `Player`."""
    training: Mapping[str, Any] = {}
    """Training settings that suit the game, by dotted key."""
    counts: tuple[str, ...] = ()
    """Names of the game's own metrics, which every `Outcome` then has."""
    fair: bool = True
    """Whether agents of one role are meant to have equal chances, which `check` tests."""
    replayable: bool = False
    """Whether the same seed and actions always give the same game, which `check` tests."""

    agents: tuple[AgentSpec, ...]
    """Set in `__init__` and never changed."""
    settings: BaseSettings
    """The settings it was built with."""
    worlds: int
    """The number of copies that are played together."""

    def __init__(
        self, settings: BaseSettings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        """Build the game, with the first episode of every world ready to play.

        Args:
            settings: an instance of the class's `Settings`.
            worlds: number of copies to step together.
            seed: the source of all randomness, together with a world's number.
            first_world: number of the first world; the others follow it.
        """
        self.settings = settings
        self.worlds = worlds

    @abstractmethod
    def begin_turn(self) -> Phases:
        """Move everything that is not an agent; return the phases of the turn.

        A phase is a tuple of the indices of agents that act simultaneously. Phases take
        effect in order, and every agent is in exactly one of them.
        """

    @abstractmethod
    def observe(self, agents: Sequence[int]) -> Observations:
        """Return what these agents observe now, in all worlds.

        Called once per phase, just before its agents act. The arrays must not change
        until the next turn begins.
        """

    @abstractmethod
    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Take the actions of a phase, (worlds, len(agents)); ignore inactive agents'."""

    @abstractmethod
    def end_turn(self) -> Outcome:
        """Return the rewards and ends of the turn.

        A world in which all agents have ended plays one closing turn: no agent is active,
        the observation is the last of the ended episode, all rewards are 0, and at its
        end the world resets itself.
        """

    def snapshot(self) -> dict[str, Array]:
        """Return the complete state as (worlds, ...) arrays.

        Without `snapshot` and `restore` a game can be trained on, but a run that was
        stopped does not resume exactly.
        """
        raise GameError(f"{type(self).__name__} has no snapshots: implement snapshot().")

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from a snapshot, of this game or of another one with equal settings."""
        raise GameError(f"{type(self).__name__} has no snapshots: implement restore().")

    @property
    def can_snapshot(self) -> bool:
        """Whether `snapshot` and `restore` are implemented."""
        return type(self).snapshot is not Game.snapshot

    def facts(self) -> dict[str, Array]:
        """Return (worlds, ...) arrays to record after every turn, such as positions.

        In tables, a fact whose second axis has one entry per agent is split by agent.
        """
        return {}

    def begin_round(self, number: int) -> None:
        """Prepare a round of training; called before its first turn.

        Override it for a curriculum, which may depend on nothing but the round's number.
        """

    def render(self, world: int) -> Array:
        """Return an image of one world, (height, width, 3) uint8."""
        raise GameError(
            f"{type(self).__name__} has no picture to show: use `rookery evaluate`, or "
            "`rookery record` for a table of every turn."
        )

    def close(self) -> None:
        """Free what the game holds, such as windows; called once, at the end."""


class GameWrapper(Game):
    """Forwards everything to another game, like `gymnasium.Wrapper`.

    Subclass it and override the methods that are to differ. Every call to the inner game
    goes through `call`, so overriding that one method sees them all.
    """

    def __init__(self, game: Game) -> None:
        super().__init__(game.settings, game.worlds, 0)
        self.game = game
        self.agents, self.players, self.counts = game.agents, game.players, game.counts
        self.training, self.fair = game.training, game.fair
        self.replayable = game.replayable

    def call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the inner game."""
        return method(*args)

    def begin_turn(self) -> Phases:
        return self.call(self.game.begin_turn)

    def observe(self, agents: Sequence[int]) -> Observations:
        return self.call(self.game.observe, agents)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        self.call(self.game.act, agents, actions)

    def end_turn(self) -> Outcome:
        return self.call(self.game.end_turn)

    def snapshot(self) -> dict[str, Array]:
        return self.call(self.game.snapshot)

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.call(self.game.restore, arrays)

    @property
    def can_snapshot(self) -> bool:
        return self.game.can_snapshot

    def facts(self) -> dict[str, Array]:
        return self.call(self.game.facts)

    def begin_round(self, number: int) -> None:
        self.call(self.game.begin_round, number)

    def render(self, world: int) -> Array:
        return self.call(self.game.render, world)

    def close(self) -> None:
        self.call(self.game.close)

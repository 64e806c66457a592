"""Iterated matrix games: two players, two actions, and what each remembers.

Written straight on the game contract, because there is no grid in them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rookery.config.base import Settings
from rookery.games.base import Game, Observations, Outcome, Phases
from rookery.games.builtin.matrix_players import PLAYERS
from rookery.games.gridworld.state import StateArrays
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Array, Part

NOT_YET = -1
Turns = Annotated[int, Field(ge=1, le=1000)]


class MatrixSettings(Settings):
    """What every matrix game lets its user choose."""

    turns: int = Field(
        100, ge=1, le=1_000_000, description="Turns until an episode is truncated."
    )
    stop: float = Field(
        0.0, ge=0, le=1, description="Chance that an episode ends after a turn."
    )
    history: tuple[Turns, Turns] = Field(
        (1, 1), description="Turns that the first and the second player look back."
    )
    both_first: float = Field(description="Reward where both take the first action.")
    both_second: float = Field(description="Reward where both take the second action.")
    tempted: float = Field(description="Reward of the second action against the first.")
    betrayed: float = Field(description="Reward of the first action against the second.")


class MatrixGame(Game):
    """Two players choose at the same moment, again and again."""

    Settings: ClassVar[type[Settings]] = MatrixSettings
    players = PLAYERS
    settings: MatrixSettings

    def __init__(
        self, settings: MatrixSettings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(settings, worlds, seed, first_world)
        self.agents = tuple(self._spec(i) for i in range(2))
        self.counts = (self.actions[0],)
        s = settings
        rows = ((s.both_first, s.betrayed), (s.tempted, s.both_second))
        self._payoffs = np.array(rows, np.float32)
        self._stream = Stream(seed, Purpose.WORLD)
        self._numbers = np.arange(first_world, first_world + worlds)
        self._columns = StateArrays(worlds)
        self._episode = self._columns.add("episode", np.int64)
        self._turn = self._columns.add("turn", np.int64)
        self._closing = self._columns.add("closing", np.bool_)
        depth = max(settings.history)
        self._past = self._columns.add("past", np.int8, (), (depth, 2), NOT_YET)
        self._chosen = np.zeros((worlds, 2), np.int8)

    @property
    @abstractmethod
    def actions(self) -> tuple[str, str]:
        """The kind action, and the other."""

    def _spec(self, player: int) -> AgentSpec:
        part = Part((self.settings.history[player], 4), np.dtype(np.uint8))
        return AgentSpec(str(player), "player", {"past": part}, self.actions)

    def begin_turn(self) -> Phases:
        """Both act at the same moment."""
        return ((0, 1),)

    def observe(self, agents: Sequence[int]) -> Observations:
        """Show each player its own stretch of the past, the last turn first."""
        active = [~self._closing] * len(agents)
        return Observations(
            [{"past": self._seen_by(i)} for i in agents], active, [None] * len(agents)
        )

    def _seen_by(self, player: int) -> Array:
        past = self._past[:, : self.settings.history[player]]
        mine, theirs = past[..., player], past[..., 1 - player]
        joint = np.where(mine == NOT_YET, NOT_YET, 2 * mine + theirs)
        return (joint[..., None] == np.arange(4)).view(np.uint8)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Take both players' choices."""
        self._chosen[:, list(agents)] = actions

    def end_turn(self) -> Outcome:
        """Pay out, remember, and end or start episodes."""
        playing = ~self._closing
        mine, theirs = self._chosen, self._chosen[:, ::-1]
        rewards = self._payoffs[mine, theirs] * playing[:, None]
        counts = (mine == 0) & playing[:, None]
        self._remember(playing)
        terminated = self._stops() & playing
        truncated = (self._turn >= self.settings.turns) & playing & ~terminated
        self._restart(self._closing)
        np.copyto(self._closing, terminated | truncated)
        return Outcome(
            rewards,
            np.repeat(terminated[:, None], 2, axis=1),
            np.repeat(truncated[:, None], 2, axis=1),
            counts={self.actions[0]: counts.astype(np.float32)},
        )

    def _remember(self, playing: Array) -> None:
        self._turn += playing
        moved = np.roll(self._past, 1, axis=1)
        moved[:, 0] = self._chosen
        np.copyto(self._past, moved, where=playing[:, None, None])

    def _stops(self) -> Array:
        if self.settings.stop == 0:
            return np.zeros(self.worlds, bool)
        place = (self._numbers, self._episode, self._turn)
        return self._stream.uniform(place, 0, 1)[:, 0] < self.settings.stop

    def _restart(self, starting: Array) -> None:
        self._episode += starting
        self._turn[starting] = 0
        self._past[starting] = NOT_YET

    def snapshot(self) -> dict[str, Array]:
        """Return everything needed to go on from here."""
        return self._columns.take(slice(None))

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go back to where a snapshot was taken."""
        self._columns.put(slice(None), arrays)

    def facts(self) -> dict[str, Array]:
        """Return the last choices."""
        return {"last": self._past[:, 0].copy(), "turn": self._turn.copy()}


class IteratedPrisonersDilemma(MatrixGame):
    """Defecting always pays more, and both defecting pays little."""

    actions = ("cooperate", "defect")

    class Settings(MatrixSettings):
        """The usual payoffs."""

        both_first: float = Field(3.0, description="Reward where both cooperate.")
        both_second: float = Field(1.0, description="Reward where both defect.")
        tempted: float = Field(5.0, description="Reward of defecting on a cooperator.")
        betrayed: float = Field(0.0, description="Reward of cooperating alone.")


class IteratedStagHunt(MatrixGame):
    """A stag takes two; a hare is safe."""

    actions = ("stag", "hare")

    class Settings(MatrixSettings):
        """A stag is worth the risk if the other hunts it too."""

        both_first: float = Field(4.0, description="Reward where both hunt the stag.")
        both_second: float = Field(2.0, description="Reward where both hunt hares.")
        tempted: float = Field(3.0, description="Reward of a hare beside a stag hunter.")
        betrayed: float = Field(0.0, description="Reward of hunting the stag alone.")


class IteratedChicken(MatrixGame):
    """Going straight pays, unless the other does too."""

    actions = ("swerve", "straight")

    class Settings(MatrixSettings):
        """A crash is the worst."""

        both_first: float = Field(3.0, description="Reward where both swerve.")
        both_second: float = Field(0.0, description="Reward where both go straight.")
        tempted: float = Field(5.0, description="Reward of going straight alone.")
        betrayed: float = Field(1.0, description="Reward of swerving alone.")

"""Matrix games: two agents choose at the same time, turn after turn.

They implement `Game` directly, because they have no grid. The iterated games here have two
actions and payoffs from a 2×2 matrix; action 0 is the cooperative one. Games with more
actions are in climbing.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from rookery.config.base import Settings
from rookery.games.base import Game, Observations, Outcome, Phases
from rookery.games.gridworld.state import StateArrays
from rookery.games.players import Observation, Player
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Array, Part

COOPERATE, DEFECT = 0, 1


class Cooperator(Player):
    """Always takes the first action."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Take action 0."""
        return np.full(self.worlds, COOPERATE)


class Defector(Player):
    """Always takes the second action."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Take action 1."""
        return np.full(self.worlds, DEFECT)


class TitForTat(Player):
    """Cooperates first, then repeats the last action of the other."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Copy the other's last action."""
        return np.where(_other_defected(observation), DEFECT, COOPERATE)


class Grim(Player):
    """Cooperates until the other defects, then defects for the rest of the episode."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.memory["betrayed"] = np.zeros(self.worlds, np.bool_)

    def act(self, observation: Observation, turn: int) -> Array:
        """Defect if the other has ever defected in this episode."""
        self.memory["betrayed"] |= _other_defected(observation)
        return np.where(self.memory["betrayed"], DEFECT, COOPERATE)


class Pavlov(Player):
    """Repeats its action if the other cooperated, and switches if not."""

    def act(self, observation: Observation, turn: int) -> Array:
        """Win: stay; lose: shift."""
        last = observation.parts["past"][:, 0]
        i_defected = (last[:, 2] | last[:, 3]).astype(bool)
        return np.where(i_defected ^ _other_defected(observation), DEFECT, COOPERATE)


def _other_defected(observation: Observation) -> Array:
    # The newest row of `past`: one-hot of (mine, theirs), all zeros in the first turn.
    last = observation.parts["past"][:, 0]
    return np.asarray((last[:, 1] | last[:, 3]).astype(bool))


PLAYERS = {
    "cooperator": Cooperator,
    "defector": Defector,
    "tit_for_tat": TitForTat,
    "grim": Grim,
    "pavlov": Pavlov,
}


NOT_YET = -1
Turns = Annotated[int, Field(ge=1, le=1000)]


class MatrixSettings(Settings):
    """The settings of every matrix game, except its payoffs."""

    turns: int = Field(
        100, ge=1, le=1_000_000, description="Turns until an episode is truncated."
    )
    stop: float = Field(
        0.0, ge=0, le=1, description="Probability that an episode ends after a turn."
    )
    history: tuple[Turns, Turns] = Field(
        (1, 1), description="Past turns that the first and the second agent observe."
    )


class TwoByTwoSettings(MatrixSettings):
    """The payoffs of a symmetric 2×2 game."""

    both_first: float = Field(description="Reward if both take the first action.")
    both_second: float = Field(description="Reward if both take the second action.")
    tempted: float = Field(description="Reward for the second action against the first.")
    betrayed: float = Field(description="Reward for the first action against the second.")


class MatrixGame(Game):
    """Two agents choose simultaneously, turn after turn.

    Subclasses set `actions`, which both agents share, and `payoffs`.
    """

    Settings: ClassVar[type[Settings]] = MatrixSettings
    settings: MatrixSettings

    def __init__(
        self, settings: MatrixSettings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(settings, worlds, seed, first_world)
        self.agents = tuple(self._spec(i) for i in range(2))
        self.counts = self.actions[:-1]
        self._payoffs = self.payoffs.astype(np.float32)
        self._stream = Stream(seed, Purpose.WORLD)
        self._numbers = np.arange(first_world, first_world + worlds)
        self._columns = StateArrays(worlds)
        self._episode = self._columns.add("episode", np.int64)
        self._turn = self._columns.add("turn", np.int64)
        self._closing = self._columns.add("closing", np.bool_)
        depth = max(1, *settings.history)
        self._past = self._columns.add("past", np.int8, (), (depth, 2), NOT_YET)
        self._actions = np.zeros((worlds, 2), np.int8)

    @property
    @abstractmethod
    def actions(self) -> tuple[str, ...]:
        """Names of the actions. How often each is taken is counted, except for the last."""

    @property
    @abstractmethod
    def payoffs(self) -> Array:
        """What each agent gets, by the action of the first and of the second agent.

        (actions, actions, 2).
        """

    def _spec(self, player: int) -> AgentSpec:
        shape = (max(1, self.settings.history[player]), len(self.actions) ** 2)
        part = Part(shape, np.dtype(np.uint8))
        return AgentSpec(str(player), "player", {"past": part}, self.actions)

    def begin_turn(self) -> Phases:
        """Return the single phase in which both act."""
        return ((0, 1),)

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return for each agent the past turns it observes, the latest first."""
        active = [~self._closing] * len(agents)
        return Observations(
            [{"past": self._past_of(i)} for i in agents], active, [None] * len(agents)
        )

    def _past_of(self, player: int) -> Array:
        history, count = self.settings.history[player], len(self.actions)
        if not history:
            return np.zeros((self.worlds, 1, count**2), np.uint8)
        past = self._past[:, :history]
        mine, theirs = past[..., player], past[..., 1 - player]
        joint = np.where(mine == NOT_YET, NOT_YET, count * mine + theirs)
        return (joint[..., None] == np.arange(count**2)).view(np.uint8)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Store the actions."""
        self._actions[:, list(agents)] = actions

    def end_turn(self) -> Outcome:
        """Compute rewards, store the actions in the history, and end or start episodes."""
        playing = ~self._closing
        chosen = self._actions
        rewards = self._payoffs[chosen[:, 0], chosen[:, 1]] * playing[:, None]
        counts = {
            name: ((chosen == action) & playing[:, None]).astype(np.float32)
            for action, name in enumerate(self.counts)
        }
        self._remember(playing)
        terminated = self._stops() & playing
        truncated = (self._turn >= self.settings.turns) & playing & ~terminated
        self._restart(self._closing)
        np.copyto(self._closing, terminated | truncated)
        return Outcome(
            rewards,
            np.repeat(terminated[:, None], 2, axis=1),
            np.repeat(truncated[:, None], 2, axis=1),
            counts=counts,
        )

    def _remember(self, playing: Array) -> None:
        self._turn += playing
        shifted = np.roll(self._past, 1, axis=1)
        shifted[:, 0] = self._actions
        np.copyto(self._past, shifted, where=playing[:, None, None])

    def _stops(self) -> Array:
        if self.settings.stop == 0:
            return np.zeros(self.worlds, bool)
        keys = (self._numbers, self._episode, self._turn)
        return self._stream.uniform(keys, 0, 1)[:, 0] < self.settings.stop

    def _restart(self, starting: Array) -> None:
        self._episode += starting
        self._turn[starting] = 0
        self._past[starting] = NOT_YET

    def snapshot(self) -> dict[str, Array]:
        """Return the complete state."""
        return self._columns.take(slice(None))

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore a snapshot."""
        self._columns.put(slice(None), arrays)

    def facts(self) -> dict[str, Array]:
        """Return the last actions and the turn."""
        return {"last": self._past[:, 0].copy(), "turn": self._turn.copy()}


class TwoByTwo(MatrixGame):
    """A symmetric game of two actions; the first is the cooperative one."""

    players = PLAYERS
    settings: TwoByTwoSettings

    @property
    def payoffs(self) -> Array:
        """What the settings say; for the second agent, its own action is the row."""
        s = self.settings
        mine = np.array(((s.both_first, s.betrayed), (s.tempted, s.both_second)))
        return np.stack((mine, mine.T), axis=2)


class IteratedPrisonersDilemma(TwoByTwo):
    """Defecting always pays more, but mutual defection pays little."""

    actions = ("cooperate", "defect")

    class Settings(TwoByTwoSettings):
        """The usual payoffs."""

        both_first: float = Field(3.0, description="Reward if both cooperate.")
        both_second: float = Field(1.0, description="Reward if both defect.")
        tempted: float = Field(
            5.0, description="Reward for defecting against a cooperator."
        )
        betrayed: float = Field(0.0, description="Reward for cooperating alone.")


class IteratedStagHunt(TwoByTwo):
    """A stag takes two hunters; a hare is safe."""

    actions = ("stag", "hare")

    class Settings(TwoByTwoSettings):
        """A stag pays more than a hare if both hunt it."""

        both_first: float = Field(4.0, description="Reward if both hunt the stag.")
        both_second: float = Field(2.0, description="Reward if both hunt hares.")
        tempted: float = Field(
            3.0, description="Reward for a hare while the other hunts the stag."
        )
        betrayed: float = Field(0.0, description="Reward for hunting the stag alone.")


class IteratedChicken(TwoByTwo):
    """Going straight pays, unless the other does too."""

    actions = ("swerve", "straight")

    class Settings(TwoByTwoSettings):
        """The usual payoffs; a crash is worst."""

        both_first: float = Field(3.0, description="Reward if both swerve.")
        both_second: float = Field(0.0, description="Reward if both go straight.")
        tempted: float = Field(5.0, description="Reward for going straight alone.")
        betrayed: float = Field(1.0, description="Reward for swerving alone.")

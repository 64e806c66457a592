"""Trained agents outside a run: as players, or for one observation at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput
from rookery.algorithms.torch_setup import standard_state
from rookery.config.base import Settings
from rookery.errors import PlayerError
from rookery.games.players import Observation, Player
from rookery.replay.buffer import ReplayWriter
from rookery.replay.frames import stack
from rookery.replay.rows import Rows
from rookery.rng import Purpose, Stream
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Array


class TrainedAgent:
    """An agent with trained weights.

    Let it play a game (`rookery.play("treasurehunt", {0: agent})`), or get its action for
    a single observation with `act`. It acts greedily by default.
    """

    def __init__(
        self,
        agent: Agent,
        weights: Mapping[str, Array],
        name: str = "trained",
        exploration: float = 0.0,
        noise: bool = False,
    ) -> None:
        """Load weights into an agent.

        Args:
            agent: its spec, settings and algorithm.
            weights: by name, without padding.
            name: of the player in tables and files.
            exploration: probability of a random action.
            noise: whether networks that explore by noise do so.
        """
        self.agent, self.exploration, self.noise = agent, exploration, noise
        self.named = dict(weights)
        """The weights by name, without padding."""
        self.__name__ = name
        self.weights = agent.learner.flat_weights(agent, weights)
        self._player: TrainedPlayer | None = None
        """Plays the single world of `act`."""

    @property
    def spec(self) -> AgentSpec:
        """What the agent observes and can do."""
        return self.agent.spec

    def __call__(
        self, spec: AgentSpec, settings: Settings, worlds: int, stream: Stream
    ) -> Player:
        """Return a player, as a class of players does.

        Raises:
            PlayerError: if the agent was trained for other observations or actions.
        """
        mine = (dict(self.spec.parts), self.spec.num_actions)
        if mine != (dict(spec.parts), spec.num_actions):
            raise PlayerError(
                f"{self.__name__} cannot play agent '{spec.id}': it was trained with "
                f"observations of {_parts_text(self.spec)} and {self.spec.num_actions} "
                f"actions, but gets {_parts_text(spec)} and {spec.num_actions} actions."
            )
        return TrainedPlayer(
            self.agent, self.weights, self.exploration, self.noise, worlds, stream
        )

    def act(self, observation: Mapping[str, Array], legal: Array | None = None) -> int:
        """Return an action for one observation.

        Earlier observations are stacked, and hidden states carried on, as in training;
        call `reset` when an episode starts.

        Args:
            observation: part name to array.
            legal: (actions,) which actions are legal; by default all are.
        """
        if self._player is None:
            stream = Stream(0, Purpose.PLAYER, self.agent.number)
            self._player = TrainedPlayer(self.agent, self.weights, 0.0, False, 1, stream)
        parts = {name: np.asarray(array)[None] for name, array in observation.items()}
        mask = None if legal is None else np.asarray(legal, bool)[None]
        single = Observation(parts, np.ones(1, bool), mask)
        return int(self._player.act(single, 0)[0])

    def reset(self) -> None:
        """Start an episode: forget earlier observations and hidden states."""
        if self._player is not None:
            self._player.forget(np.ones(1, bool))


def _parts_text(spec: AgentSpec) -> str:
    return ", ".join(f"{name} {part}" for name, part in spec.parts.items())


class TrainedPlayer(Player):
    """A player that acts by trained weights.

    Observations are stacked from rows, as the actor does in training.
    """

    def __init__(
        self,
        agent: Agent,
        weights: Array,
        exploration: float,
        noise: bool,
        worlds: int,
        stream: Stream,
    ) -> None:
        super().__init__(agent.spec, agent.settings, worlds, stream)
        self._frames = agent.settings.frames
        self._rows = Rows(Block.private(Rows.layout(agent.spec, worlds, self._frames)))
        if agent.hidden:
            self.memory["hidden"] = np.zeros((worlds, agent.hidden), np.float32)
        self._writer = ReplayWriter(self._rows)
        with standard_state():
            self._policy = agent.policy([agent], 0)
            self._policy.begin_round([weights], 0, noise)
        self._exploration = np.array([exploration])
        self._age = np.zeros(worlds, np.int32)
        self._turn = 0

    def act(self, observation: Observation, turn: int) -> Array:
        """Return the network's actions; random numbers are only used to explore."""
        self._writer.write_observation(
            self._turn, observation.parts, observation.active, observation.legal, self._age
        )
        turns = np.full(self.worlds, self._turn)
        worlds = np.arange(self.worlds)
        observations = {
            name: stack(self._rows, name, turns, worlds, self._frames)
            for name in self._rows.parts
        }
        draws = self.draw(turn, 2)[None]
        hidden = list(self.memory.values())
        policy_input = PolicyInput(
            [observations], [observation.legal], draws, self._exploration, hidden
        )
        with standard_state():
            output = self._policy.act(policy_input)
        if output.hidden is not None:
            active = observation.active
            self.memory["hidden"][active] = output.hidden[0][active]
        self._turn += 1
        self._age += 1
        return output.actions[0]

    def forget(self, starting: Array) -> None:
        """Forget everything before the episodes that start."""
        super().forget(starting)
        self._age[starting] = 0

"""A trained agent by itself: asked one observation at a time, or seated as a player."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput
from rookery.algorithms.torch_setup import standard_state
from rookery.config.base import Settings
from rookery.errors import PlayerError
from rookery.games.players import Observation, Player
from rookery.replay.buffer import ReplayWriter
from rookery.replay.rows import Rows, stack
from rookery.rng import Purpose, Stream
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Array


class TrainedAgent:
    """An agent with the weights it has learned.

    Seat it in a game (`rookery.play("treasurehunt", {0: agent})`), or ask it by itself
    with `act`. It acts greedily unless `exploration` says otherwise, or `noise` does of
    weights that explore by noise.
    """

    def __init__(
        self,
        agent: Agent,
        weights: Mapping[str, Array],
        name: str = "trained",
        exploration: float = 0.0,
        noise: bool = False,
    ) -> None:
        self.agent, self.exploration, self.noise = agent, exploration, noise
        self.named = dict(weights)
        """Its weights by name, without padding."""
        self.__name__ = name
        self.weights = agent.learner.flat_weights(agent, weights)
        self._alone: TrainedPlayer | None = None

    @property
    def spec(self) -> AgentSpec:
        """What it sees and can do."""
        return self.agent.spec

    def __call__(
        self, spec: AgentSpec, settings: Settings, worlds: int, stream: Stream
    ) -> Player:
        """Return a player for a seat, as a class of players does."""
        mine = (dict(self.spec.parts), self.spec.num_actions)
        if mine != (dict(spec.parts), spec.num_actions):
            raise PlayerError(
                f"{self.__name__} cannot play agent '{spec.id}': it was trained to see "
                f"{_seen(self.spec)} and to choose among {self.spec.num_actions} actions, "
                f"not {_seen(spec)} and {spec.num_actions}."
            )
        return TrainedPlayer(
            self.agent, self.weights, self.exploration, self.noise, worlds, stream
        )

    def act(self, observation: Mapping[str, Array], legal: Array | None = None) -> int:
        """Return an action for one observation: part name to array.

        It remembers what it saw before, as in training; `reset` starts an episode.
        """
        if self._alone is None:
            stream = Stream(0, Purpose.PLAYER, self.agent.number)
            self._alone = TrainedPlayer(self.agent, self.weights, 0.0, False, 1, stream)
        parts = {name: np.asarray(array)[None] for name, array in observation.items()}
        mask = None if legal is None else np.asarray(legal, bool)[None]
        batch_of_one = Observation(parts, np.ones(1, bool), mask)
        return int(self._alone.act(batch_of_one, 0)[0])

    def reset(self) -> None:
        """Start an episode: forget what was seen."""
        if self._alone is not None:
            self._alone.forget(np.ones(1, bool))


def _seen(spec: AgentSpec) -> str:
    return ", ".join(f"{name} {part}" for name, part in spec.parts.items())


class TrainedPlayer(Player):
    """Plays one agent with weights it has learned.

    It stacks what it saw from rows, just as the actor does in training.
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
        agent = agent
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
        """Choose by the network; the stream only serves exploration."""
        self._writer.write_observation(
            self._turn, observation.parts, observation.active, observation.legal, self._age
        )
        turns = np.full(self.worlds, self._turn)
        worlds = np.arange(self.worlds)
        seen = {
            name: stack(self._rows, name, turns, worlds, self._frames)
            for name in self._rows.parts
        }
        draws = self.draw(turn, 2)[None]
        hidden = list(self.memory.values())
        moment = PolicyInput([seen], [observation.legal], draws, self._exploration, hidden)
        with standard_state():
            choice = self._policy.act(moment)
        if choice.hidden is not None:
            self.memory["hidden"][observation.active] = choice.hidden[0][observation.active]
        self._turn += 1
        self._age += 1
        return choice.actions[0]

    def forget(self, starting: Array) -> None:
        """Stack nothing from before the episode that starts."""
        super().forget(starting)
        self._age[starting] = 0

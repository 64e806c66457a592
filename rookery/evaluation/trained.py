"""Trained agents outside a run: as players, or for the user's own observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput, PolicyOutput
from rookery.algorithms.common.exploration import probabilities_of
from rookery.algorithms.custom.loading import is_custom
from rookery.algorithms.torch_setup import standard_state
from rookery.config.base import Settings
from rookery.config.messages import cut
from rookery.errors import AlgorithmError, ObservationError, PlayerError
from rookery.evaluation.inputs import Batch, InputReader
from rookery.games.players import Observation, Player
from rookery.replay.buffer import ReplayWriter
from rookery.replay.frames import stack
from rookery.replay.rows import Rows
from rookery.rng import Purpose, Stream
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Array

EXACT_ROWS = 4
"""A matrix product gives every row the same bits in any number of rows from this one on.

With fewer rows torch computes in another order; see tests/evaluation/test_trained.py.
"""


class TrainedAgent:
    """An agent with trained weights.

    Let it play a game (`rookery.play("treasurehunt", {0: agent})`), or ask it about
    observations of your own: `act`, `values` and `probabilities` take one observation or a
    batch, and check it. `act` remembers what it observed, for frame stacking and recurrent
    networks, until `reset`; the other two remember nothing. The agent computes with the
    bits of training, whether it is asked about one observation or many.

    An observation is a mapping from part name to array (`agent.spec.parts` has their shapes
    and types). An agent of a PettingZoo or Gymnasium game also takes that game's own
    observation, and then returns the game's own actions.
    """

    def __init__(
        self,
        agent: Agent,
        weights: Mapping[str, Array],
        name: str = "trained",
        exploration: float = 0.0,
        noise: bool = False,
        *,
        worlds: int = EXACT_ROWS,
        game: str = "",
        round: int | None = None,
    ) -> None:
        """Load weights into an agent.

        Args:
            agent: its spec, settings and algorithm.
            weights: by name, without padding.
            name: of the player in tables and files.
            exploration: probability of a random action; above 0, agents that learn a
                policy sample from it.
            noise: whether networks that explore by noise do so.
            worlds: of the run that it was trained in, which decides the bits.
            game: the name of the game that it was trained in.
            round: the round that the weights are from.
        """
        self.agent, self.exploration, self.noise = agent, exploration, noise
        self.named = dict(weights)
        """The weights by name, without padding."""
        self.__name__ = name
        self.game, self.round, self.worlds = game, round, worlds
        self.weights = agent.learner.flat_weights(agent, weights)
        of_game = f" of {game}" if game else ""
        self._reader = InputReader(agent.spec, f"agent '{agent.id}'{of_game}")
        self._player: TrainedPlayer | None = None
        """Remembers what `act` was given, one world per observation of a batch."""
        self._turn = 0
        """How often it has acted: the key of random numbers, also across episodes."""

    def __repr__(self) -> str:
        fields = [
            self.game or None,
            f"agent {self.agent.id}",
            self.agent.settings.algorithm,
        ]
        fields.append(None if self.round is None else f"round {self.round}")
        return f"TrainedAgent({cut(', '.join(filter(None, fields)))})"

    @property
    def id(self) -> str:
        """The agent's id in the game that it was trained in."""
        return self.agent.id

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
        return TrainedPlayer(self, worlds, stream)

    def act(self, observation: Any, legal: Any = None) -> int | Array:
        """Return the action for one observation, or (n,) actions for a batch.

        Earlier observations are stacked, and hidden states carried on, as in training.
        Call `reset` when an episode starts. A batch is n episodes side by side: each row
        has its own memory.

        Args:
            observation: part name to array, or a foreign game's own observation; in a
                batch, every array has a leading axis.
            legal: (actions,) or (n, actions), which actions are legal; by default all are.
                Foreign observations with an action mask contain it already.

        Raises:
            ObservationError: in one line, if the observation is not what it observes.
        """
        batch = self._reader.read(observation, legal)
        player = self._player_for(batch)
        actions = player.act(_as_observation(batch), self._turn) + batch.first_action
        self._turn += 1
        return int(actions[0]) if batch.is_single else actions

    def values(self, observation: Any, legal: Any = None) -> Any:
        """Return what the agent expects, from what `act` remembers and this observation.

        Value-based algorithms give the value of every action, (actions,), also of illegal
        ones; IQN the mean over its quantiles. PPO and its relatives give the value of the
        state, one number. A batch has a leading axis.

        Args:
            observation: as in `act`.
            legal: as in `act`.

        Raises:
            AlgorithmError: if the algorithm, one of the user's own, estimates no values.
            ObservationError: if the observation is not what the agent observes.
        """
        batch, _, output = self._look(observation, legal)
        if output.action_values is not None:
            values = output.action_values[0]
        elif self.agent.policy.estimates_values():
            values = output.values[0]
        else:
            raise AlgorithmError(
                f"agent '{self.id}' has no values: {self.agent.settings.algorithm} gives "
                "probabilities; ask for those."
            )
        return values[0] if batch.is_single else values

    def probabilities(self, observation: Any, legal: Any = None) -> Array:
        """Return the probability of every action, (actions,); a batch has a leading axis.

        PPO and its relatives give their policy, which `act` follows if `exploration` is
        above 0, and of which it takes the most likely action otherwise. Value-based
        algorithms give the best action everything, less what `exploration` gives the
        others. Illegal actions have probability 0.

        Args:
            observation: as in `act`.
            legal: as in `act`.

        Raises:
            ObservationError: if the observation is not what the agent observes.
        """
        batch, policy_input, output = self._look(observation, legal)
        table = probabilities_of([self.agent], policy_input, output)[0]
        return table[0] if batch.is_single else table

    def reset(self, which: Any = None) -> None:
        """Start an episode: forget earlier observations and hidden states.

        Args:
            which: the rows of the batch in which an episode starts, as bools or indices;
                by default all, and the next batch can have another size.
        """
        player = self._player
        if which is None:
            if player is not None:
                player.forget(np.ones(player.worlds, bool))
                player.turn = 0
            return
        size = 0 if player is None else player.worlds
        starting, rows = np.zeros(size, bool), np.asarray(which)
        try:
            starting[rows if rows.size else []] = True
        except IndexError:
            raise ObservationError(
                f"agent '{self.id}' cannot reset {which!r}: the last batch had {size} "
                "observations; pass (n,) bools, or indices below n."
            ) from None
        if player is not None:
            player.forget(starting)

    def _look(
        self, observation: Any, legal: Any
    ) -> tuple[Batch, PolicyInput, PolicyOutput]:
        batch = self._reader.read(observation, legal)
        player = self._player_for(batch)
        return batch, *player.look(_as_observation(batch), self._turn)

    def _player_for(self, batch: Batch) -> TrainedPlayer:
        """Return the player that remembers earlier batches; refuse another batch size."""
        player, size = self._player, len(batch)
        if player is not None and player.worlds != size:
            if player.turn and player.remembers:
                raise ObservationError(
                    f"agent '{self.id}' got {_count(size)} after {_count(player.worlds)}, "
                    "and remembers each of them: pass as many as before, or call reset() "
                    "first."
                )
            player = None
        if player is None:
            stream = Stream(0, Purpose.PLAYER, self.agent.number)
            self._player = player = TrainedPlayer(self, size, stream)
        player.exploration = self.exploration  # it may have been changed
        return player


def _count(size: int) -> str:
    return "one observation" if size == 1 else f"a batch of {size}"


def _as_observation(batch: Batch) -> Observation:
    return Observation(batch.parts, np.ones(len(batch), bool), batch.legal)


def _parts_text(spec: AgentSpec) -> str:
    return ", ".join(f"{name} {part}" for name, part in spec.parts.items())


class TrainedPlayer(Player):
    """A player that acts by trained weights.

    Observations are stacked from rows, as the actor does in training.
    """

    def __init__(self, trained: TrainedAgent, worlds: int, stream: Stream) -> None:
        agent = trained.agent
        super().__init__(agent.spec, agent.settings, worlds, stream)
        self.exploration = trained.exploration
        self._frames = agent.settings.frames
        self._rows = Rows(Block.private(Rows.layout(agent.spec, worlds, self._frames)))
        if agent.hidden:
            self.memory["hidden"] = np.zeros((worlds, agent.hidden), np.float32)
        self._writer = ReplayWriter(self._rows)
        with standard_state():
            self._policy = agent.policy([agent], 0)
            self._policy.begin_round([trained.weights], 0, trained.noise)
        # Nothing is known about how users' code computes.
        is_any_size_exact = trained.worlds >= EXACT_ROWS and not is_custom(
            agent.settings.algorithm
        )
        self._passes = list(_passes(worlds, trained.worlds, is_any_size_exact))
        self._age = np.zeros(worlds, np.int32)
        self.turn = 0
        """The number of observations so far, since all were forgotten at once."""

    @property
    def remembers(self) -> bool:
        """Whether its actions depend on more than the last observation."""
        return self._frames > 1 or bool(self.memory)

    def act(self, observation: Observation, turn: int) -> Array:
        """Return the network's actions; random numbers are only used to explore."""
        _, output = self.look(observation, turn)
        if output.hidden is not None:
            active = observation.active
            self.memory["hidden"][active] = output.hidden[0][active]
        self.turn += 1
        self._age += 1
        return output.actions[0]

    def look(self, observation: Observation, turn: int) -> tuple[PolicyInput, PolicyOutput]:
        """Return what the policy gets and returns now, and remember nothing of it.

        The observation is written where the next one will overwrite it.
        """
        legal = observation.legal
        self._writer.write_observation(
            self.turn,
            observation.parts,
            observation.active,
            legal if self.spec.masked else None,
            self._age,
        )
        turns = np.full(self.worlds, self.turn)
        worlds = np.arange(self.worlds)
        observations = {
            name: stack(self._rows, name, turns, worlds, self._frames)
            for name in self._rows.parts
        }
        draws = self.draw(turn, 2)[None]
        policy_input = PolicyInput(
            [observations],
            [legal],
            draws,
            np.array([self.exploration]),
            list(self.memory.values()),
        )
        with standard_state():
            outputs = [
                self._policy.act(_rows_of(policy_input, rows)) for rows in self._passes
            ]
        return policy_input, _joined(outputs, self.worlds)

    def forget(self, starting: Array) -> None:
        """Forget everything before the episodes that start."""
        super().forget(starting)
        self._age[starting] = 0


# Bits. A pass over a few rows is computed in another order than one over more, so rows are
# repeated until there are enough.


def _passes(rows: int, worlds: int, is_any_size_exact: bool) -> Iterator[Array]:
    """Yield the rows of each pass, so that all have the bits of training.

    Args:
        rows: how many there are.
        worlds: how many there were in a pass of training.
        is_any_size_exact: whether passes of any size from `EXACT_ROWS` on give these bits;
            otherwise all passes have the size of those in training.
    """
    size = max(rows, EXACT_ROWS) if is_any_size_exact else worlds
    for start in range(0, rows, size):
        yield np.minimum(np.arange(start, start + size), rows - 1)


def _rows_of(inputs: PolicyInput, rows: Array) -> PolicyInput:
    """Return some rows of the input of one agent's policy."""
    count = inputs.draws.shape[1]
    if len(rows) == count:
        return inputs
    ((parts,), (legal,)) = inputs.observations, inputs.legal
    return PolicyInput(
        [{name: array[rows] for name, array in parts.items()}],
        [None if legal is None else legal[rows]],
        inputs.draws[:, rows],
        inputs.exploration,
        [hidden[rows] for hidden in inputs.hidden],
    )


def _joined(outputs: list[PolicyOutput], rows: int) -> PolicyOutput:
    """Return the outputs of several passes as one, without repeated rows."""
    if len(outputs) == 1 and outputs[0].actions.shape[1] == rows:
        return outputs[0]
    joined = {
        name: np.concatenate([vars(output)[name] for output in outputs], axis=1)[:, :rows]
        for name, array in vars(outputs[0]).items()
        if array is not None
    }
    return replace(outputs[0], **joined)

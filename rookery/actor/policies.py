"""From published weights to actions: runs the policies of learning and frozen agents.

In the deterministic schedules a round is played with exactly one version, read in place:
its slot is not overwritten before the round is over. In `async` the newest version is
copied, and the copy counts only if the version counter has not moved in the meantime.

Agents of one group that act in the same phase are computed in one pass. Their
observations are read from the rows they were just written to, so an agent acts on exactly
what it will learn from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rookery.algorithms.base import WEIGHTS, Agent, Policy, PolicyInput, PolicyOutput
from rookery.algorithms.torch_setup import are_denormals_flushed, standard_state
from rookery.protocol.arena import Arena
from rookery.replay.drawing import RowObservations
from rookery.replay.rows import Rows, hidden_at
from rookery.rng import Purpose, Stream
from rookery.specs import Array

DRAWS = 2
"""Random numbers per agent, world and turn."""
DRAWN_TURNS = 64
"""Turns whose random numbers are drawn in one call: a call costs more than its numbers."""
PHASES_KEPT = 1024
"""Phases whose groups are remembered; agents in random order have many."""


@dataclass
class Weights:
    """The weights that agents act with and their versions, by agent number."""

    arrays: dict[int, Array] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)


class PublishedWeights:
    """Reads the published weights of all agents that are not scripted."""

    def __init__(self, arena: Arena, agents: Sequence[Agent]) -> None:
        acting = [agent for agent in agents if not agent.is_scripted]
        self._states = {agent.number: arena.states(agent.id) for agent in acting}
        self._learning = {agent.number for agent in acting if agent.learns}
        self._taken: dict[int, int] = {}
        """The newest version that was copied, by agent number."""

    def exact(self, version: int) -> Weights:
        """Return the weights of one version; those of frozen agents never change."""
        weights = Weights()
        for number, states in self._states.items():
            weights.versions[number] = version if number in self._learning else 0
            weights.arrays[number] = states.read(weights.versions[number])[WEIGHTS]
        return weights

    def newest(self) -> Weights:
        """Return copies of the newest weights of all agents."""
        self._taken.clear()
        return self.newer()

    def newer(self) -> Weights:
        """Return copies of the weights published since the last copies were taken."""
        weights = Weights()
        for number, states in self._states.items():
            if states.version > self._taken.get(number, -1):
                version, arrays = states.newest((WEIGHTS,))
                self._taken[number] = version
                weights.versions[number] = version
                weights.arrays[number] = arrays[WEIGHTS]
        return weights


@dataclass
class AgentOutput:
    """The policy output of one agent; arrays are (worlds,)."""

    actions: Array
    probabilities: Array
    values: Array
    entropies: Array
    hidden: Array | None = None
    """(worlds, units): the next hidden state of a recurrent agent."""


@dataclass(frozen=True, slots=True)
class ActingGroup:
    """The agents of a group that act in a phase."""

    numbers: tuple[int, ...]
    agents: Array
    """Their numbers, as an array."""
    places: Array
    """Their places in the phase."""


def by_agent(
    outputs: Sequence[tuple[ActingGroup, PolicyOutput]],
) -> dict[int, AgentOutput]:
    """Return the outputs of groups by agent number."""
    agents: dict[int, AgentOutput] = {}
    for group, output in outputs:
        columns = [output.actions, output.probabilities, output.values, output.entropies]
        if output.hidden is not None:
            columns.append(output.hidden)
        for i, *arrays in zip(group.numbers, *columns, strict=True):
            agents[i] = AgentOutput(*arrays)
    return agents


class PolicyRunner:
    """Selects the actions of all agents that are not scripted."""

    def __init__(
        self,
        groups: Sequence[Sequence[Agent]],
        seed: int,
        worlds: int,
        first_world: int = 0,
    ) -> None:
        """Prepare the policies.

        Args:
            groups: the agents that are computed together.
            seed: of the run.
            worlds: how many worlds they act in.
            first_world: the number of the first; random numbers are keyed by it.
        """
        self._groups = groups
        self._agents = {agent.number: agent for group in groups for agent in group}
        self._seed, self._worlds = seed, np.arange(worlds)
        self._world_numbers = first_world + self._worlds
        self._stream = Stream(seed, Purpose.ACTOR)
        self._policies: dict[tuple[int, ...], Policy] = {}
        self._ready: set[tuple[int, ...]] = set()
        """The policies that have the current weights."""
        self._weights: dict[int, Array] = {}
        self._drawn: dict[tuple[int, ...], tuple[int, Array]] = {}
        self._round = 0
        self._acting: dict[tuple[int, ...], list[ActingGroup]] = {}
        """The groups that act in a phase, for phases that have been seen."""

    def begin_round(self, number: int, weights: Mapping[int, Array]) -> None:
        """Set the weights for a round, by agent number."""
        self._round, self._weights = number, dict(weights)
        self._ready.clear()

    def update_weights(self, weights: Mapping[int, Array]) -> None:
        """Replace the weights of some agents in the middle of a round."""
        self._weights |= weights
        self._ready -= {numbers for numbers in self._ready if weights.keys() & set(numbers)}

    def act(
        self,
        numbers: Sequence[int],
        rows: Mapping[int, Rows],
        legal: Mapping[int, Array | None],
        turn: int,
        exploration: Callable[[int], float],
    ) -> list[tuple[ActingGroup, PolicyOutput]]:
        """Return the output of every group with agents in `numbers`.

        Args:
            numbers: the agents that act in this phase.
            rows: by agent number; the observations of this turn are already in them.
            legal: by agent number, (worlds, actions); None if all actions are legal.
            turn: which rows to act on.
            exploration: returns an agent's probability of a random action.
        """
        return [
            (group, self._act_group(group.numbers, rows, legal, turn, exploration))
            for group in self._groups_in(tuple(numbers))
        ]

    def _groups_in(self, phase: tuple[int, ...]) -> list[ActingGroup]:
        known = self._acting.get(phase)
        if known is not None:
            return known
        acting = []
        for group in self._groups:
            numbers = tuple(agent.number for agent in group if agent.number in phase)
            if numbers:
                places = np.array([phase.index(i) for i in numbers])
                acting.append(ActingGroup(numbers, np.array(numbers), places))
        if len(self._acting) == PHASES_KEPT:  # games can act in any number of orders
            self._acting.clear()
        self._acting[phase] = acting
        return acting

    def _act_group(
        self,
        numbers: tuple[int, ...],
        rows: Mapping[int, Rows],
        legal: Mapping[int, Array | None],
        turn: int,
        exploration: Callable[[int], float],
    ) -> PolicyOutput:
        turns = np.empty(len(self._worlds), np.int64)
        turns.fill(turn)
        frames = self._agents[numbers[0]].settings.frames
        policy_input = PolicyInput(
            [RowObservations(rows[i], turns, self._worlds, frames) for i in numbers],
            [legal[i] for i in numbers],
            self._draws(numbers, turn),
            np.array([exploration(i) for i in numbers]),
            [hidden_at(rows[i], turn) for i in numbers if "hidden" in rows[i].columns],
        )
        policy = self._policy(numbers)
        if policy.is_compiled and not are_denormals_flushed():
            return policy.act(policy_input)
        with standard_state():
            return policy.act(policy_input)

    def _draws(self, numbers: tuple[int, ...], turn: int) -> Array:
        """Return (agents, worlds, 2) random numbers, keyed by agent, world and turn."""
        first = turn - turn % DRAWN_TURNS
        drawn_first, drawn = self._drawn.get(numbers, (-1, self._worlds))
        if drawn_first != first:
            shape = (DRAWN_TURNS, len(numbers), len(self._worlds))
            turns, number_grid, worlds = np.meshgrid(
                np.arange(first, first + DRAWN_TURNS),
                numbers,
                self._world_numbers,
                indexing="ij",
            )
            keys = (number_grid.ravel(), worlds.ravel(), turns.ravel())
            drawn = self._stream.uniform(keys, 0, DRAWS).reshape(*shape, DRAWS)
            self._drawn[numbers] = (first, drawn)
        return drawn[turn - first]

    def _policy(self, numbers: tuple[int, ...]) -> Policy:
        """Return the policy of exactly these agents, with their current weights."""
        if numbers not in self._policies:
            agents = [self._agents[i] for i in numbers]
            with standard_state():
                self._policies[numbers] = agents[0].policy(agents, self._seed)
        policy = self._policies[numbers]
        if numbers not in self._ready:
            with standard_state():
                policy.begin_round([self._weights[i] for i in numbers], self._round)
            self._ready.add(numbers)
        return policy


def exploration_of(agent: Agent, steps: int) -> float:
    """Return an agent's probability of a random action after so many of its own steps."""
    return agent.learner.exploration(agent.settings, steps)

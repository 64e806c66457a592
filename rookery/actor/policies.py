"""Acting for a company: weights, players and chance become actions.

Agents of one group that act in the same phase do so in one pass. What an agent sees is
stacked from the rows it was just written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.algorithms.base import Agent, Policy, PolicyInput
from rookery.algorithms.torch_setup import standard_state
from rookery.replay.rows import Rows, hidden_at, stack
from rookery.rng import Purpose, Stream
from rookery.specs import Array

DRAWS = 2
AHEAD = 64


@dataclass
class AgentOutput:
    """What one agent did in all worlds; arrays are (worlds,)."""

    actions: Array
    probabilities: Array
    values: Array
    entropies: Array
    hidden: Array | None = None
    """(worlds, numbers): what a recurrent agent carries on."""


class PolicyRunner:
    """The acting side of all learning and frozen agents of a company."""

    def __init__(self, groups: Sequence[Sequence[Agent]], seed: int, worlds: int) -> None:
        self._groups = groups
        self._agents = {m.number: m for group in groups for m in group}
        self._seed, self._worlds = seed, np.arange(worlds)
        self._stream = Stream(seed, Purpose.ACTOR)
        self._policies: dict[tuple[int, ...], Policy] = {}
        self._ready: set[tuple[int, ...]] = set()
        self._weights: dict[int, Array] = {}
        self._drawn: dict[tuple[int, ...], tuple[int, Array]] = {}
        self._round = 0

    def begin_round(self, number: int, weights: Mapping[int, Array]) -> None:
        """Take the weights of a round, by agent number."""
        self._round, self._weights = number, dict(weights)
        self._ready.clear()

    def renew(self, weights: Mapping[int, Array]) -> None:
        """Take newer weights of some agents in the middle of a round."""
        self._weights |= weights
        self._ready -= {numbers for numbers in self._ready if weights.keys() & set(numbers)}

    def act(
        self,
        numbers: Sequence[int],
        rows: Mapping[int, Rows],
        legal: Mapping[int, Array | None],
        turn: int,
        exploration: Callable[[int], float],
    ) -> dict[int, AgentOutput]:
        """Choose for some agents, in as few passes as possible."""
        found: dict[int, AgentOutput] = {}
        for group in self._groups:
            chosen = tuple(m.number for m in group if m.number in numbers)
            if chosen:
                found |= self._act_group(chosen, rows, legal, turn, exploration)
        return found

    def _act_group(
        self,
        numbers: tuple[int, ...],
        rows: Mapping[int, Rows],
        legal: Mapping[int, Array | None],
        turn: int,
        exploration: Callable[[int], float],
    ) -> dict[int, AgentOutput]:
        turns = np.full(len(self._worlds), turn)
        frames = self._agents[numbers[0]].settings.frames
        seen = [
            {
                name: stack(rows[i], name, turns, self._worlds, frames)
                for name in rows[i].parts
            }
            for i in numbers
        ]
        moment = PolicyInput(
            seen,
            [legal[i] for i in numbers],
            self._draws(numbers, turn),
            np.array([exploration(i) for i in numbers]),
            [hidden_at(rows[i], turn) for i in numbers if "hidden" in rows[i].columns],
        )
        with standard_state():
            choice = self._policy(numbers).act(moment)
        columns = [choice.actions, choice.probabilities, choice.values, choice.entropies]
        if choice.hidden is not None:
            columns.append(choice.hidden)
        return {i: AgentOutput(*own) for i, *own in zip(numbers, *columns, strict=True)}

    def _draws(self, numbers: tuple[int, ...], turn: int) -> Array:
        """Return (agents, worlds, 2) numbers, keyed by agent, world and turn.

        Those of many turns are made in one call, because a call costs more than they do.
        """
        first = turn - turn % AHEAD
        made, drawn = self._drawn.get(numbers, (-1, self._worlds))
        if made != first:
            shape = (AHEAD, len(numbers), len(self._worlds))
            turns, number_grid, worlds = np.meshgrid(
                np.arange(first, first + AHEAD), numbers, self._worlds, indexing="ij"
            )
            place = (number_grid.ravel(), worlds.ravel(), turns.ravel())
            drawn = self._stream.uniform(place, 0, DRAWS).reshape(*shape, DRAWS)
            self._drawn[numbers] = (first, drawn)
        return drawn[turn - first]

    def _policy(self, numbers: tuple[int, ...]) -> Policy:
        """Return the policy of just these agents, with the weights of the round."""
        if numbers not in self._policies:
            agents = [self._agents[i] for i in numbers]
            agents = list(agents)
            self._policies[numbers] = agents[0].policy(agents, self._seed)
        policy = self._policies[numbers]
        if numbers not in self._ready:
            policy.begin_round([self._weights[i] for i in numbers], self._round)
            self._ready.add(numbers)
        return policy


def exploration_of(agent: Agent, steps: int) -> float:
    """Return an agent's chance of a random action after so many of its own steps."""
    learner = agent.learner
    return learner.exploration(agent.settings, steps)

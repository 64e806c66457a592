"""Train agents again from rows that were played before, without a game.

Agents are trained and act exactly as in a run: with the same learners, in the same groups,
in the same order. So the result is what a run would have learned from these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.actor.policies import PolicyRunner, by_agent, exploration_of
from rookery.algorithms.base import Agent, Learner
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.torch_setup import standard_state
from rookery.learner.exactness import split_groups
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array
from rookery.studies.independence.variations import Experience

ACTING = "acting."
ACTING_TURNS = 2
"""Turns that agents act in at the end: the second depends on state left by the first."""

StateHistory = dict[str, list[dict[str, Array]]]
"""The states of every agent by id, round by round, by name and without padding."""


@dataclass(frozen=True)
class Rounds:
    """The rounds that were played."""

    seed: int
    rounds: int
    turns_per_round: int
    worlds: int

    @property
    def turns(self) -> int:
        """The number of turns in all rounds."""
        return self.rounds * self.turns_per_round


class _Group:
    """Agents that learn in one computation."""

    def __init__(self, experiences: Sequence[Experience], rounds: Rounds) -> None:
        self.agents = [experience.agent for experience in experiences]
        self._turns = rounds.turns_per_round
        self._learner: Learner = self.agents[0].learner(self.agents, rounds.seed)
        self._readers: list[ReplayReader] = [
            reader_of(experience.agent, experience.rows, self._turns)
            for experience in experiences
        ]
        self._learner.load([self._learner.initial(agent) for agent in self.agents])

    def learn(self, number: int) -> Iterator[tuple[str, dict[str, Array]]]:
        """Learn from a round; yield the id and the new state of every agent."""
        for reader in self._readers:
            reader.advance(number * self._turns)
        self._learner.learn(self._readers, number, (number - 1) * self._turns)
        for agent, state in zip(self.agents, self._learner.save(), strict=True):
            copied = {name: np.array(array) for name, array in state.items()}
            yield agent.id, self._learner.named(copied)

    def weights(self) -> dict[int, Array]:
        """Return the weights that agents act with, by agent number."""
        numbers = [agent.number for agent in self.agents]
        states = self._learner.save()
        return {i: np.array(s["weights"]) for i, s in zip(numbers, states, strict=True)}


@standard_state()
def retrain(
    experiences: Sequence[Experience], exact_groups: Sequence[set[str]], rounds: Rounds
) -> StateHistory:
    """Train agents from their rows, then have them act; return all states.

    Args:
        experiences: the agents that learn, and their rows.
        exact_groups: ids of agents that are known to get the same bits when stacked.
        rounds: the rounds that the rows are from.
    """
    by_id = {experience.agent.id: experience for experience in experiences}
    agents = [experience.agent for experience in experiences]
    stacked = _stacked(agents, exact_groups, rounds)
    groups = [_Group([by_id[agent.id] for agent in group], rounds) for group in stacked]
    history: StateHistory = {agent.id: [] for agent in agents}
    for number in range(1, rounds.rounds + 1):
        for group in groups:
            for agent_id, state in group.learn(number):
                history[agent_id].append(state)
    weights = {i: w for group in groups for i, w in group.weights().items()}
    for agent_id, outputs in _act(experiences, stacked, weights, rounds).items():
        history[agent_id][-1] |= outputs
    return history


def _stacked(
    agents: Sequence[Agent], exact_groups: Sequence[set[str]], rounds: Rounds
) -> list[list[Agent]]:
    """Return agents by group; groups that have not been checked for exactness are now."""
    groups: list[list[Agent]] = []
    for group in groups_of(agents):
        ids = {agent.id for agent in group}
        if any(ids <= known for known in exact_groups):
            groups.append(group)
        else:
            sizes = (rounds.seed, rounds.worlds, rounds.turns_per_round)
            groups += split_groups([group], *sizes).exact
    return groups


def _act(
    experiences: Sequence[Experience],
    groups: Sequence[Sequence[Agent]],
    weights: Mapping[int, Array],
    rounds: Rounds,
) -> dict[str, dict[str, Array]]:
    """Have agents act on their last rows; return the policies' outputs by agent id."""
    agents = {experience.agent.number: experience.agent for experience in experiences}
    rows = {experience.agent.number: experience.rows for experience in experiences}
    policies = PolicyRunner(groups, rounds.seed, rounds.worlds)
    policies.begin_round(rounds.rounds + 1, weights)
    outputs: dict[str, dict[str, Array]] = {agent.id: {} for agent in agents.values()}
    for turn in range(rounds.turns - ACTING_TURNS, rounds.turns):
        legal = {
            i: own.columns["legal"][turn % own.slots] if "legal" in own.columns else None
            for i, own in rows.items()
        }
        outputs_of_groups = policies.act(
            list(agents), rows, legal, turn, lambda i: exploration_of(agents[i], 0) / 2
        )
        for i, output in by_agent(outputs_of_groups).items():
            for name, array in vars(output).items():
                outputs[agents[i].id][f"{ACTING}{name} {turn}"] = np.array(array)
    return outputs

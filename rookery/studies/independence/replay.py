"""Learning again from rows that were played before, without a game.

Everybody is trained and acts as in a run: the same rules, the same groups, in the same
order. So what comes out is what a run would have learned from these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rookery.actor.policies import PolicyRunner, exploration_of
from rookery.algorithms.agents import groups_of
from rookery.algorithms.base import Agent, Learner
from rookery.algorithms.torch_setup import standard_state
from rookery.learner.exactness import split_groups
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayReader
from rookery.specs import Array
from rookery.studies.independence.variations import Life

ACTING = "acting."
TURNS = 2
"""Turns that everybody acts in at the end: the second shows what the first left behind."""

VersionedState = dict[str, list[dict[str, Array]]]
"""Agent id to its states, by name and without padding, round by round."""


class Rounds:
    """So many rounds of so many turns, under a seed."""

    def __init__(self, seed: int, rounds: int, turns: int, worlds: int) -> None:
        self.seed, self.rounds, self.turns, self.worlds = seed, rounds, turns, worlds

    @property
    def last(self) -> int:
        """All turns that were played."""
        return self.rounds * self.turns


class _Class:
    """A group that learns together."""

    def __init__(self, lives: Sequence[Life], rounds: Rounds) -> None:
        self.lives, self._turns = lives, rounds.turns
        self.agents = [life.agent for life in lives]
        self._learner: Learner = self.agents[0].learner(self.agents, rounds.seed)
        self._readers: list[ReplayReader] = [
            reader_of(life.agent, life.rows, rounds.turns) for life in lives
        ]
        self._learner.load([self._learner.initial(agent) for agent in self.agents])

    def learn(self, number: int) -> Iterator[tuple[str, dict[str, Array]]]:
        """Learn a round; give every agent's state."""
        for reader in self._readers:
            reader.advance(number * self._turns)
        self._learner.learn(self._readers, number, (number - 1) * self._turns)
        for agent, state in zip(self.agents, self._learner.save(), strict=True):
            copied = {name: np.array(array) for name, array in state.items()}
            yield agent.id, self._learner.named(copied)

    def weights(self) -> dict[int, Array]:
        """Return what everybody acts with, by number."""
        numbers = [agent.number for agent in self.agents]
        states = self._learner.save()
        return {i: np.array(s["weights"]) for i, s in zip(numbers, states, strict=True)}


@standard_state()
def relearn(
    lives: Sequence[Life], together: Sequence[set[str]], rounds: Rounds
) -> VersionedState:
    """Train everybody from their rows, then let them act; return all states.

    Args:
        lives: who learns, and from what.
        together: ids that are known to be one computation with the bits they get alone.
        rounds: how many, and how long.
    """
    by_id = {life.agent.id: life for life in lives}
    groups = _groups([life.agent for life in lives], together, rounds)
    classes = [_Class([by_id[m.id] for m in group], rounds) for group in groups]
    found: VersionedState = {life.agent.id: [] for life in lives}
    for number in range(1, rounds.rounds + 1):
        for one in classes:
            for agent, state in one.learn(number):
                found[agent].append(state)
    weights = {i: w for one in classes for i, w in one.weights().items()}
    for agent, acted in _act(lives, groups, weights, rounds).items():
        found[agent][-1] |= acted
    return found


def _groups(
    agents: Sequence[Agent], together: Sequence[set[str]], rounds: Rounds
) -> list[list[Agent]]:
    """Return who is one computation; what was not compared before is compared now."""
    found: list[list[Agent]] = []
    for group in groups_of(agents):
        ids = {agent.id for agent in group}
        if any(ids <= known for known in together):
            found.append(group)
        else:
            about = (rounds.seed, rounds.worlds, rounds.turns)
            found += split_groups([group], *about)[0]
    return found


def _act(
    lives: Sequence[Life],
    groups: Sequence[Sequence[Agent]],
    weights: Mapping[int, Array],
    rounds: Rounds,
) -> dict[str, dict[str, Array]]:
    """Let everybody act on its last rows; return what each did, and how surely."""
    agents = {life.agent.number: life.agent for life in lives}
    rows = {life.agent.number: life.rows for life in lives}
    policies = PolicyRunner(groups, rounds.seed, rounds.worlds)
    policies.begin_round(rounds.rounds + 1, weights)
    found: dict[str, dict[str, Array]] = {m.id: {} for m in agents.values()}
    for turn in range(rounds.last - TURNS, rounds.last):
        legal = {
            i: own.columns["legal"][turn % own.slots] if "legal" in own.columns else None
            for i, own in rows.items()
        }
        acted = policies.act(
            list(agents), rows, legal, turn, lambda i: exploration_of(agents[i], 0) / 2
        )
        for i, one in acted.items():
            for name, array in vars(one).items():
                found[agents[i].id][f"{ACTING}{name} {turn}"] = np.array(array)
    return found

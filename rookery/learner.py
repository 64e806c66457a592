"""The learner: stage 4 of the data path, what trains some agents of a company.

For each round it takes in the rows up to a border, lets every group make its updates, and
publishes the new state of every agent. It knows rows and states, and no game.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from rookery.algorithms.base import Metrics, Rule
from rookery.algorithms.rewards import shaped
from rookery.company import Member, capacity_of
from rookery.memory.arena import Arena
from rookery.memory.replay import ReplayReader
from rookery.memory.rows import Rows
from rookery.stopping import StopFlag


@dataclass
class Learned:
    """What a round of learning brought."""

    metrics: dict[str, Metrics] = field(default_factory=dict)
    """Agent id to metric name to value."""
    seconds: float = 0.0


class Learner:
    """Trains groups of agents, one round at a time."""

    def __init__(
        self,
        groups: Sequence[Sequence[Member]],
        arena: Arena,
        seed: int,
        turns_per_round: int,
        stop: StopFlag | None = None,
    ) -> None:
        self._turns = turns_per_round
        self._stop = stop or StopFlag()
        self._groups = [_Group(members, arena, seed, turns_per_round) for members in groups]

    def begin(self) -> None:
        """Take every agent's first state: version 0."""
        for group in self._groups:
            group.begin()

    def learn_round(self, number: int, border: int) -> Learned:
        """Learn round `number` from all rows up to a border, and publish it."""
        started = time.perf_counter()
        learned = Learned()
        for group in self._groups:
            self._stop.check()
            learned.metrics |= group.learn(number, border * self._turns, self._turns)
        learned.seconds = time.perf_counter() - started
        return learned


class _Group:
    """Agents that are trained as one computation."""

    def __init__(
        self, members: Sequence[Member], arena: Arena, seed: int, turns: int
    ) -> None:
        algorithm = members[0].algorithm
        assert algorithm is not None
        self._members = members
        self._rule: Rule = algorithm.rule([member.plan for member in members], seed)
        self._readers = [
            reader_of(member, arena.rows(member.id), turns) for member in members
        ]
        self._states = [arena.states(member.id) for member in members]

    def begin(self) -> None:
        self._rule.load([states.read(0) for states in self._states])

    def learn(self, number: int, border: int, turns: int) -> dict[str, Metrics]:
        for reader in self._readers:
            reader.take_in(border)
        first = max(0, border - turns)
        metrics = self._rule.learn(self._readers, number, first)
        for states, state in zip(self._states, self._rule.save(), strict=True):
            states.publish(number, state)
        return {member.id: one for member, one in zip(self._members, metrics, strict=True)}


def reader_of(member: Member, rows: Rows, turns_per_round: int) -> ReplayReader:
    """Return the reader of an agent's rows, as its settings say."""
    settings = member.plan.settings
    on_policy = member.algorithm is not None and member.algorithm.rule.on_policy
    return ReplayReader(
        member.id,
        rows,
        capacity=capacity_of(member, turns_per_round, rows.columns["age"].shape[1]),
        frames=settings.frames,
        n_step=1 if on_policy else settings.n_step,
        discount=settings.discount,
        discount_per=settings.discount_per,
        shape_rewards=partial(shaped, settings=settings.reward),
    )

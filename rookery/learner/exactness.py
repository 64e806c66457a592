"""Who may be stacked: is it the same as alone, bit for bit, here and now?

Nothing is assumed about other processors. At the run's own shapes, learning and acting of
a group, and of two of its agents, are compared with the same agents by themselves; if
they differ, the agents run alone, and one line says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.algorithms.agents import Member
from rookery.algorithms.base import AgentPlan, Algorithm, PolicyInput
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayReader, ReplayWriter
from rookery.replay.rows import Rows
from rookery.rng import Purpose, Stream
from rookery.shm.block import Block
from rookery.specs import Array

BEFORE = 32
"""Turns before those that shapes depend on: some episodes, and steps that are open."""
EPISODE, AWAY = 13, 7
"""An episode's rows, the closing one included; in one of so many rows an agent is out."""


def split_groups(
    groups: Sequence[Sequence[Member]], seed: int, worlds: int, turns_per_round: int
) -> tuple[list[list[Member]], list[str]]:
    """Return groups whose agents can be stacked, and a line for each that was split."""
    found: list[list[Member]] = []
    lines = []
    for group in groups:
        if len(group) == 1 or is_exact(group, seed, worlds, turns_per_round):
            found.append(list(group))
        else:
            found += [[member] for member in group]
            names = ", ".join(member.id for member in group)
            lines.append(
                f"agents {names} differ in company on this machine: trained alone."
            )
    return found, lines


def is_exact(group: Sequence[Member], seed: int, worlds: int, turns_per_round: int) -> bool:
    """Whether learning and acting give every agent the bits that it gets alone."""
    algorithm = group[0].algorithm
    assert algorithm is not None
    lives = [_Life(_small(member), seed, worlds, turns_per_round) for member in group]
    alone = [digest for life in lives for digest in _digests(algorithm, [life], seed)]
    # All of them, and two: workers share a group out among themselves.
    companies = {len(lives), 2}
    return all(_digests(algorithm, lives[:n], seed) == alone[:n] for n in companies)


def _small(member: Member) -> Member:
    """Return the same agent with as little to do as shows all shapes, and at once."""
    settings = member.plan.settings
    replay = settings.replay.model_copy(update={"warmup": 1, "capacity": 10**6})
    once = {"passes": 1}
    changes = {
        "updates_per_round": 1,
        "replay": replay,
        "ppo": settings.ppo.model_copy(update=once),
        "vtrace": settings.vtrace.model_copy(update=once),
    }
    changed = settings.model_copy(update=changes)
    plan = AgentPlan(member.plan.number, member.plan.spec, changed)
    return Member(plan, member.algorithm, None, learns=True)


@dataclass(frozen=True)
class _Turn:
    """What happens to an agent in a turn; arrays are (worlds,)."""

    age: Array
    active: Array
    ended: Array


class _Life:
    """Made-up experience of an agent: episodes end, and now and then it is out.

    On-policy learners learn from one round of it, the others from one batch.
    """

    def __init__(self, member: Member, seed: int, worlds: int, turns: int) -> None:
        self.plan = member.plan
        settings, on_policy = self.plan.settings, member.on_policy
        if not on_policy:
            # Twice as many rows as steps: not in every row there is one.
            turns = 2 * (1 + settings.batch_size // worlds)
            turns += settings.recurrent.sequence if member.hidden else 0
        self.first = BEFORE if on_policy else 0
        """The first turn of the newest round."""
        self._last = BEFORE + turns - 1
        self._worlds = np.arange(worlds)
        plan = Rows.layout(self.plan.spec, worlds, BEFORE + turns, member.hidden)
        rows = Rows(Block.private(plan))
        self._writer = ReplayWriter(rows)
        self._random = np.random.default_rng((seed, self.plan.number))
        for turn in range(BEFORE + turns):
            self._live(turn, member.hidden)
        self.reader: ReplayReader = reader_of(member, rows, turns)
        self.reader.take_in(BEFORE + turns)

    def _live(self, turn: int, hidden: int) -> None:
        spec, random, worlds = self.plan.spec, self._random, len(self._worlds)
        parts = {
            name: random.integers(0, 2, (worlds, *part.shape)).astype(part.dtype)
            for name, part in spec.parts.items()
        }
        legal = random.integers(0, 2, (worlds, spec.num_actions)) > 0
        actions = random.integers(0, spec.num_actions, worlds)
        legal[self._worlds, actions] = True
        about = self._turn(turn)
        carried = random.uniform(-1, 1, (worlds, hidden)) * (about.age > 0)[:, None]
        self._writer.write_observation(
            turn,
            parts,
            about.active,
            legal if spec.masked else None,
            about.age,
            carried if hidden else None,
        )
        self._writer.write_action(turn, actions, random.uniform(0.1, 1, worlds), 0)
        rewards = random.normal(size=worlds).astype(np.float32)
        terminated = about.ended & (self._worlds % 2 == 0)
        self._writer.write_outcome(turn, rewards, terminated, about.ended & ~terminated)

    def _turn(self, turn: int) -> _Turn:
        """Return what happens, counted from the end: in world 0 a step closes in the last.

        Agents differ in the other worlds.
        """
        back = self._last - turn + self._worlds * (1 + self.plan.number)
        phase = EPISODE - 1 - back % EPISODE
        active = (back % AWAY != AWAY - 1) & (phase < EPISODE - 1)
        return _Turn(np.minimum(phase, turn), active, phase == EPISODE - 2)


def _digests(algorithm: Algorithm, lives: Sequence[_Life], seed: int) -> list[str]:
    """Return for each agent a digest of what it learned and did in this company."""
    plans = [life.plan for life in lives]
    rule = algorithm.rule(plans, seed)
    rule.load([rule.initial(plan) for plan in plans])
    rule.learn([life.reader for life in lives], 1, lives[0].first)
    states = rule.save()
    acted = _acted(algorithm, lives, [state["weights"] for state in states], seed)
    return [
        hashlib.sha256(
            b"".join(array.tobytes() for array in (*state.values(), *did))
        ).hexdigest()
        for state, did in zip(states, acted, strict=True)
    ]


def _acted(
    algorithm: Algorithm, lives: Sequence[_Life], weights: Sequence[Array], seed: int
) -> Iterator[list[Array]]:
    """Give all that each agent's choice has, in the last turn of its life."""
    plans, readers = [life.plan for life in lives], [life.reader for life in lives]
    policy = algorithm.policy(plans, seed)
    policy.begin_round(weights, 1)
    worlds = np.arange(readers[0].worlds)
    turns = np.full(len(worlds), readers[0].boundary - 1)

    def column(name: str) -> list[Array]:
        there = [reader for reader in readers if name in reader.rows.columns]
        return [reader.at(name, turns, worlds) for reader in there]

    stream, explored = Stream(seed, Purpose.ACTOR), algorithm.rule.exploration
    moment = PolicyInput(
        [reader.look(turns, worlds) for reader in readers],
        column("legal") or [None] * len(plans),
        np.stack([stream.uniform((worlds, plan.number), 0, 2) for plan in plans]),
        np.array([explored(plan.settings, 0) / 2 for plan in plans]),
        column("hidden"),
    )
    choice = policy.act(moment)
    columns = [array for array in vars(choice).values() if array is not None]
    for i in range(len(plans)):
        yield [array[i] for array in columns]

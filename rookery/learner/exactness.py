"""Who may be stacked: is it the same as alone, bit for bit, here and now?

Nothing is assumed about other processors. At the run's own shapes, learning and acting of
a group, and of two of its agents, are compared with the same agents by themselves; if
they differ, the agents run alone, and one line says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput
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
    groups: Sequence[Sequence[Agent]], seed: int, worlds: int, turns_per_round: int
) -> tuple[list[list[Agent]], list[str]]:
    """Return groups whose agents can be stacked, and a line for each that was split."""
    found: list[list[Agent]] = []
    lines = []
    for group in groups:
        if len(group) == 1 or is_exact(group, seed, worlds, turns_per_round):
            found.append(list(group))
        else:
            found += [[agent] for agent in group]
            names = ", ".join(agent.id for agent in group)
            lines.append(
                f"agents {names} differ in company on this machine: trained alone."
            )
    return found, lines


def is_exact(group: Sequence[Agent], seed: int, worlds: int, turns_per_round: int) -> bool:
    """Whether learning and acting give every agent the bits that it gets alone."""
    lives = [_Life(_small(agent), seed, worlds, turns_per_round) for agent in group]
    alone = [digest for life in lives for digest in _digests([life], seed)]
    # All of them, and two: workers share a group out among themselves.
    companies = {len(lives), 2}
    return all(_digests(lives[:n], seed) == alone[:n] for n in companies)


def _small(agent: Agent) -> Agent:
    """Return the same agent with as little to do as shows all shapes, and at once."""
    settings = agent.settings
    replay = settings.replay.model_copy(update={"warmup": 1, "capacity": 10**6})
    once = {"passes": 1}
    changes = {
        "updates_per_round": 1,
        "replay": replay,
        "ppo": settings.ppo.model_copy(update=once),
        "vtrace": settings.vtrace.model_copy(update=once),
    }
    return replace(agent, settings=settings.model_copy(update=changes), learns=True)


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

    def __init__(self, agent: Agent, seed: int, worlds: int, turns: int) -> None:
        self.agent = agent
        settings, on_policy = self.agent.settings, agent.on_policy
        if not on_policy:
            # Twice as many rows as steps: not in every row there is one.
            turns = 2 * (1 + settings.batch_size // worlds)
            turns += settings.recurrent.sequence if agent.hidden else 0
        self.first = BEFORE if on_policy else 0
        """The first turn of the newest round."""
        self._last = BEFORE + turns - 1
        self._worlds = np.arange(worlds)
        layout = Rows.layout(self.agent.spec, worlds, BEFORE + turns, agent.hidden)
        rows = Rows(Block.private(layout))
        self._writer = ReplayWriter(rows)
        self._random = np.random.default_rng((seed, self.agent.number))
        for turn in range(BEFORE + turns):
            self._live(turn, agent.hidden)
        self.reader: ReplayReader = reader_of(agent, rows, turns)
        self.reader.advance(BEFORE + turns)

    def _live(self, turn: int, hidden: int) -> None:
        spec, random, worlds = self.agent.spec, self._random, len(self._worlds)
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
        back = self._last - turn + self._worlds * (1 + self.agent.number)
        phase = EPISODE - 1 - back % EPISODE
        active = (back % AWAY != AWAY - 1) & (phase < EPISODE - 1)
        return _Turn(np.minimum(phase, turn), active, phase == EPISODE - 2)


def _digests(lives: Sequence[_Life], seed: int) -> list[str]:
    """Return for each agent a digest of what it learned and did in this company."""
    agents = [life.agent for life in lives]
    learner = agents[0].learner(agents, seed)
    learner.load([learner.initial(agent) for agent in agents])
    learner.learn([life.reader for life in lives], 1, lives[0].first)
    states = learner.save()
    acted = _acted(lives, [state["weights"] for state in states], seed)
    return [
        hashlib.sha256(
            b"".join(array.tobytes() for array in (*state.values(), *did))
        ).hexdigest()
        for state, did in zip(states, acted, strict=True)
    ]


def _acted(
    lives: Sequence[_Life], weights: Sequence[Array], seed: int
) -> Iterator[list[Array]]:
    """Give all that each agent's choice has, in the last turn of its life."""
    agents, readers = [life.agent for life in lives], [life.reader for life in lives]
    policy = agents[0].policy(agents, seed)
    policy.begin_round(weights, 1)
    worlds = np.arange(readers[0].worlds)
    turns = np.full(len(worlds), readers[0].boundary - 1)

    def column(name: str) -> list[Array]:
        there = [reader for reader in readers if name in reader.rows.columns]
        return [reader.at(name, turns, worlds) for reader in there]

    stream, explored = Stream(seed, Purpose.ACTOR), agents[0].learner.exploration
    moment = PolicyInput(
        [reader.observations(turns, worlds) for reader in readers],
        column("legal") or [None] * len(agents),
        np.stack([stream.uniform((worlds, agent.number), 0, 2) for agent in agents]),
        np.array([explored(agent.settings, 0) / 2 for agent in agents]),
        column("hidden"),
    )
    choice = policy.act(moment)
    columns = [array for array in vars(choice).values() if array is not None]
    for i in range(len(agents)):
        yield [array[i] for array in columns]

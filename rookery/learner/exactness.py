"""Checks before a run whether stacking agents and sharing out worlds leaves every bit.

Nothing is assumed about the processor. A group of agents, and two of its agents, learn
and act at the run's own shapes, and are compared with the same agents computed one by
one. If any bit differs, the agents of that group are trained separately, and a warning
says so. With several actors, the agents also act in each share of the worlds, and are
compared with the same agents in all worlds at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rookery.algorithms.base import Agent, PolicyInput
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayReader, ReplayWriter
from rookery.replay.rows import Rows
from rookery.rng import Purpose, Stream
from rookery.shm.block import Block
from rookery.specs import Array

EARLIER_TURNS = 32
"""Turns before those that shapes depend on: some episodes and open transitions."""
EPISODE_TURNS = 13
"""Rows of a synthetic episode, including the closing one."""
ACTS = 16
"""Turns in which agents act: functions such as `exp` round differently now and then."""
ABSENT_EVERY = 7
"""In one of so many rows the agent is not active."""


class Groups(NamedTuple):
    """Agents that are computed together, after comparing them with separate ones."""

    exact: list[list[Agent]]
    """The groups, with inexact ones split up."""
    warnings: list[str]
    """One for each group that was split up."""
    digests: list[str]
    """What every agent that can be stacked learned and did on its own."""


def split_groups(
    groups: Sequence[Sequence[Agent]], seed: int, worlds: int, turns_per_round: int
) -> Groups:
    """Compare stacked agents with separate ones, and split up groups that differ.

    This also compiles all loops of the learners and policies, before other processes need
    them.
    """
    result = Groups([], [], [])
    for group in groups:
        if not can_stack(group):
            result.exact.append(list(group))
            continue
        is_same, separate = _compare(group, seed, worlds, turns_per_round)
        result.digests.extend(separate)
        if is_same:
            result.exact.append(list(group))
        else:
            result.exact.extend([agent] for agent in group)
            ids = ", ".join(agent.id for agent in group)
            result.warnings.append(
                f"agents {ids} do not give the same bits stacked as on their own on this "
                "machine: each is trained separately."
            )
    return result


def can_stack(group: Sequence[Agent]) -> bool:
    """Whether the algorithm of a group can be computed for several agents at once."""
    algorithm = group[0].algorithm
    return algorithm is not None and algorithm.stackable


def is_exact(group: Sequence[Agent], seed: int, worlds: int, turns_per_round: int) -> bool:
    """Whether every agent learns and acts with the same bits stacked as on its own."""
    return _compare(group, seed, worlds, turns_per_round)[0]


def _compare(
    group: Sequence[Agent], seed: int, worlds: int, turns_per_round: int
) -> tuple[bool, list[str]]:
    """Return whether stacking leaves every bit, and the digests of separate agents."""
    experiences = [
        _SyntheticExperience(_shortened(agent), seed, worlds, turns_per_round)
        for agent in group
    ]
    separate = [digest for each in experiences for digest in _digests([each], seed)]
    # The whole group, and a pair: workers divide a group among themselves.
    sizes = {len(experiences), min(2, len(experiences))} - {1}
    return all(_digests(experiences[:n], seed) == separate[:n] for n in sizes), separate


def acts_in_shares(
    group: Sequence[Agent],
    seed: int,
    worlds: int,
    turns_per_round: int,
    shares: Sequence[slice],
) -> bool:
    """Whether every agent acts with the same bits in shares as in all worlds at once."""
    experiences = [
        _SyntheticExperience(_shortened(agent), seed, worlds, turns_per_round)
        for agent in group
    ]
    weights = [
        agent.learner([agent], seed).initial(agent)["weights"]
        for agent in (experience.agent for experience in experiences)
    ]
    numbers = np.arange(worlds)

    def outputs(count: int, in_worlds: Array) -> list[list[Array]]:
        agents = [experience.agent for experience in experiences[:count]]
        readers = [experience.reader for experience in experiences[:count]]
        return list(_act(agents, readers, weights[:count], seed, in_worlds))

    # Agents of a group that act in different phases are computed in smaller groups.
    return all(
        array[share].tobytes() == part.tobytes()
        for count in {len(group), min(2, len(group)), 1}
        for whole in [outputs(count, numbers)]
        for share in shares
        for agent, parts in zip(whole, outputs(count, numbers[share]), strict=True)
        for array, part in zip(agent, parts, strict=True)
    )


def _shortened(agent: Agent) -> Agent:
    """Return the agent with a single update that has all shapes of a real one."""
    settings = agent.settings
    replay = settings.replay.model_copy(update={"warmup": 1, "capacity": 10**6})
    one_pass = {"passes": 1}
    changes = {
        # Its schedule may change on resume, and the digest must not.
        "rate": settings.rate.model_copy(update={"schedule": "constant"}),
        "updates_per_round": 1,
        "replay": replay,
        "ppo": settings.ppo.model_copy(update=one_pass),
        "vtrace": settings.vtrace.model_copy(update=one_pass),
    }
    return replace(agent, settings=settings.model_copy(update=changes), learns=True)


@dataclass(frozen=True)
class _SyntheticTurn:
    """When episodes start and end, and where the agent is active; arrays are (worlds,)."""

    age: Array
    active: Array
    ended: Array


class _SyntheticExperience:
    """Random rows of an agent, with episodes that end and turns in which it is absent.

    There is one round of them for on-policy learners, and one batch for the others.
    """

    def __init__(self, agent: Agent, seed: int, worlds: int, turns: int) -> None:
        self.agent = agent
        settings = agent.settings
        if not agent.on_policy:
            # Twice as many rows as transitions: not every row starts one.
            turns = 2 * (1 + settings.batch_size // worlds)
            turns += settings.recurrent.sequence if agent.hidden else 0
        self.first = EARLIER_TURNS if agent.on_policy else 0
        """The first turn of the newest round."""
        count = EARLIER_TURNS + turns
        self._last = count - 1
        self._worlds = np.arange(worlds)
        rows = Rows(Block.private(Rows.layout(agent.spec, worlds, count, agent.hidden)))
        self._writer = ReplayWriter(rows)
        self._random = np.random.default_rng((seed, agent.number))
        for turn in range(count):
            self._write(turn)
        self.reader: ReplayReader = reader_of(agent, rows, turns)
        self.reader.advance(count)

    def _write(self, turn: int) -> None:
        spec, random, worlds = self.agent.spec, self._random, len(self._worlds)
        parts = {
            name: random.integers(0, 2, (worlds, *part.shape)).astype(part.dtype)
            for name, part in spec.parts.items()
        }
        legal = random.integers(0, 2, (worlds, spec.num_actions)) > 0
        actions = random.integers(0, spec.num_actions, worlds)
        legal[self._worlds, actions] = True
        events = self._events(turn)
        hidden = random.uniform(-1, 1, (worlds, self.agent.hidden))
        hidden *= (events.age > 0)[:, None]
        self._writer.write_observation(
            turn,
            parts,
            events.active,
            legal if spec.masked else None,
            events.age,
            hidden if self.agent.hidden else None,
        )
        self._writer.write_action(turn, actions, random.uniform(0.1, 1, worlds), 0)
        rewards = random.normal(size=worlds).astype(np.float32)
        terminated = events.ended & (self._worlds % 2 == 0)
        truncated = events.ended & ~terminated
        self._writer.write_outcome(turn, rewards, terminated, truncated)

    def _events(self, turn: int) -> _SyntheticTurn:
        """Return a turn's events, counted back from the last turn.

        In world 0 a transition closes in the last turn. In the other worlds agents differ.
        """
        back = self._last - turn + self._worlds * (1 + self.agent.number)
        position = EPISODE_TURNS - 1 - back % EPISODE_TURNS
        is_present = back % ABSENT_EVERY != ABSENT_EVERY - 1
        active = is_present & (position < EPISODE_TURNS - 1)
        return _SyntheticTurn(
            np.minimum(position, turn), active, position == EPISODE_TURNS - 2
        )


def _digests(experiences: Sequence[_SyntheticExperience], seed: int) -> list[str]:
    """Return a digest per agent of what it learns and does, with all of them stacked."""
    agents = [experience.agent for experience in experiences]
    learner = agents[0].learner(agents, seed)
    learner.load([learner.initial(agent) for agent in agents])
    readers = [experience.reader for experience in experiences]
    learner.learn(readers, 1, experiences[0].first)
    states = learner.save()
    weights = [state["weights"] for state in states]
    chains = [hashlib.sha256() for _ in agents]
    for chain, state in zip(chains, states, strict=True):
        for array in state.values():
            chain.update(array.tobytes())
    worlds = np.arange(readers[0].worlds)
    for turns_ago in range(1, ACTS + 1):
        outputs = _act(agents, readers, weights, seed, worlds, turns_ago)
        for chain, output in zip(chains, outputs, strict=True):
            for array in output:
                chain.update(array.tobytes())
    return [chain.hexdigest() for chain in chains]


def _act(
    agents: Sequence[Agent],
    readers: Sequence[ReplayReader],
    weights: Sequence[Array],
    seed: int,
    worlds: Array,
    turns_ago: int = 1,
) -> Iterator[list[Array]]:
    """Yield all arrays of each agent's policy output, in one turn of some worlds."""
    policy = agents[0].policy(agents, seed)
    policy.begin_round(weights, 1)
    turns = np.full(len(worlds), readers[0].boundary - turns_ago)

    def column(name: str) -> list[Array]:
        with_column = [reader for reader in readers if name in reader.rows.columns]
        return [reader.at(name, turns, worlds) for reader in with_column]

    stream, exploration = Stream(seed, Purpose.ACTOR), agents[0].learner.exploration
    policy_input = PolicyInput(
        [reader.observations(turns, worlds) for reader in readers],
        column("legal") or [None] * len(agents),
        np.stack([stream.uniform((worlds, agent.number), 0, 2) for agent in agents]),
        np.array([exploration(agent.settings, 0) / 2 for agent in agents]),
        column("hidden"),
    )
    output = policy.act(policy_input)
    arrays = [array for array in vars(output).values() if array is not None]
    for i in range(len(agents)):
        yield [array[i] for array in arrays]

"""Who may be stacked: is it the same as alone, bit for bit, here and now?

Nothing is assumed about other processors. At the run's own shapes one update and one act
of a group are compared with the same agents by themselves; if they differ, the agents run
alone, and one line says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.algorithms.base import AgentPlan, Algorithm, Moment
from rookery.company import Member
from rookery.learner import reader_of
from rookery.memory.block import Block
from rookery.memory.replay import ReplayReader, ReplayWriter
from rookery.memory.rows import Rows
from rookery.seeding import Purpose, Stream
from rookery.specs import Array

TURNS = 8


def split_groups(
    groups: Sequence[Sequence[Member]], seed: int, worlds: int
) -> tuple[list[list[Member]], list[str]]:
    """Return groups whose agents can be stacked, and a line for each that was split."""
    found: list[list[Member]] = []
    lines = []
    for group in groups:
        if len(group) == 1 or is_exact(group, seed, worlds):
            found.append(list(group))
        else:
            found += [[member] for member in group]
            names = ", ".join(member.id for member in group)
            lines.append(
                f"agents {names} differ in company on this machine: trained alone."
            )
    return found, lines


def is_exact(group: Sequence[Member], seed: int, worlds: int) -> bool:
    """Whether one update and one act give every agent the bits it gets alone."""
    algorithm = group[0].algorithm
    assert algorithm is not None
    members = [_small(member) for member in group]
    readers = [_lived(member, seed, worlds) for member in members]
    plans = [member.plan for member in members]
    together = _learned(algorithm, plans, readers, seed)
    acted = _acted(
        algorithm, plans, readers, [state["weights"] for state in together], seed
    )
    for i, plan in enumerate(plans):
        (alone,) = _learned(algorithm, [plan], readers[i : i + 1], seed)
        if any(alone[name].tobytes() != together[i][name].tobytes() for name in alone):
            return False
        (act,) = _acted(algorithm, [plan], readers[i : i + 1], [alone["weights"]], seed)
        if act.tobytes() != acted[i].tobytes():
            return False
    return True


def _small(member: Member) -> Member:
    """Return the same agent with one update to make, and no need to wait for it."""
    settings = member.plan.settings
    replay = settings.replay.model_copy(update={"warmup": 1, "capacity": 10**6})
    ppo = settings.ppo.model_copy(update={"passes": 1})
    changes = {"updates_per_round": 1, "replay": replay, "ppo": ppo}
    changed = settings.model_copy(update=changes)
    plan = AgentPlan(member.plan.number, member.plan.spec, changed)
    return Member(plan, member.algorithm, None, learns=True)


def _lived(member: Member, seed: int, worlds: int) -> ReplayReader:
    """Return made-up experience of an agent, enough for one batch."""
    spec, settings = member.plan.spec, member.plan.settings
    turns = TURNS + settings.n_step + settings.frames + settings.batch_size // worlds
    turns += settings.recurrent.sequence if member.hidden else 0
    rows = Rows(Block.private(Rows.plan(spec, worlds, turns, member.hidden)))
    writer, random = ReplayWriter(rows), np.random.default_rng((seed, member.plan.number))
    always, never = np.ones(worlds, bool), np.zeros(worlds, bool)
    legal = np.ones((worlds, spec.num_actions), bool) if spec.masked else None
    for turn in range(turns):
        parts = {
            name: random.integers(0, 2, (worlds, *part.shape)).astype(part.dtype)
            for name, part in spec.parts.items()
        }
        carried = random.uniform(-1, 1, (worlds, member.hidden)) if member.hidden else None
        writer.see(turn, parts, always, legal, np.full(worlds, turn), carried)
        writer.act(turn, random.integers(0, spec.num_actions, worlds), 0.5, 0)
        writer.get(turn, random.normal(size=worlds).astype(np.float32), never, never)
    reader = reader_of(member, rows, turns)
    reader.take_in(turns)
    return reader


def _learned(
    algorithm: Algorithm, plans: list[AgentPlan], readers: list[ReplayReader], seed: int
) -> list[dict[str, Array]]:
    rule = algorithm.rule(plans, seed)
    rule.load([rule.initial(plan) for plan in plans])
    rule.learn(readers, 1, 0)
    return [{name: np.array(a) for name, a in state.items()} for state in rule.save()]


def _acted(
    algorithm: Algorithm,
    plans: list[AgentPlan],
    readers: list[ReplayReader],
    weights: list[Array],
    seed: int,
) -> list[Array]:
    policy = algorithm.policy(plans, seed)
    policy.begin_round(weights, 1)
    worlds = np.arange(readers[0].worlds)
    turns = np.full(len(worlds), readers[0].border - 1)
    seen = [reader.look(turns, worlds) for reader in readers]
    hidden = [
        reader.at("hidden", turns, worlds)
        for reader in readers
        if "hidden" in reader.rows.columns
    ]
    stream = Stream(seed, Purpose.ACTOR)
    draws = np.stack([stream.uniform((worlds, plan.number), 0, 2) for plan in plans])
    exploration = np.zeros(len(plans))
    choice = policy.act(Moment(seen, [None] * len(plans), draws, exploration, hidden))
    if choice.hidden is None:
        return list(choice.values)
    both = (choice.values[..., None], choice.hidden)
    return list(np.concatenate(both, axis=2))

"""Which agents are computed as one: those that differ only in numbers, not in shapes.

Learning and frozen agents with the same stack key form a group. Scripted agents are in no
group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rookery.algorithms.base import Agent

FREE = {
    "learning_rate": True,
    "discount": True,
    "discount_per": True,
    "updates_per_round": True,
    "epsilon": {"start", "end", "steps"},
    "reward": True,
    "rate": True,
    "target": True,
    "gradient": {"clip"},
    "player": True,
    "learning": True,
    "start_from": True,
    "replay": {"capacity", "warmup", "exponent", "correction"},
}
"""Settings in which agents of one group can differ: they change numbers, not shapes."""


def stack_key(agent: Agent) -> tuple[object, ...]:
    """Return what agents must have in common to be computed as one."""
    spec = agent.spec
    shape = agent.settings.model_dump_json(exclude=FREE)  # type: ignore[arg-type]
    return (tuple(spec.parts.items()), spec.num_actions, spec.masked, shape)


def groups_of(agents: Sequence[Agent]) -> list[list[Agent]]:
    """Return the agents that are computed as one, in the order of their numbers."""
    groups: defaultdict[object, list[Agent]] = defaultdict(list)
    for agent in agents:
        if agent.algorithm is None:
            continue
        is_stackable = agent.algorithm.stackable and agent.settings.network.module is None
        separate = () if is_stackable else (agent.id,)
        groups[(*stack_key(agent), *separate)].append(agent)
    return list(groups.values())

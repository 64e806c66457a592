"""Who plays: every agent of a game with what it is to do, and which of them go together.

An agent *learns*, or is *frozen* (acts with weights that do not change), or is *scripted*
(a player acts for it). Learning and frozen agents with the same stack key form a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.algorithms.base import WEIGHTS, AgentPlan, Algorithm, Learner
from rookery.algorithms.registry import find_algorithm
from rookery.config.run import AgentConfig, Config
from rookery.errors import ConfigError
from rookery.specs import AgentSpec
from rookery.storage.arrays import shapes_of

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
"""Settings in which agents of one group may differ: vectors, not shapes."""


@dataclass(frozen=True)
class Member:
    """One agent of a company."""

    plan: AgentPlan
    algorithm: Algorithm | None
    """None if it is scripted."""
    player: str | None
    learns: bool

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.plan.spec.id

    @property
    def on_policy(self) -> bool:
        """Whether it learns from its newest round alone."""
        return self.algorithm is not None and self.algorithm.rule.on_policy

    @property
    def hidden(self) -> int:
        """How many numbers it carries from turn to turn: its hidden state."""
        return (
            0 if self.algorithm is None else self.algorithm.rule.hidden(self.plan.settings)
        )


def build_agents(config: Config, agents: Sequence[AgentSpec]) -> list[Member]:
    """Return every agent with its settings, in the game's order."""
    config.check_agents([spec.id for spec in agents])
    return [_member(config, i, spec) for i, spec in enumerate(agents)]


def _member(config: Config, number: int, spec: AgentSpec) -> Member:
    chosen = config.agent(spec.id)
    if chosen.player is not None:
        plan = AgentPlan(number, spec, chosen)
        return Member(plan, None, chosen.player, learns=False)
    algorithm = find_algorithm(chosen.algorithm)
    settings = _with_updates(chosen, config.rounds, algorithm)
    plan = AgentPlan(number, spec, settings)
    return Member(plan, algorithm, None, chosen.learning)


def _with_updates(settings: AgentConfig, rounds: int, algorithm: Algorithm) -> AgentConfig:
    """Return settings whose learning rate ends with the run, if nothing else was said."""
    if settings.rate.updates is not None:
        return settings
    updates = max(1, rounds * algorithm.rule.updates(settings))
    rate = settings.rate.model_copy(update={"updates": updates})
    return settings.model_copy(update={"rate": rate})


def learning_ids(members: Sequence[Member]) -> list[str]:
    """Return the ids of the agents that learn."""
    return [member.id for member in members if member.learns]


def stack_key(plan: AgentPlan) -> tuple[object, ...]:
    """Return what agents must have in common to be one computation."""
    spec = plan.spec
    shape = plan.settings.model_dump_json(exclude=FREE)  # type: ignore[arg-type]
    return (tuple(spec.parts.items()), spec.num_actions, spec.masked, shape)


def groups_of(members: Sequence[Member]) -> list[list[Member]]:
    """Return members that go together, in the order of their numbers."""
    found: defaultdict[object, list[Member]] = defaultdict(list)
    for member in members:
        if member.algorithm is None:
            continue
        alone = () if member.algorithm.stackable else (member.id,)
        found[(*stack_key(member.plan), *alone)].append(member)
    return list(found.values())


def check_agents(members: Sequence[Member], worlds: int = 1) -> None:
    """Refuse a company in which nobody could ever learn what it is asked to."""
    problems = []
    for member in members:
        settings = member.plan.settings
        if member.learns and (line := _too_small(member, worlds)):
            problems.append(f"agent '{member.id}' would never learn: {line}")
        if member.learns and member.algorithm is not None:
            found = member.algorithm.rule.refusals(settings)
            problems += [f"agent '{member.id}': {line}" for line in found]
    if problems:
        raise ConfigError(*problems)


def _too_small(member: Member, worlds: int) -> str:
    """Say why a replay never holds enough steps to start learning; '' if it may.

    In every world the newest `n_step` rows of a window open steps that are yet to close.
    """
    settings, replay = member.plan.settings, member.plan.settings.replay
    rule = member.algorithm.rule if member.algorithm is not None else Learner
    n_step, needed = rule.n_step(settings), max(replay.warmup, settings.batch_size)
    most = max(0, -(-replay.capacity // worlds) - n_step) * worlds
    if rule.on_policy or most >= needed:
        return ""
    enough = (-(-needed // worlds) + n_step - 1) * worlds + 1
    return (
        f"replay.capacity is {replay.capacity}, and while an episode goes on at most "
        f"{most} steps of it can be learned from (worlds {worlds}, n_step {n_step}), but "
        f"learning starts at {needed} steps (replay.warmup, batch_size): raise "
        f"replay.capacity to {enough}, or lower the others."
    )


def weight_shapes(member: Member) -> dict[str, Any]:
    """Return what arrays an agent's weights are, by name and without padding."""
    if member.algorithm is None:
        return {}
    shape, dtype = member.algorithm.rule.shapes(member.plan, 1, 1)[WEIGHTS]
    named = member.algorithm.rule.named_weights(member.plan, np.zeros(shape, dtype))
    return shapes_of(named)


def capacity_of(member: Member, turns_per_round: int, worlds: int) -> int:
    """Return how many rows an agent learns from."""
    rule = member.algorithm.rule if member.algorithm is not None else Learner
    return rule.window_rows(member.plan.settings, worlds, turns_per_round)

"""Who plays: every agent of a game with what it is to do, and which of them go together.

An agent *learns*, or is *frozen* (acts with weights that do not change), or is *scripted*
(a player acts for it). Learning and frozen agents with the same stack key form a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.algorithms.base import WEIGHTS, Agent, Algorithm
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


def build_agents(config: Config, specs: Sequence[AgentSpec]) -> list[Agent]:
    """Return every agent with its settings, in the game's order."""
    config.check_agents([spec.id for spec in specs])
    return [_agent(config, i, spec) for i, spec in enumerate(specs)]


def _agent(config: Config, number: int, spec: AgentSpec) -> Agent:
    chosen = config.agent(spec.id)
    if chosen.player is not None:
        return Agent(number, spec, chosen, player=chosen.player)
    algorithm = find_algorithm(chosen.algorithm)
    settings = _with_updates(chosen, config.rounds, algorithm)
    return Agent(number, spec, settings, algorithm, learns=chosen.learning)


def _with_updates(settings: AgentConfig, rounds: int, algorithm: Algorithm) -> AgentConfig:
    """Return settings whose learning rate ends with the run, if nothing else was said."""
    if settings.rate.updates is not None:
        return settings
    updates = max(1, rounds * algorithm.learner.updates(settings))
    rate = settings.rate.model_copy(update={"updates": updates})
    return settings.model_copy(update={"rate": rate})


def learning_ids(agents: Sequence[Agent]) -> list[str]:
    """Return the ids of the agents that learn."""
    return [agent.id for agent in agents if agent.learns]


def stack_key(agent: Agent) -> tuple[object, ...]:
    """Return what agents must have in common to be one computation."""
    spec = agent.spec
    shape = agent.settings.model_dump_json(exclude=FREE)  # type: ignore[arg-type]
    return (tuple(spec.parts.items()), spec.num_actions, spec.masked, shape)


def groups_of(agents: Sequence[Agent]) -> list[list[Agent]]:
    """Return members that go together, in the order of their numbers."""
    found: defaultdict[object, list[Agent]] = defaultdict(list)
    for agent in agents:
        if agent.algorithm is None:
            continue
        alone = () if agent.algorithm.stackable else (agent.id,)
        found[(*stack_key(agent), *alone)].append(agent)
    return list(found.values())


def check_agents(agents: Sequence[Agent], worlds: int = 1) -> None:
    """Refuse a company in which nobody could ever learn what it is asked to."""
    problems = []
    for agent in agents:
        settings = agent.settings
        if agent.learns and (line := _too_small(agent, worlds)):
            problems.append(f"agent '{agent.id}' would never learn: {line}")
        if agent.learns:
            found = agent.learner.refusals(settings)
            problems += [f"agent '{agent.id}': {line}" for line in found]
    if problems:
        raise ConfigError(*problems)


def _too_small(agent: Agent, worlds: int) -> str:
    """Say why a replay never holds enough steps to start learning; '' if it may.

    In every world the newest `n_step` rows of a window open steps that are yet to close.
    """
    settings, replay = agent.settings, agent.settings.replay
    learner = agent.learner
    n_step, needed = learner.n_step(settings), max(replay.warmup, settings.batch_size)
    most = max(0, -(-replay.capacity // worlds) - n_step) * worlds
    if learner.on_policy or most >= needed:
        return ""
    enough = (-(-needed // worlds) + n_step - 1) * worlds + 1
    return (
        f"replay.capacity is {replay.capacity}, and while an episode goes on at most "
        f"{most} steps of it can be learned from (worlds {worlds}, n_step {n_step}), but "
        f"learning starts at {needed} steps (replay.warmup, batch_size): raise "
        f"replay.capacity to {enough}, or lower the others."
    )


def weight_shapes(agent: Agent) -> dict[str, Any]:
    """Return what arrays an agent's weights are, by name and without padding."""
    if agent.is_scripted:
        return {}
    shape, dtype = agent.learner.shapes(agent, 1, 1)[WEIGHTS]
    named = agent.learner.named_weights(agent, np.zeros(shape, dtype))
    return shapes_of(named)


def capacity_of(agent: Agent, turns_per_round: int, worlds: int) -> int:
    """Return how many rows an agent learns from."""
    return agent.learner.window_rows(agent.settings, worlds, turns_per_round)

"""The agents of a run, built from its settings, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rookery.algorithms.base import WEIGHTS, Agent
from rookery.algorithms.registry import find_algorithm
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.specs import AgentSpec
from rookery.storage.arrays import shapes_of


def build_agents(config: Config, specs: Sequence[AgentSpec]) -> list[Agent]:
    """Return every agent with its settings, in the game's order."""
    config.check_agents([spec.id for spec in specs])
    return [_agent(config, i, spec) for i, spec in enumerate(specs)]


def _agent(config: Config, number: int, spec: AgentSpec) -> Agent:
    settings = config.agent(spec.id)
    if settings.player is not None:
        return Agent(number, spec, settings, player=settings.player)
    algorithm = find_algorithm(settings.algorithm)
    if settings.rate.updates is None:
        rounds = settings.rate.rounds or config.rounds
        updates = max(1, rounds * algorithm.learner.updates(settings))
        rate = settings.rate.model_copy(update={"updates": updates})
        settings = settings.model_copy(update={"rate": rate})
    return Agent(number, spec, settings, algorithm, learns=settings.learning)


def learning_ids(agents: Sequence[Agent]) -> list[str]:
    """Return the ids of the agents that learn."""
    return [agent.id for agent in agents if agent.learns]


def check_agents(agents: Sequence[Agent], worlds: int = 1) -> None:
    """Refuse agents that could never learn, or whose settings contradict each other."""
    problems = []
    for agent in agents:
        if not agent.learns:
            continue
        if line := _too_small(agent, worlds):
            problems.append(f"agent '{agent.id}' would never learn: {line}")
        if agent.settings.network.module and not agent.learner.takes_module:
            problems.append(
                f"agent '{agent.id}': network.module cannot be used with "
                f"{agent.settings.algorithm}: leave it out, or use dqn, iqn, ppo, vtrace, "
                "recurrent_dqn or recurrent_ppo."
            )
        refusals = agent.learner.refusals(agent.settings)
        problems += [f"agent '{agent.id}': {line}" for line in refusals]
    if problems:
        raise ConfigError(*problems)


def _too_small(agent: Agent, worlds: int) -> str:
    """Return why a replay can never hold enough transitions to learn from; '' if it can.

    In each world, the newest `n_step` rows of a window open transitions that have not
    closed yet.
    """
    settings, replay, learner = agent.settings, agent.settings.replay, agent.learner
    n_step, needed = learner.n_step(settings), max(replay.warmup, settings.batch_size)
    usable = max(0, -(-replay.capacity // worlds) - n_step) * worlds
    if learner.on_policy or usable >= needed:
        return ""
    enough = (-(-needed // worlds) + n_step - 1) * worlds + 1
    return (
        f"replay.capacity is {replay.capacity}, which holds at most {usable} closed "
        f"transitions during an episode (worlds {worlds}, n_step {n_step}), but learning "
        f"starts at {needed} (replay.warmup, batch_size): raise replay.capacity to "
        f"{enough}, or lower the others."
    )


def weight_bytes(agent: Agent) -> int:
    """Return how much memory an agent's weights take, without allocating it."""
    if agent.is_scripted:
        return 0
    shape, dtype = agent.learner.shapes(agent, 1, 1)[WEIGHTS]
    return prod(shape) * np.dtype(dtype).itemsize


def weight_shapes(agent: Agent) -> dict[str, Any]:
    """Return shape and type of an agent's weights, by name and without padding."""
    if agent.is_scripted:
        return {}
    shape, dtype = agent.learner.shapes(agent, 1, 1)[WEIGHTS]
    named = agent.learner.named_weights(agent, np.zeros(shape, dtype))
    return shapes_of(named)


def capacity_of(agent: Agent, turns_per_round: int, worlds: int) -> int:
    """Return how many rows an agent learns from."""
    return agent.learner.window_rows(agent.settings, worlds, turns_per_round)

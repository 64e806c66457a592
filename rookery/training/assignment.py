"""Which worker hosts which agents."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.algorithms.base import Agent


def assign_agents(agents: Sequence[Agent], workers: int) -> list[list[int]]:
    """Return the agents that each worker hosts, with about equal work for all workers.

    The result of training does not depend on it.
    """
    learning = [agent for agent in agents if agent.learns]
    loads = [0.0] * min(workers, len(learning))
    hosted: list[list[int]] = [[] for _ in loads]
    for agent in sorted(learning, key=cost_of, reverse=True):
        least = loads.index(min(loads))
        loads[least] += cost_of(agent)
        hosted[least].append(agent.number)
    return [sorted(numbers) for numbers in hosted]


def cost_of(agent: Agent) -> float:
    """Return roughly how much work an agent's updates of one round are."""
    learner, settings = agent.learner, agent.settings
    (size,), _ = learner.shapes(agent, 1, 1)["weights"]
    return float(size * settings.batch_size * max(1, learner.updates(settings)))

"""Which worker trains which agents.

Most agents stay with one worker. Agents that would give one worker more to do than the
others are shared: in each round it is another worker's turn to train them. The result of
training does not depend on any of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rookery.algorithms.base import Agent
from rookery.protocol.process_spec import SharedAgent

WORTHWHILE = 1.1
"""The least gain for which agents are shared: a shared agent is not stacked."""


@dataclass(frozen=True)
class Assignment:
    """The agents of every worker, by number."""

    hosted: Sequence[Sequence[int]]
    """Per worker: the agents that it trains in every round."""
    shared: Sequence[Sequence[SharedAgent]]
    """Per worker: the agents that it trains when it is its turn."""
    longest: float
    """The share of all learning that the worker with the most to do has, on average."""

    def agents_of(self, worker: int) -> list[int]:
        """Return all agents that a worker ever trains."""
        return sorted([*self.hosted[worker], *(s.agent for s in self.shared[worker])])


def assign_agents(
    agents: Sequence[Agent], workers: int, schedule: str, spare_core: bool
) -> Assignment:
    """Return the agents of each worker, with about equal work for all workers.

    Agents are shared only in `pipelined`: there, a worker that has less to do in one round
    can begin the next, while in `sync` all begin a round at the same time. In `async` they
    do not wait for each other anyway.

    Args:
        agents: all agents of the run.
        workers: how many there are.
        schedule: of the run.
        spare_core: whether playing has a core for itself. If not, it takes the time that a
            worker has left, and sharing gained nothing (3 agents, 2 workers on 2 cores).
    """
    costs = {agent.number: cost_of(agent) for agent in agents if agent.learns}
    workers = min(workers, len(costs))
    if not workers:
        return Assignment([], [], 0.0)
    fixed = _assign(costs, workers, limit=float("inf"))
    if schedule != "pipelined" or not spare_core:
        return fixed
    even = max(sum(costs.values()) / workers, *costs.values())
    shared = _assign(costs, workers, limit=even)
    return shared if shared.longest * WORTHWHILE <= fixed.longest else fixed


def _assign(costs: dict[int, float], workers: int, limit: float) -> Assignment:
    """Give each agent to the worker with the least to do, and share what exceeds a limit.

    Args:
        costs: agent number to its work in one round.
        workers: how many there are; at most as many as agents.
        limit: the most that a worker is given in every round.
    """
    loads = [0.0] * workers
    hosted: list[list[int]] = [[] for _ in loads]
    shared: list[int] = []
    for number in sorted(costs, key=lambda number: costs[number], reverse=True):
        least = loads.index(min(loads))
        if loads[least] + costs[number] > limit * (1 + 1e-9):
            shared.append(number)
        else:
            loads[least] += costs[number]
            hosted[least].append(number)
    total = sum(costs.values())
    longest = max(loads) + sum(costs[number] for number in shared) / workers
    return Assignment(
        [sorted(numbers) for numbers in hosted],
        [
            [SharedAgent(number, workers, worker + i) for i, number in enumerate(shared)]
            for worker in range(workers)
        ],
        longest / total if total else 1.0,
    )


def cost_of(agent: Agent) -> float:
    """Return roughly how much work an agent's updates of one round are."""
    learner, settings = agent.learner, agent.settings
    (size,), _ = learner.shapes(agent, 1, 1)["weights"]
    return float(size * settings.batch_size * max(1, learner.updates(settings)))

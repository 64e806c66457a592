"""Which worker trains which agents: about equal work for all."""

from __future__ import annotations

from collections import Counter

import pytest

from rookery.algorithms.agents import build_agents
from rookery.algorithms.base import Agent
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.training.assignment import Assignment, assign_agents, cost_of


def hunters(count: int = 5, **settings: object) -> list[Agent]:
    entry, config = configure("treasurehunt", settings={"game.agents": count, **settings})
    return build_agents(config, agents_of(entry, config))


def assigned(agents: list[Agent], workers: int, schedule: str = "pipelined") -> Assignment:
    return assign_agents(agents, workers, schedule, spare_core=True)


def tasks_of(assignment: Assignment, number: int) -> list[list[int]]:
    """Return the agents that each worker trains in a round."""
    return [
        [*hosted, *(share.agent for share in shared if share.includes(number))]
        for hosted, shared in zip(assignment.hosted, assignment.shared, strict=True)
    ]


@pytest.mark.parametrize("schedule", ["sync", "pipelined", "async"])
@pytest.mark.parametrize("workers", [1, 2, 3, 5, 9])
def test_every_learning_agent_is_trained_by_one_worker_in_every_round(
    workers: int, schedule: str
) -> None:
    agents = hunters(agents={"1": {"player": "random"}, "3": {"learning": False}})

    assignment = assigned(agents, workers, schedule)

    assert len(assignment.hosted) == len(assignment.shared) == min(workers, 3)
    for number in range(1, 9):
        tasks = tasks_of(assignment, number)
        assert sorted(agent for numbers in tasks for agent in numbers) == [0, 2, 4]
        for worker, numbers in enumerate(tasks):
            assert set(numbers) <= set(assignment.agents_of(worker))
    assert all(assignment.agents_of(worker) for worker in range(len(assignment.hosted)))


@pytest.mark.parametrize(
    ("agents", "workers", "shared"), [(3, 2, 1), (4, 2, 0), (5, 2, 1), (5, 3, 2), (4, 3, 1)]
)
def test_agents_that_cannot_be_divided_equally_are_trained_in_turn(
    agents: int, workers: int, shared: int
) -> None:
    assignment = assigned(hunters(agents), workers)

    work = Counter[int]()
    for number in range(1, workers + 1):
        for worker, numbers in enumerate(tasks_of(assignment, number)):
            work[worker] += len(numbers)
    assert [len(shares) for shares in assignment.shared] == [shared] * workers
    assert set(work.values()) == {agents}  # of every worker, in as many rounds
    assert assignment.longest == pytest.approx(1 / workers)


def test_agents_are_not_shared_if_workers_would_still_have_to_wait() -> None:
    agents = hunters(3)

    for schedule in ("sync", "async"):
        assert assigned(agents, 2, schedule).shared == [[], []]
    assert assign_agents(agents, 2, "pipelined", spare_core=False).shared == [[], []]


def test_an_agent_that_costs_more_than_all_others_is_not_shared() -> None:
    agents = hunters(agents={"2": {"updates_per_round": 100}})

    assignment = assigned(agents, 2)

    assert [2] in assignment.hosted
    assert assignment.shared == [[], []]


@pytest.mark.parametrize(
    "settings",
    [{"updates_per_round": 50}, {"batch_size": 128}, {"network": {"width": 256}}],
    ids=["updates", "batch", "width"],
)
def test_the_cost_of_an_agent_grows_with_updates_batches_and_width(settings: dict) -> None:
    agents = hunters(agents={"0": settings})

    assert cost_of(agents[0]) > 1.5 * cost_of(agents[1])
    assert cost_of(agents[1]) == cost_of(agents[2])

"""Who hosts whom."""

from __future__ import annotations

import pytest
from rookery.training.process_pool import cost_of, share_out

from rookery.algorithms.agents import build_agents
from rookery.algorithms.base import Agent
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure


def company(**settings: object) -> list[Agent]:
    entry, config = configure("treasurehunt", settings={"game.agents": 5, **settings})
    return build_agents(config, agents_of(entry, config))


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 9])
def test_every_learning_agent_has_one_host(workers: int) -> None:
    agents = company(agents={"1": {"player": "random"}, "3": {"learning": False}})

    hosted = share_out(agents, workers)

    assert sorted(agent for one in hosted for agent in one) == [0, 2, 4]
    assert len(hosted) == min(workers, 3)
    assert all(hosted)


def test_agents_that_cost_more_are_hosted_with_fewer_others() -> None:
    agents = company(agents={"2": {"updates_per_round": 100}})

    hosted = share_out(agents, 2)

    assert [2] in hosted


@pytest.mark.parametrize(
    "more",
    [{"updates_per_round": 50}, {"batch_size": 128}, {"network": {"width": 256}}],
    ids=["updates", "batch", "width"],
)
def test_updates_batches_and_width_cost(more: dict) -> None:
    agents = company(agents={"0": more})

    assert cost_of(agents[0]) > 1.5 * cost_of(agents[1])
    assert cost_of(agents[1]) == cost_of(agents[2])

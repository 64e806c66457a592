"""Many updates in a row of drawn groups, against torch's Adam in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.dqn import DQN
from tests.references.drawing import AGENTS, Sampler, draw_group
from tests.references.optimizer import PlainAdam, joined
from tests.references.recording import RecordedGroup, agree, unpadded

UPDATES = 25


def compare_updates(case: int) -> None:
    """Update agents with random gradients; now and then one is inactive."""
    sampler = Sampler(9, case)
    agents = draw_group(sampler)
    watched = RecordedGroup(DQN, agents, case)
    group, random = watched.learner.group, sampler.generator
    shapes, start = group.parameters.shapes, watched.states()
    plain = [
        PlainAdam(agent.settings, start[i]) for i, agent in enumerate(agents)
    ]  # they continue on their own from here
    for _ in range(UPDATES):
        sizes = 10 ** random.uniform(-6, 2, AGENTS)
        for name, gradient in group.gradients.items():
            rows, columns = shapes[name]
            drawn = random.normal(size=(AGENTS, rows, columns)) * sizes[:, None, None]
            gradient[:, :rows, :columns] = torch.from_numpy(drawn)
        active = random.random(AGENTS) < 0.8
        group.apply(np.zeros(AGENTS, np.float32), active)
        for i in np.flatnonzero(active).tolist():
            plain[i].step(
                {
                    name: unpadded(gradient[i], start[i]["weights"][name])
                    for name, gradient in group.gradients.items()
                }
            )
    for i, state in enumerate(watched.states()):
        agree(f"updates of agent {i}", state["counters"], [plain[i].updates, 0])
        agree(f"weights of agent {i}", joined(state["weights"]), joined(plain[i].weights))
        agree(f"target of agent {i}", joined(state["target"]), joined(plain[i].target))
        for name, moment in (("means", "exp_avg"), ("squares", "exp_avg_sq")):
            expected = joined(plain[i].moments(moment))
            agree(f"{name} of agent {i}", joined(state[name]), expected, 1e-12)


@pytest.mark.parametrize("case", range(5))
def test_many_updates_are_those_of_torchs_adam(case):
    compare_updates(case)

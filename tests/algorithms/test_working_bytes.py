"""The estimate of a learner's memory, against what a process really uses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from rookery.algorithms.dqn import DqnNetwork
from rookery.algorithms.registry import find_algorithm
from rookery.specs import Part
from tests.algorithms.conftest import Experience, GroupTrainer, agent_of, spec_of

GRID = {"view": Part((6, 7, 7), np.dtype(np.uint8))}
# Algorithm, settings, actions and worlds; in each, something else takes the most memory.
CASES = {
    "a large batch": ("iqn", {"batch_size": 2048, "network": {"width": 256}}, 9, 400),
    "a wide network": ("dqn", {"network": {"width": 2000, "depth": 3}}, 9, 4),
    "many actions": ("dqn", {"batch_size": 128, "network": {"width": 64}}, 30_000, 20),
    "a long round by hand": ("ppo", {"network": {"width": 512, "depth": 3}}, 9, 1500),
    "a long round": ("recurrent_ppo", {"recurrent": {"width": 128}}, 9, 1500),
}


def measure(case):
    """Print the estimate, and by how much learning a round raises a process's peak."""
    torch.set_num_threads(1)
    name, settings, actions, worlds = CASES[case]
    window = {"capacity": 12 * worlds, "warmup": 8}
    agent = agent_of(0, spec_of(0, GRID, actions), **settings, frames=1, replay=window)
    learner_type = find_algorithm(name).learner
    n_step = learner_type.n_step(agent.settings)
    hidden = learner_type.hidden(agent.settings)
    experience = Experience(agent, worlds=worlds, n_step=n_step, hidden=hidden)
    experience.play_round()
    # Code that is loaded or compiled at its first call is not an agent's memory.
    GroupTrainer(find_algorithm(name), [agent_of()]).train()
    before = peak_bytes()
    learner = learner_type([agent], 0)
    learner.load([learner.initial(agent)])
    (metrics,) = learner.learn([experience.reader], 1, 0)
    assert metrics["updates"] > 0
    print(
        learner_type.working_bytes(agent, worlds, experience.turns), peak_bytes() - before
    )


def peak_bytes():
    """Return the most memory that this process ever had, in bytes."""
    with open("/proc/self/status") as lines:
        (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


@pytest.mark.processes
@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_right_within_a_factor_of_two(case):
    code = f"from {__name__} import measure; measure({case!r})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    estimate, used = map(int, ran.stdout.split())

    assert used > 50 << 20
    assert used / 2 < estimate < used * 2


@pytest.mark.parametrize("dueling", [False, True])
def test_memory_grows_linearly_with_the_number_of_actions(dueling):
    actions = 100_000  # squared, they would not fit into any memory
    agent = agent_of(0, spec_of(0, actions=actions), dqn={"dueling": dueling})
    network = DqnNetwork(agent)

    coefficients = network.coefficients(torch.tensor([[0, actions - 1]]))

    others = torch.full((2, actions), -1.0 / actions if dueling else 0.0)
    others[0, 0] = others[1, actions - 1] = 1.0 - (1.0 / actions if dueling else 0.0)
    assert torch.equal(coefficients[0, :, :actions], others)
    assert coefficients[0, :, actions:].sum(dim=1).tolist() == [float(dueling)] * 2

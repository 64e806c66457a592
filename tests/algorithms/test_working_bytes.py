"""What learning takes beside shared memory: the estimate, and what is really taken."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from rookery.algorithms.dqn import DqnNetwork
from rookery.algorithms.registry import find_algorithm
from rookery.specs import Part
from tests.algorithms.conftest import Life, agent_of, spec_of

GRID = {"view": Part((6, 7, 7), np.dtype(np.uint8))}
# Algorithm, settings, actions and worlds: each takes most for something else.
CASES = {
    "a large batch": ("iqn", {"batch_size": 2048, "network": {"width": 256}}, 9, 400),
    "a wide network": ("dqn", {"network": {"width": 2000, "depth": 3}}, 9, 4),
    "many actions": ("dqn", {"batch_size": 128, "network": {"width": 64}}, 30_000, 20),
    "a long round": ("recurrent_ppo", {"recurrent": {"width": 128}}, 9, 1500),
}


def measure(case):
    """Print the estimate, and by how much learning a round raises a process's peak."""
    torch.set_num_threads(1)
    name, settings, actions, worlds = CASES[case]
    window = {"capacity": 12 * worlds, "warmup": 8}
    agent = agent_of(0, spec_of(0, GRID, actions), **settings, frames=1, replay=window)
    kind = find_algorithm(name).learner
    n_step, hidden = kind.n_step(agent.settings), kind.hidden(agent.settings)
    life = Life(agent, worlds=worlds, n_step=n_step, hidden=hidden)
    life.live()
    before = peak_bytes()
    learner = kind([agent], 0)
    learner.load([learner.initial(agent)])
    (found,) = learner.learn([life.reader], 1, 0)
    assert found["updates"] > 0
    print(kind.working_bytes(agent, worlds, life.turns), peak_bytes() - before)


def peak_bytes():
    """Return the most memory that this process ever had, in bytes."""
    with open("/proc/self/status") as lines:
        (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


@pytest.mark.processes
@pytest.mark.parametrize("case", CASES)
def test_what_learning_takes_is_known_within_a_factor_of_two(case):
    code = f"from {__name__} import measure; measure({case!r})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    told, taken = map(int, ran.stdout.split())

    assert taken > 50 << 20
    assert taken / 2 < told < taken * 2


@pytest.mark.parametrize("dueling", [False, True])
def test_a_network_of_very_many_actions_takes_memory_for_each_once(dueling):
    actions = 100_000  # squared, they would not fit into any memory
    agent = agent_of(0, spec_of(0, actions=actions), dqn={"dueling": dueling})
    network = DqnNetwork(agent)

    shares = network.shares(torch.tensor([[0, actions - 1]]))

    others = torch.full((2, actions), -1.0 / actions if dueling else 0.0)
    others[0, 0] = others[1, actions - 1] = 1.0 - (1.0 / actions if dueling else 0.0)
    assert torch.equal(shares[0, :, :actions], others)
    assert shares[0, :, actions:].sum(dim=1).tolist() == [float(dueling)] * 2

"""Policies that act in compiled loops, and the settings that others act with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rookery.actor.policies import PolicyRunner, by_agent
from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from tests.algorithms.conftest import SEED, Experience, agent_of, same_bits

compiled = pytest.mark.parametrize("algorithm", [DQN, IQN], ids=["dqn", "iqn"])


@compiled
def test_a_policy_of_linear_layers_is_compiled(algorithm):
    policy = algorithm.policy([agent_of(0)], SEED)

    assert policy.is_compiled


@compiled
def test_a_policy_with_a_softmax_is_not_compiled(algorithm):
    policy = algorithm.policy([agent_of(0, epsilon={"temperature": 0.5})], SEED)

    assert not policy.is_compiled


@compiled
def test_a_subclass_of_a_policy_is_not_taken_for_compiled(algorithm):
    own = type("Own", (algorithm.policy,), {})

    assert not own([agent_of(0)], SEED).is_compiled


def test_a_recurrent_policy_is_not_compiled():
    assert not RECURRENT_DQN.policy([agent_of(0)], SEED).is_compiled


@compiled
def test_a_compiled_policy_acts_the_same_when_denormals_are_flushed(algorithm):
    kept, flushed = (act(algorithm, flush) for flush in (False, True))

    assert same_bits(kept, flushed)


def act(algorithm, flush):
    """Return what an agent does on its last row, in a process with this setting."""
    agent = replace(agent_of(0), algorithm=algorithm, learns=True)
    runner = PolicyRunner([[agent]], SEED, 3)
    weights = algorithm.learner([agent], SEED).initial(agent)["weights"] * 1e-20
    runner.begin_round(1, {0: weights})
    experience = Experience(agent, worlds=3)
    experience.play_round()
    try:
        torch.set_flush_denormal(flush)
        outputs = runner.act([0], {0: experience.rows}, {0: None}, 5, lambda number: 0.2)
    finally:
        torch.set_flush_denormal(False)
    return vars(by_agent(outputs)[0])

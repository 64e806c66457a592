"""Batches drawn ahead are those that would have been drawn one pass at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common import batches
from rookery.algorithms.common.batches import pass_keys, passes_ahead
from rookery.algorithms.common.losses import pick
from rookery.algorithms.iqn import IQN, IqnNetwork
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import GroupTrainer, agent_of, same_bits, spec_of


def test_numbers_of_many_passes_are_those_of_each():
    stream, agents = Stream(3, Purpose.LEARNER), np.array([4, 7])

    together = stream.uniform(pass_keys(agents, 5, range(2, 6)), 0, 9).reshape(4, 2, 9)

    for k, number in enumerate(range(2, 6)):
        assert np.array_equal(together[k], stream.uniform((agents, 5, number), 0, 9))


@pytest.mark.shows("A1")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"iqn": {"noisy": True}},
        {"gradient": {"accumulate": 3}},
        {"replay": {"kind": "prioritised"}},
        {"reward": {"standardise": True}},
    ],
    ids=["as shipped", "noisy", "accumulating", "prioritised", "standardised"],
)
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
def test_how_many_passes_are_drawn_at_once_makes_no_difference(
    monkeypatch, settings, masked
):
    spec = spec_of(masked=masked)
    agents = [agent_of(i, spec, updates_per_round=7, **settings) for i in range(2)]
    results = []
    for most in (1, 2, 16):
        monkeypatch.setattr(batches, "MAX_PASSES_AHEAD", most)
        trainer = GroupTrainer(IQN, agents)
        metrics = trainer.train(rounds=2)
        results.append((trainer.states, metrics))

    for states, metrics in results[1:]:
        assert metrics == results[0][1]
        assert all(map(same_bits, states, results[0][0]))


def test_large_observations_are_drawn_for_one_pass_at_a_time():
    small, large = agent_of(), agent_of(batch_size=65_536, frames=64)

    assert passes_ahead([small], 100) == batches.MAX_PASSES_AHEAD
    assert passes_ahead([large], 100) == 1


@pytest.mark.parametrize("dueling", [True, False])
def test_values_of_taken_actions_are_picked_from_those_of_all_actions(dueling):
    network = IqnNetwork(agent_of(iqn={"dueling": dueling}))
    flat = network.parameters.initial(Stream(0, Purpose.INITIAL), 0)
    weights = network.parameters.views(torch.from_numpy(flat)[None])
    actions = torch.arange(6)[None] % 5
    outputs = network.outputs(
        weights, torch.rand(1, 6, network.features.padded), torch.rand(1, 6, 4)
    )

    result = network.values_taken(outputs, actions)

    quantiles = network.action_values(outputs)
    expected = pick(quantiles, actions.unsqueeze(2).expand(1, 6, 4))
    assert torch.allclose(result, expected, rtol=0, atol=1e-6)

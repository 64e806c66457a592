"""What is drawn ahead is what would have been drawn one pass at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common import batches as ahead
from rookery.algorithms.common.batches import passes_at_once, places_of
from rookery.algorithms.common.losses import pick
from rookery.algorithms.iqn import IQN
from rookery.algorithms.iqn_network import IqnNetwork
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import Crew, agent_of, same_bits, spec_of


def test_numbers_of_many_passes_are_those_of_each():
    stream, agents = Stream(3, Purpose.LEARNER), np.array([4, 7])

    together = stream.uniform(places_of(agents, 5, range(2, 6)), 0, 9).reshape(4, 2, 9)

    for k, one in enumerate(range(2, 6)):
        assert np.array_equal(together[k], stream.uniform((agents, 5, one), 0, 9))


@pytest.mark.shows("A1")
@pytest.mark.parametrize(
    "chosen",
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
def test_how_many_passes_are_drawn_at_once_makes_no_difference(monkeypatch, chosen, masked):
    spec = spec_of(masked=masked)
    agents = [agent_of(i, spec, updates_per_round=7, **chosen) for i in range(2)]
    found = []
    for most in (1, 2, 16):
        monkeypatch.setattr(ahead, "MOST_PASSES", most)
        crew = Crew(IQN, agents)
        metrics = crew.train(rounds=2)
        found.append((crew.states, metrics))

    for states, metrics in found[1:]:
        assert metrics == found[0][1]
        assert all(map(same_bits, states, found[0][0]))


def test_large_observations_are_drawn_for_one_pass_at_a_time():
    small, large = agent_of(), agent_of(batch_size=65_536, frames=64)

    assert passes_at_once([small], 100) == ahead.MOST_PASSES
    assert passes_at_once([large], 100) == 1


@pytest.mark.parametrize("dueling", [True, False])
def test_the_values_of_chosen_actions_are_those_among_all(dueling):
    network = IqnNetwork(agent_of(iqn={"dueling": dueling}))
    flat = network.parameters.initial(Stream(0, Purpose.INITIAL), 0)
    weights = network.parameters.views(torch.from_numpy(flat)[None])
    actions = torch.arange(6)[None] % 5
    hidden = network.read(weights, torch.rand(1, 6, network.features.padded))
    embedded = network.embed(weights, torch.rand(1, 6, 4))

    found = network.chosen(weights, hidden, embedded, actions)

    every = network.values(weights, hidden, embedded)
    expected = pick(every, actions.unsqueeze(2).expand(1, 6, 4))
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)

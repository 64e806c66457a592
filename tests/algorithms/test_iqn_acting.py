"""The forward pass of IQN's policy gives what its network gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.base import PolicyInput
from rookery.algorithms.iqn import IQN, IqnPolicy, midpoints
from rookery.specs import Part
from tests.algorithms.conftest import PARTS, SEED, agent_of, spec_of

FLAGS = {
    "view": Part((4, 3, 3), np.dtype(np.uint8)),
    "near": Part((5,), np.dtype(np.uint8)),
}
KINDS = {
    "flags": (FLAGS, {}),
    "flags, deep": (FLAGS, {"network": {"depth": 3}}),
    "flags, not dueling": (FLAGS, {"iqn": {"dueling": False}}),
    "flags, convolved": (FLAGS, {"network": {"channels": 16}}),
    "pictures and vectors": (PARTS, {}),
}


def agents_of(kind, agents=3):
    parts, settings = KINDS[kind]
    return [agent_of(i, spec_of(i, parts), **settings) for i in range(agents)]


def weights_of(agents):
    learner = IQN.learner(agents, SEED)
    return [learner.initial(agent)["weights"] for agent in agents]


def make_input(agents, worlds, most=1, data_seed=0):
    """Return an input in which a fifth of all entries are above 0, up to `most`."""
    rng = np.random.default_rng(data_seed)
    observations = []
    for agent in agents:
        shapes = {k: (worlds, 2, *part.shape) for k, part in agent.spec.parts.items()}
        observations.append(
            {
                name: ((rng.random(shape) < 0.2) * rng.integers(1, most + 1)).astype(
                    agent.spec.parts[name].dtype
                )
                for name, shape in shapes.items()
            }
        )
    draws = rng.random((len(agents), worlds, 2))
    return PolicyInput(observations, [None] * len(agents), draws, np.zeros(len(agents)))


def act(agents, weights, policy_input):
    policy = IqnPolicy(agents, SEED)
    policy.begin_round(weights, 1, noise=False)
    return policy.act(policy_input)


def means_of(agents, weights, policy_input):
    """Return what the network gives without the acting pass."""
    network = IqnPolicy(agents, SEED).network
    views = network.parameters.views(torch.from_numpy(np.stack(weights)))
    worlds = policy_input.draws.shape[1]
    inputs = np.zeros((len(agents), worlds, network.features.padded), np.float32)
    for rows, parts in zip(inputs, policy_input.observations, strict=True):
        network.features.fill(rows, parts)
    taus = midpoints(len(agents), agents[0].settings.iqn.acting_quantiles)
    with torch.no_grad():
        return network.means(views, torch.from_numpy(inputs), taus).numpy()


def test_an_encoder_without_a_convolution_is_linear_layers_only():
    encoders = {kind: IqnPolicy(agents_of(kind), SEED).network.encoder for kind in KINDS}

    assert encoders["flags, deep"].linear_layers == ["read.0", "read.1", "read.2"]
    convolved = [kind for kind, encoder in encoders.items() if not encoder.linear_layers]
    assert convolved == ["flags, convolved"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("worlds", "most"), [(1, 1), (6, 1), (6, 200)])
def test_the_acting_pass_gives_the_means_of_the_network(kind, worlds, most):
    agents = agents_of(kind)
    weights, policy_input = weights_of(agents), make_input(agents, worlds, most)

    output = act(agents, weights, policy_input)

    means = means_of(agents, weights, policy_input)
    np.testing.assert_allclose(output.values, means.max(axis=2), rtol=1e-4, atol=1e-5)
    chosen = np.take_along_axis(means, output.actions[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(chosen, means.max(axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_observation_of_zeros_gives_the_means_of_the_network(kind):
    agents = agents_of(kind)
    weights, policy_input = weights_of(agents), make_input(agents, 4)
    for part in policy_input.observations[1].values():
        part[...] = 0

    output = act(agents, weights, policy_input)

    means = means_of(agents, weights, policy_input)
    np.testing.assert_allclose(output.values, means.max(axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [1, 5])
def test_an_agent_gets_the_same_bits_in_any_group(kind, worlds):
    agents = agents_of(kind)
    weights, policy_input = weights_of(agents), make_input(agents, worlds)

    together = act(agents, weights, policy_input)

    for i in range(len(agents)):
        own = PolicyInput(
            policy_input.observations[i : i + 1],
            policy_input.legal[i : i + 1],
            policy_input.draws[i : i + 1],
            policy_input.exploration[i : i + 1],
        )
        alone = act(agents[i : i + 1], weights[i : i + 1], own)
        assert alone.values.tobytes() == together.values[i].tobytes()
        assert alone.actions.tobytes() == together.actions[i].tobytes()


@pytest.mark.shows("E1")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "convolved" not in kind])
def test_a_world_gets_the_same_bits_with_any_number_of_others(kind):
    agents = agents_of(kind)
    weights, policy_input = weights_of(agents), make_input(agents, 9)

    whole = act(agents, weights, policy_input)

    for worlds in (slice(1), slice(4, 6), slice(2, 9)):
        some = PolicyInput(
            [
                {name: part[worlds] for name, part in parts.items()}
                for parts in policy_input.observations
            ],
            policy_input.legal,
            policy_input.draws[:, worlds],
            policy_input.exploration,
        )
        own = act(agents, weights, some)
        assert own.action_values.tobytes() == whole.action_values[:, worlds].tobytes()
        assert own.actions.tobytes() == whole.actions[:, worlds].tobytes()


def test_a_pass_does_not_depend_on_the_one_before():
    agents = agents_of("flags")
    weights = weights_of(agents)
    policy = IqnPolicy(agents, SEED)
    policy.begin_round(weights, 1, noise=False)
    policy.act(make_input(agents, 3, data_seed=1))
    policy_input = make_input(agents, 3, data_seed=2)

    again = policy.act(policy_input)

    assert again.values.tobytes() == act(agents, weights, policy_input).values.tobytes()

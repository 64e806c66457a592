"""The acting pass of IQN: what the network says, in fewer and smaller steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.base import PolicyInput
from rookery.algorithms.iqn import IQN, IqnPolicy
from rookery.algorithms.iqn_network import midpoints
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


def plans_of(kind, agents=3):
    parts, chosen = KINDS[kind]
    return [agent_of(i, spec_of(i, parts), **chosen) for i in range(agents)]


def weights_of(agents):
    learner = IQN.learner(agents, SEED)
    return [learner.initial(agent)["weights"] for agent in agents]


def moment_of(agents, worlds, most=1, luck=0):
    """Return a moment in which a fifth of everything is above 0, up to `most`."""
    probability = np.random.default_rng(luck)
    seen = []
    for agent in agents:
        shapes = {k: (worlds, 2, *part.shape) for k, part in agent.spec.parts.items()}
        seen.append(
            {
                name: (
                    (probability.random(shape) < 0.2) * probability.integers(1, most + 1)
                ).astype(agent.spec.parts[name].dtype)
                for name, shape in shapes.items()
            }
        )
    draws = probability.random((len(agents), worlds, 2))
    return PolicyInput(seen, [None] * len(agents), draws, np.zeros(len(agents)))


def acted(agents, weights, moment):
    policy = IqnPolicy(agents, SEED)
    policy.begin_round(weights, 1, noise=False)
    return policy.act(moment)


def means_of(agents, weights, moment):
    """Return what the network says without any pass."""
    network = IqnPolicy(agents, SEED).network
    views = network.parameters.views(torch.from_numpy(np.stack(weights)))
    worlds = moment.draws.shape[1]
    inputs = np.zeros((len(agents), worlds, network.features.padded), np.float32)
    for rows, parts in zip(inputs, moment.seen, strict=True):
        network.features.fill(rows, parts)
    fractions = midpoints(len(agents), agents[0].settings.iqn.acting_quantiles)
    with torch.no_grad():
        hidden = network.read(views, torch.from_numpy(inputs))
        return network.means(views, hidden, network.embed(views, fractions)).numpy()


def test_only_whole_numbers_that_are_read_as_they_are_count_as_flags():
    found = {kind: IqnPolicy(plans_of(kind), SEED).network.sees_flags for kind in KINDS}

    assert [kind for kind, flags in found.items() if flags] == list(KINDS)[:3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("worlds", "most"), [(1, 1), (6, 1), (6, 200)])
def test_a_pass_says_what_the_network_says(kind, worlds, most):
    agents = plans_of(kind)
    weights, moment = weights_of(agents), moment_of(agents, worlds, most)

    choice = acted(agents, weights, moment)

    means = means_of(agents, weights, moment)
    np.testing.assert_allclose(choice.values, means.max(axis=2), rtol=1e-4, atol=1e-5)
    chosen = np.take_along_axis(means, choice.actions[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(chosen, means.max(axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_sees_nothing_acts_by_what_it_has_learned_to_expect(kind):
    agents = plans_of(kind)
    weights, moment = weights_of(agents), moment_of(agents, 4)
    for part in moment.seen[1].values():
        part[...] = 0

    choice = acted(agents, weights, moment)

    means = means_of(agents, weights, moment)
    np.testing.assert_allclose(choice.values, means.max(axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("worlds", [1, 5])
def test_an_agent_gets_the_same_bits_in_any_company(kind, worlds):
    agents = plans_of(kind)
    weights, moment = weights_of(agents), moment_of(agents, worlds)

    together = acted(agents, weights, moment)

    for i in range(len(agents)):
        own = PolicyInput(
            moment.seen[i : i + 1],
            moment.legal[i : i + 1],
            moment.draws[i : i + 1],
            moment.exploration[i : i + 1],
        )
        alone = acted(agents[i : i + 1], weights[i : i + 1], own)
        assert alone.values.tobytes() == together.values[i].tobytes()
        assert alone.actions.tobytes() == together.actions[i].tobytes()


def test_a_pass_leaves_nothing_behind_for_the_next():
    agents = plans_of("flags")
    weights = weights_of(agents)
    policy = IqnPolicy(agents, SEED)
    policy.begin_round(weights, 1, noise=False)
    policy.act(moment_of(agents, 3, luck=1))
    moment = moment_of(agents, 3, luck=2)

    again = policy.act(moment)

    assert again.values.tobytes() == acted(agents, weights, moment).values.tobytes()

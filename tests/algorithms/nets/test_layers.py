"""Networks of many agents: layout, padding, initial weights, noise and features."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest
import torch

from rookery.algorithms.common.group import noise_for, normals
from rookery.algorithms.iqn import IQN, IqnNetwork, midpoints
from rookery.algorithms.nets.layers import (
    Features,
    Linear,
    Noise,
    Parameters,
    add_noise,
    linear,
    padded,
    signed_root,
)
from rookery.algorithms.ppo import PPO, PpoNetwork
from rookery.rng import Purpose, Stream
from rookery.specs import Part
from tests.algorithms.conftest import WORLDS, GroupTrainer, agent_of, same_bits, spec_of

LAYERS = [Linear("first", 13, 50), Linear("second", 50, 3, noisy=True)]
STREAM = Stream(0, Purpose.INITIAL)


def numbered(parameters, agents=1):
    """Return flat vectors in which all parameters differ, and padding is zero."""
    flat = np.zeros((agents, parameters.size), np.float32)
    count = 0
    for row in flat:
        for view in parameters.unpadded(row).values():
            view[...] = np.arange(count + 1, count + 1 + view.size).reshape(view.shape)
            count += view.size
    return flat


# Layout.


@pytest.mark.parametrize(
    ("width", "expected"), [(1, 16), (13, 16), (16, 16), (17, 32), (50, 64), (128, 128)]
)
def test_widths_are_padded_to_sixteen(width, expected):
    assert padded(width) == expected


def test_unpadded_parameters_have_the_shapes_of_their_layers():
    parameters = Parameters(LAYERS)

    shapes = {
        name: v.shape for name, v in parameters.unpadded(numbered(parameters)[0]).items()
    }

    assert shapes == {
        "first.weight": (13, 50),
        "first.bias": (1, 50),
        "second.weight": (50, 3),
        "second.bias": (1, 3),
        "second.weight_noise": (50, 3),
        "second.bias_noise": (1, 3),
    }


def test_unpadded_parameters_and_views_are_the_same_numbers():
    parameters = Parameters(LAYERS)
    flat = numbered(parameters, agents=2)

    views = parameters.views(torch.from_numpy(flat))

    for i in range(2):
        for name, array in parameters.unpadded(flat[i]).items():
            rows, columns = array.shape
            whole = views[name][i].numpy()
            assert np.array_equal(whole[:rows, :columns], array)
            assert not whole[rows:].any()
            assert not whole[:, columns:].any()


def test_parameters_do_not_overlap_and_fill_the_vector():
    parameters = Parameters(LAYERS)
    flat = torch.zeros(1, parameters.size)

    for view in parameters.views(flat).values():
        view += 1

    assert bool((flat == 1).all())


def test_views_write_through():
    parameters = Parameters(LAYERS)
    flat = np.zeros((2, parameters.size), np.float32)

    parameters.views(torch.from_numpy(flat))["second.bias"][1, 0, 2] = 5.0

    assert parameters.unpadded(flat[1])["second.bias"][0, 2] == 5.0
    assert not flat[0].any()


def test_the_size_of_a_flat_vector_is_a_multiple_of_sixteen():
    assert Parameters([Linear("a", 5, 3), Linear("b", 3, 1)]).size % 16 == 0


def test_padding_that_is_not_zero_is_detected():
    parameters = Parameters(LAYERS)
    flat = numbered(parameters)

    clean = parameters.padding_is_zero(flat[0])
    parameters.views(torch.from_numpy(flat))["first.weight"][0, 13, 0] = 1e-30

    assert clean
    assert not parameters.padding_is_zero(flat[0])


def test_checking_the_padding_changes_nothing():
    parameters = Parameters(LAYERS)
    flat = numbered(parameters)[0]
    before = flat.copy()

    parameters.padding_is_zero(flat)

    assert np.array_equal(flat, before)


@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
@pytest.mark.parametrize("width", [13, 50])
def test_padding_stays_zero_through_many_updates(algorithm, width):
    network = {"width": width, "depth": 2, "quantiles": 3}
    settings = {"network": network, "iqn": {"noisy": True}, "updates_per_round": 20}
    trainer = GroupTrainer(algorithm, [agent_of(i, **settings) for i in range(2)])

    trainer.train(rounds=5)

    parameters = trainer.learner.network.parameters
    for state in trainer.states:
        assert state["counters"][0] > 15
        for name in ("weights", "target", "means", "squares"):
            assert parameters.padding_is_zero(state[name])


# Layers.


def test_a_layer_is_a_product_and_a_bias_for_each_agent():
    weights = {
        "it.weight": torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]]),
        "it.bias": torch.tensor([[[10.0, 20.0]], [[0.0, 0.0]]]),
    }
    inputs = torch.tensor([[[1.0, 1.0]], [[5.0, 7.0]]])

    assert linear(weights, "it", inputs).tolist() == [[[14.0, 26.0]], [[7.0, 5.0]]]


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("noisy", [True, False])
def test_options_of_iqn_that_are_off_have_no_parameters(dueling, noisy):
    agent = agent_of(spec=spec_of(actions=5), iqn={"dueling": dueling, "noisy": noisy})

    shapes = IqnNetwork(agent).parameters.shapes

    assert shapes["values.weight"] == (16, 6 if dueling else 5)
    assert ("values.weight_noise" in shapes) == noisy
    assert ("join.weight_noise" in shapes) == noisy
    assert "read.0.weight_noise" not in shapes


@pytest.mark.parametrize("depth", [1, 3])
def test_depth_is_the_number_of_encoder_layers(depth):
    agent = agent_of(network={"depth": depth})

    for network in (IqnNetwork(agent), PpoNetwork(agent)):
        encoder = [name for name in network.parameters.layers if name.startswith("read")]
        assert len(encoder) == depth


GRID = {
    "view": Part((3, 4, 5), np.dtype(np.uint8), scale=1 / 255),
    "self": Part((3,), np.dtype(np.float32)),
}


def test_a_convolution_is_that_of_torch():
    agent = agent_of(
        spec=spec_of(parts=GRID), frames=2, network={"channels": 16, "width": 13}
    )
    network = IqnNetwork(agent)
    flat = network.parameters.initial(STREAM, 0)
    weights = {
        name: torch.from_numpy(np.array(array))
        for name, array in network.parameters.unpadded(flat).items()
    }
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(6, 2 * 3, 4, 5, generator=generator)
    rest = torch.rand(6, 2 * 3, generator=generator)
    inputs = torch.zeros(1, 6, network.features.padded)
    inputs[0, :, :120], inputs[0, :, 120:126] = images.flatten(1), rest

    result = network.encoder(network.parameters.views(torch.from_numpy(flat[None])), inputs)

    kernel = weights["look.view.weight"].view(6, 3, 3, 16).permute(3, 0, 1, 2)
    convolved = torch.relu(
        torch.nn.functional.conv2d(images, kernel, weights["look.view.bias"][0], padding=1)
    )
    joined = torch.cat([convolved.permute(0, 2, 3, 1).flatten(1), rest], dim=1)
    expected = torch.relu(joined @ weights["read.0.weight"] + weights["read.0.bias"])
    assert torch.allclose(result[0, :, :13], expected, atol=1e-5)
    assert not result[0, :, 13:].any()


@pytest.mark.parametrize("parts", [GRID, {"self": GRID["self"]}], ids=["grid", "no grid"])
@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
def test_a_network_with_channels_learns_and_keeps_its_padding_zero(algorithm, parts):
    agent = agent_of(spec=spec_of(parts=parts), network={"channels": 16, "width": 13})
    trainer = GroupTrainer(algorithm, [agent])

    (metrics,) = trainer.train(rounds=2)

    assert metrics["updates"] > 0
    for name in ("weights", "target", "means", "squares"):
        assert trainer.learner.network.parameters.padding_is_zero(trainer.states[0][name])


def test_midpoints_are_in_the_middle_of_equal_intervals():
    result = midpoints(agents=2, quantiles=4)

    assert result.tolist() == [[[0.125, 0.375, 0.625, 0.875]]] * 2


@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
@pytest.mark.parametrize("narrow", ["width", "observation"])
def test_a_network_can_have_a_single_unit_or_input(algorithm, narrow):
    parts = {"self": Part((1,), np.dtype(np.float32))}
    agent = (
        agent_of(network={"width": 1})
        if narrow == "width"
        else agent_of(spec=spec_of(parts=parts), frames=1)
    )
    trainer = GroupTrainer(algorithm, [agent])

    (metrics,) = trainer.train()

    assert metrics["updates"] > 0


# Initial weights.


@pytest.mark.parametrize(
    ("name", "inputs"), [("first.weight", 13), ("first.bias", 13), ("second.weight", 50)]
)
def test_initial_weights_are_uniform_by_the_number_of_inputs_without_padding(name, inputs):
    drawn = np.stack(
        [
            Parameters(LAYERS).unpadded(Parameters(LAYERS).initial(STREAM, agent))[name]
            for agent in range(40)
        ]
    )
    bound = 1 / sqrt(inputs)

    assert np.abs(drawn).max() <= bound
    assert np.abs(drawn).max() > 0.98 * bound
    assert drawn.std() == pytest.approx(bound / sqrt(3), rel=0.05)
    assert abs(drawn.mean()) < 0.05 * bound


def test_initial_noise_scales_are_half_the_bound():
    parameters = Parameters(LAYERS)

    weights = parameters.unpadded(parameters.initial(STREAM, 0))

    assert np.all(weights["second.weight_noise"] == np.float32(0.5 / sqrt(50)))
    assert np.all(weights["second.bias_noise"] == np.float32(0.5 / sqrt(50)))


def test_initial_weights_have_zero_padding():
    parameters = Parameters(LAYERS)

    assert parameters.padding_is_zero(parameters.initial(STREAM, 0))


@pytest.mark.shows("A1", "D8")
def test_each_agent_and_seed_has_different_initial_weights():
    def initial(seed, agent):
        return Parameters(LAYERS).initial(Stream(seed, Purpose.INITIAL), agent).tobytes()

    assert initial(0, 0) == initial(0, 0)
    assert len({initial(seed, agent) for seed in range(3) for agent in range(3)}) == 9


@pytest.mark.shows("D8")
def test_no_two_parameters_share_their_numbers():
    parameters = Parameters([Linear("a", 30, 30), Linear("b", 30, 30)])

    flat = parameters.initial(STREAM, 0)

    weights = np.concatenate([view.ravel() for view in parameters.unpadded(flat).values()])
    assert len(np.unique(weights)) > 0.99 * len(weights)


@pytest.mark.shows("D8")
def test_no_two_parameters_of_a_very_large_layer_share_their_numbers():
    # More numbers than are asked for in one draw: 2,100 × 2,000 > 4,194,304.
    parameters = Parameters([Linear("large", 2_100, 2_000)])

    weights = parameters.unpadded(parameters.initial(STREAM, 0))

    shared = np.isin(weights["large.bias"], weights["large.weight"].ravel()[4_194_304:])
    assert shared.mean() < 0.1


# Noise.


def test_normal_numbers_have_mean_zero_and_spread_one():
    drawn = normals(Stream(0, Purpose.NOISE), (np.arange(20), 1), 0, 2_000)

    assert drawn.shape == (20, 2_000)
    assert np.isfinite(drawn).all()
    assert abs(drawn.mean()) < 0.02
    assert drawn.std() == pytest.approx(1.0, rel=0.02)
    assert (np.abs(drawn) < 1).mean() == pytest.approx(0.6827, abs=0.01)


def test_signed_root_keeps_the_sign():
    assert signed_root(np.array([-4.0, 0.0, 9.0])).tolist() == [-2.0, 0.0, 3.0]


def test_noise_is_factorised_with_the_right_variance():
    layers = {"it": (40, 30)}

    noise = noise_for(layers, Stream(0, Purpose.NOISE), (np.arange(100), 1), 0)["it"]

    whole = (noise.inputs * noise.outputs)[:, :40, :30].numpy()
    assert np.linalg.matrix_rank(whole[0]) == 1
    # The variance of sign(x) sqrt|x| is the mean of |x|: sqrt(2 / pi).
    assert noise.outputs[:, 0, :30].numpy().var() == pytest.approx(sqrt(2 / pi), rel=0.05)
    assert whole.var() == pytest.approx(2 / pi, rel=0.05)
    assert abs(whole.mean()) < 0.02


def test_noise_of_padding_is_zero():
    noise = noise_for({"it": (13, 3)}, Stream(0, Purpose.NOISE), (np.arange(2), 1), 0)["it"]

    assert noise.inputs.shape == (2, 16, 1)
    assert noise.outputs.shape == (2, 1, 16)
    assert not noise.inputs[:, 13:].any()
    assert not noise.outputs[:, :, 3:].any()


@pytest.mark.shows("A1", "D8")
def test_noise_is_keyed_by_agent_round_and_layer():
    stream, layers = Stream(0, Purpose.NOISE), {"a": (5, 5), "b": (5, 5)}

    def drawn(agent, number, layer, draw=0):
        noise = noise_for(layers, stream, (np.array([agent]), number), draw)[layer]
        return torch.cat([noise.inputs.flatten(), noise.outputs.flatten()]).numpy()

    keys = [
        (agent, number, layer) for agent in (0, 1) for number in (1, 2) for layer in "ab"
    ]
    assert len({drawn(*key).tobytes() for key in keys}) == 8
    assert np.array_equal(drawn(0, 1, "a"), drawn(0, 1, "a"))
    assert not np.array_equal(drawn(0, 1, "a"), drawn(0, 1, "a", draw=2))


@pytest.mark.shows("A2", "D8")
def test_an_agents_noise_does_not_depend_on_its_group():
    stream, layers = Stream(0, Purpose.NOISE), {"it": (13, 3)}

    alone = noise_for(layers, stream, (np.array([4]), 1), 0)["it"]
    together = noise_for(layers, stream, (np.array([1, 4, 9]), 1), 0)["it"]

    assert torch.equal(alone.inputs[0], together.inputs[1])
    assert torch.equal(alone.outputs[0], together.outputs[1])


@pytest.mark.shows("D3")
def test_noisy_weights_by_hand():
    weights = {
        "it.weight": torch.tensor([[[1.0, 1.0], [1.0, 1.0]]]),
        "it.bias": torch.tensor([[[5.0, 5.0]]]),
        "it.weight_noise": torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]),
        "it.bias_noise": torch.tensor([[[1.0, 2.0]]]),
        "other.bias": torch.tensor([[[9.0]]]),
    }
    inputs, outputs = torch.tensor([[[1.0], [-1.0]]]), torch.tensor([[[2.0, 3.0]]])

    result = add_noise(weights, {"it": Noise(inputs, outputs)})

    assert result["it.weight"].numpy() == pytest.approx(
        np.array([[[1.2, 1.6], [0.4, -0.2]]])
    )
    assert result["it.bias"].tolist() == [[[7.0, 11.0]]]
    assert result["other.bias"] is weights["other.bias"]
    assert "it.weight_noise" not in result


# Features.


PARTS = {
    "view": Part((2, 2), np.dtype(np.uint8), scale=1 / 255),
    "self": Part((3,), np.dtype(np.float32)),
    "flag": Part((), np.dtype(np.bool_), scale=2.0),
    "count": Part((1,), np.dtype(np.int64)),
}


def observations(rows, frames):
    return {
        "view": np.full((rows, frames, 2, 2), 255, np.uint8),
        "self": np.arange(rows * frames * 3, dtype=np.float32).reshape(rows, frames, 3),
        "flag": np.ones((rows, frames), bool),
        "count": np.full((rows, frames, 1), -7),
    }


def test_features_are_side_by_side_and_scaled():
    features = Features(spec_of(parts=PARTS), frames=1)
    inputs = np.full((2, features.padded), -1.0, np.float32)

    features.fill(inputs, observations(rows=2, frames=1))

    assert (features.width, features.padded) == (9, 16)
    assert np.allclose(inputs[0, :9], [1, 1, 1, 1, 0, 1, 2, 2, -7])
    assert np.allclose(inputs[1, :9], [1, 1, 1, 1, 3, 4, 5, 2, -7])


def test_features_of_several_frames_come_part_by_part_and_oldest_first():
    features = Features(spec_of(parts=PARTS), frames=2)
    inputs = np.zeros((1, features.padded), np.float32)

    features.fill(inputs, observations(rows=1, frames=2))

    assert (features.width, features.padded) == (18, 32)
    assert np.allclose(inputs[0, :8], 1)
    assert inputs[0, 8:14].tolist() == [0, 1, 2, 3, 4, 5]
    assert inputs[0, 14:18].tolist() == [2, 2, -7, -7]


def test_features_do_not_change_padding():
    features = Features(spec_of(parts=PARTS), frames=1)
    inputs = np.zeros((2, features.padded), np.float32)

    features.fill(inputs, observations(rows=2, frames=1))

    assert not inputs[:, features.width :].any()


def test_bytes_are_scaled_to_at_most_one():
    features = Features(
        spec_of(parts={"view": Part((256,), np.dtype(np.uint8), scale=1 / 255)}), frames=1
    )
    inputs = np.zeros((1, features.padded), np.float32)

    features.fill(inputs, {"view": np.arange(256, dtype=np.uint8).reshape(1, 1, 256)})

    assert np.allclose(inputs[0], np.arange(256) / 255, rtol=1e-6)


# Named states, for digests and exports.


@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
def test_a_named_state_has_no_padding(algorithm):
    agent = agent_of(network={"width": 13})
    learner = algorithm.learner([agent], 0)

    named = learner.named(learner.initial(agent))

    size = sum(
        rows * columns for rows, columns in learner.network.parameters.shapes.values()
    )
    sizes = [array.size for name, array in named.items() if name.startswith("weights.")]
    assert sum(sizes) == size


@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
def test_a_state_is_the_same_after_naming_and_back(algorithm):
    settings = {"network": {"width": 13}, "replay": {"kind": "prioritised"}}
    trainer = GroupTrainer(algorithm, [agent_of(i, **settings) for i in range(2)])
    trainer.train(rounds=2)

    for state in trainer.states:
        assert same_bits(trainer.learner.unnamed(trainer.learner.named(state)), state)


@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
def test_weights_are_the_same_after_naming_and_back(algorithm):
    agent = agent_of(network={"width": 13})
    flat = algorithm.learner([agent], 0).initial(agent)["weights"]

    named = algorithm.learner.named_weights(agent, flat)

    assert np.array_equal(algorithm.learner.flat_weights(agent, named), flat)


@pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])
def test_a_state_has_the_declared_shapes(algorithm):
    settings = {"network": {"width": 13}, "replay": {"kind": "prioritised"}}
    trainer = GroupTrainer(algorithm, [agent_of(0, **settings)])
    trainer.train(rounds=2)

    declared = algorithm.learner.shapes(
        agent_of(0, **settings), trainer.experiences[0].rows.slots, WORLDS
    )

    result = {name: (array.shape, array.dtype) for name, array in trainer.states[0].items()}
    assert result == {
        name: (shape, np.dtype(kind)) for name, (shape, kind) in declared.items()
    }

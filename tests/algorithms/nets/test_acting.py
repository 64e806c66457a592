"""Layers for acting: sums of weights in the order of the inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.nets import acting

AGENTS, ROWS, WIDTH, QUANTILES = 2, 5, 48, 3


def array(*shape, zeros=0.0, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=shape) * (rng.random(shape) >= zeros)
    return numbers.astype(np.float32)


def weights_of(inputs, outputs, name="join"):
    return {
        f"{name}.weight": array(AGENTS, inputs, outputs, seed=1),
        f"{name}.bias": array(AGENTS, 1, outputs, seed=2),
    }


def sum_by_hand(bias, weight, inputs):
    sums = bias.copy()
    for k in np.flatnonzero(inputs):
        sums = sums + inputs[k] * weight[k]
    return sums


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("outputs", [16, WIDTH, 80])
def test_a_layer_sums_weights_in_the_order_of_its_inputs(outputs, zeros, relu):
    weights, inputs = weights_of(WIDTH, outputs), array(AGENTS, ROWS, WIDTH, zeros=zeros)

    layer = acting.linear(weights, "join", inputs, relu)

    for i in range(AGENTS):
        for row in range(ROWS):
            bias, weight = weights["join.bias"][i, 0], weights["join.weight"][i]
            sums = sum_by_hand(bias, weight, inputs[i, row])
            assert np.array_equal(layer[i, row], np.maximum(sums, 0) if relu else sums)


@pytest.mark.parametrize("zeros", [0.0, 0.5, 1.0])
def test_quantiles_are_joined_one_by_one_and_summed(zeros):
    weights = weights_of(WIDTH, WIDTH)
    encoded = array(AGENTS, ROWS, WIDTH, zeros=zeros)
    embedded = array(AGENTS, QUANTILES, WIDTH, zeros=0.5, seed=3)

    sums = acting.joined_sums(weights, encoded, embedded)

    for i in range(AGENTS):
        for row in range(ROWS):
            expected = np.zeros(WIDTH, np.float32)
            for factors in embedded[i]:
                joined = encoded[i, row] * factors
                bias, weight = weights["join.bias"][i, 0], weights["join.weight"][i]
                expected += np.maximum(sum_by_hand(bias, weight, joined), 0)
            assert np.array_equal(sums[i, row], expected)


def test_a_layer_is_the_matrix_product_up_to_rounding():
    weights, inputs = weights_of(WIDTH, WIDTH), array(AGENTS, ROWS, WIDTH)

    layer = acting.linear(weights, "join", inputs, relu=False)

    tensors = {name: torch.from_numpy(weight) for name, weight in weights.items()}
    product = torch.baddbmm(
        tensors["join.bias"], torch.from_numpy(inputs), tensors["join.weight"]
    )
    np.testing.assert_allclose(layer, product.numpy(), rtol=1e-4, atol=1e-5)


def test_weights_are_copied_to_where_layers_can_read_them():
    flat = torch.arange(2 * 100.0).view(2, 100)
    sliced = {"join.weight": flat[:, 4:68].view(2, 4, 16)}

    weights = acting.weights_of(sliced)

    assert weights["join.weight"].flags.c_contiguous
    assert np.array_equal(weights["join.weight"], sliced["join.weight"].numpy())

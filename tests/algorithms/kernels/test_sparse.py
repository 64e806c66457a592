"""Inputs that are mostly 0: drawn and multiplied without the zeros."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.kernels.sparse import (
    Nonzero,
    multiply_sparse,
    multiply_sparse_backward,
)
from rookery.algorithms.nets.layers import Features
from rookery.replay.drawing import addresses_of
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part

SLOTS, WORLDS = 9, 4


def sparse_rows(shapes, density, seed=0):
    """Return a spec and rows whose parts have these shapes, filled at random."""
    rng = np.random.default_rng(seed)
    parts = {f"part {i}": Part(shape, np.dtype(np.uint8)) for i, shape in enumerate(shapes)}
    spec = AgentSpec("0", "agent", parts, ("a", "b"))
    rows = Rows(Block.private(Rows.layout(spec, WORLDS, SLOTS)))
    for part in rows.parts.values():
        part[...] = rng.integers(1, 256, part.shape) * (rng.random(part.shape) < density)
    rows.columns["age"][...] = rng.integers(0, 4, (SLOTS, WORLDS))
    return spec, rows


@pytest.mark.shows("B6")
@pytest.mark.parametrize("density", [0.0, 0.05, 1.0], ids=str)
@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize(
    "shapes", [[(7,)], [(16,)], [(6, 5, 5)], [(3, 3), (), (2, 4)]], ids=str
)
def test_what_is_drawn_is_what_is_not_0_in_the_inputs(shapes, frames, density):
    spec, rows = sparse_rows(shapes, density)
    rng, features = np.random.default_rng(1), Features(spec, frames)
    turns, worlds = rng.integers(0, 99, 40), rng.integers(0, WORLDS, 40)
    addresses = addresses_of(rows, turns, worlds)
    inputs = np.zeros((40, features.padded), np.float32)
    nonzero = Nonzero.allocate(1, 40, features.padded)

    features.draw(inputs, rows, addresses)
    own = (nonzero.indices[0], nonzero.values[0], nonzero.counts[0])
    features.draw_nonzero(own, rows, addresses)

    assert nonzero.dense()[0].numpy().tobytes() == inputs.tobytes()
    found = Nonzero.allocate(1, 40, features.padded).find(torch.from_numpy(inputs)[None])
    for i, count in enumerate(found.counts[0]):
        assert np.array_equal(found.indices[0, i, :count], nonzero.indices[0, i, :count])


@pytest.mark.parametrize("units", [16, 48])
def test_products_are_those_with_all_inputs(units):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((10, 32), np.float32) * (rng.random((10, 32)) < 0.2)
    inputs = inputs.astype(np.float32)
    weight, d_outputs = (
        rng.standard_normal(shape, np.float32) for shape in ((32, units), (6, units))
    )
    nonzero = Nonzero.allocate(1, 10, 32).find(torch.from_numpy(inputs)[None])
    own = (nonzero.indices[0], nonzero.values[0], nonzero.counts[0])
    outputs, d_weight = np.empty((10, units), np.float32), np.empty_like(weight)

    multiply_sparse(*own, weight, outputs)
    multiply_sparse_backward(*own, d_outputs, d_weight)

    assert np.allclose(outputs, inputs @ weight, atol=1e-5)
    assert np.allclose(d_weight, inputs[:6].T @ d_outputs, atol=1e-5)


def test_inputs_are_0_until_they_are_drawn():
    for _ in range(20):
        freed = np.full((3, 40), -1, np.int64)  # what an empty array would find
        del freed
        nonzero = Nonzero.allocate(3, 40, 16)
        assert not nonzero.dense().any()
        assert not nonzero.counts.any()

"""Matrix products by torch's BLAS library, called from compiled loops."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from rookery.algorithms.kernels import products
from rookery.errors import RookeryError

SIZES = [(1, 16, 16), (5, 16, 48), (64, 80, 64), (130, 256, 16)]


def random_matrix(rows, columns, seed):
    drawn = np.random.default_rng(seed).standard_normal((rows, columns), np.float32)
    return torch.from_numpy(drawn).clone().numpy()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_are_those_of_numpy(sizes):
    rows, inputs, units = sizes
    x, w = random_matrix(rows, inputs, 0), random_matrix(inputs, units, 1)
    y, d_w, d_x = np.full((rows, units), np.nan, np.float32), np.empty_like(w), x.copy()

    products.multiply(x, w, y)
    products.multiply_transposed_left(x, y, d_w)
    products.multiply_transposed_right(y, w, d_x)

    for found, expected in ((y, x @ w), (d_w, x.T @ y), (d_x, y @ w.T)):
        assert np.allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.shows("A1")
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_product_has_the_same_bits_wherever_its_agent_is_in_memory(sizes):
    rows, inputs, units = sizes
    x, w = random_matrix(rows, inputs, 0), random_matrix(inputs, units, 1)
    found = set()
    for place in range(8):
        all_x, all_w, all_y = (
            torch.zeros(8, *shape).numpy()
            for shape in ((rows, inputs), (inputs, units), (rows, units))
        )
        all_x[place], all_w[place] = x, w
        products.multiply(all_x[place], all_w[place], all_y[place])
        found.add(all_y[place].tobytes())

    assert len(found) == 1


def test_a_torch_without_blas_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda path: object())

    with pytest.raises(
        RookeryError, match=r"offers no 'sgemm_', .* install torch with pip"
    ):
        products.find_sgemm()

"""The cosines of IQN's embedding, against the cosine of float64."""

from __future__ import annotations

import numpy as np

from rookery.algorithms.kernels.cosines import COSINES, cosines_of, write_cosines


def test_cosines_are_as_exact_as_float32_can_be():
    taus = np.random.default_rng(0).random((2, 500)).astype(np.float32)
    taus[0, :3] = 0.0, 0.5, 1.0
    angles = np.pi * np.arange(COSINES) * taus.astype(np.float64)[..., None]

    assert np.abs(cosines_of(taus) - np.cos(angles)).max() < 2**-24


def test_a_cosine_does_not_depend_on_its_place():
    taus = np.random.default_rng(1).random((3, 17)).astype(np.float32)
    together = cosines_of(taus)

    for a, r in np.ndindex(taus.shape):
        alone = cosines_of(taus[a : a + 1, r : r + 1].copy())
        assert alone.tobytes() == together[a, r].tobytes()


def test_rows_after_those_of_the_taus_keep_what_they_hold():
    taus = np.random.default_rng(2).random((2, 9)).astype(np.float32)
    cosines = np.full((2, 6, COSINES), 7, np.float32)

    write_cosines(taus, 5, 4, cosines)

    assert np.array_equal(cosines[:, :4], cosines_of(taus)[:, 5:])
    assert (cosines[:, 4:] == 7).all()

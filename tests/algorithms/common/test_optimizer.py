"""Adam over many agents: like torch's for one, and independent of the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common.optimizer import (
    adam_step,
    clip_factors,
    gradient_norms,
)

SIZE = 16 * 32 + 32 + 32 * 16 + 16
"""The parameters of a small network."""


def random_array(agents, seed, scale=1.0):
    drawn = scale * np.random.default_rng(seed).normal(size=(agents, SIZE))
    return drawn.astype(np.float32)


class Learners:
    """The arrays of some agents, and updates with given gradients."""

    def __init__(self, agents, seed=0):
        self.weights = random_array(agents, seed)
        self.target = random_array(agents, seed + 1)
        self.means = np.zeros_like(self.weights)
        self.squares = np.zeros_like(self.weights)

    @property
    def arrays(self):
        return [self.weights, self.means, self.squares, self.target]

    def pick(self, i):
        """Return agent i on its own."""
        alone = Learners(1)
        for mine, whole in zip(alone.arrays, self.arrays, strict=True):
            mine[...] = whole[i : i + 1]
        return alone

    def copies(self):
        return [array.copy() for array in self.arrays]

    def step(
        self,
        gradients,
        *,
        rates=None,
        counts=None,
        limits=None,
        active=None,
        target_rates=None,
    ):
        agents = len(self.weights)
        norms = np.zeros(agents, np.float32)
        gradient_norms(gradients, norms)
        limits = np.array(limits or [np.inf] * agents, np.float32)
        adam_step(
            *self.arrays,
            gradients,
            factors=clip_factors(norms, limits),
            rates=np.array(rates or [1e-3] * agents, np.float32),
            counts=np.array(counts or [1] * agents),
            active=np.array(active or [True] * agents),
            target_rates=np.array(target_rates or [0.5] * agents, np.float32),
        )


@pytest.mark.parametrize("limit", [1e9, 0.5], ids=["unclipped", "clipped"])
def test_one_agent_learns_like_torchs_adam(limit):
    learners = Learners(1)
    theirs = torch.tensor(learners.weights[0], requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=3e-3)
    for count in range(1, 31):
        gradients = random_array(1, seed=count, scale=0.1)
        learners.step(gradients, rates=[3e-3], counts=[count], limits=[limit])

        theirs.grad = torch.tensor(gradients[0])
        torch.nn.utils.clip_grad_norm_([theirs], limit)
        optimizer.step()

    assert np.allclose(learners.weights[0], theirs.detach(), rtol=0, atol=2e-6)


def test_the_first_update_moves_weights_by_the_learning_rate():
    learners = Learners(1)
    before = learners.weights.copy()

    learners.step(random_array(1, seed=1), rates=[0.01])

    moved = np.abs(learners.weights - before)
    assert np.allclose(moved, np.full_like(moved, 0.01), atol=1e-6)


def test_targets_move_to_the_new_weights_by_their_rates():
    learners = Learners(3)
    old = learners.target.copy()

    learners.step(random_array(3, seed=1), target_rates=[0.0, 0.25, 1.0])

    assert np.array_equal(learners.target[0], old[0])
    quarter = 0.75 * old[1] + 0.25 * learners.weights[1]
    assert np.allclose(learners.target[1], quarter, rtol=0, atol=1e-6)
    assert np.array_equal(learners.target[2], learners.weights[2])


def test_norms_are_of_each_agents_own_gradient():
    gradients, norms = random_array(3, seed=1), np.zeros(3, np.float32)
    gradients[1] *= 100

    gradient_norms(gradients, norms)

    assert norms == pytest.approx(np.linalg.norm(gradients, axis=1), rel=1e-6)


@pytest.mark.shows("A1", "D5")
def test_each_agent_is_updated_as_if_it_were_alone():
    settings = {
        "rates": [1e-3, 5e-2, 1e-4],
        "counts": [1, 7, 1000],
        "limits": [1e9, 0.5, 0.01],
        "target_rates": [0.0, 0.1, 1.0],
    }
    together = Learners(3)
    alone = [together.pick(i) for i in range(3)]
    gradients = random_array(3, seed=1)

    together.step(gradients, **settings)

    for i, learner in enumerate(alone):
        mine = {name: values[i : i + 1] for name, values in settings.items()}
        learner.step(gradients[i : i + 1], **mine)
        for mine, whole in zip(learner.arrays, together.arrays, strict=True):
            assert np.array_equal(mine[0], whole[i])


@pytest.mark.shows("A1")
def test_inactive_agents_keep_every_bit():
    learners = Learners(3)
    before = learners.copies()

    learners.step(random_array(3, seed=1), active=[True, False, True])

    for old, new in zip(before, learners.arrays, strict=True):
        assert np.array_equal(old[1], new[1])
        assert not np.array_equal(old[0], new[0])
        assert not np.array_equal(old[2], new[2])


@pytest.mark.shows("A1")
def test_active_agents_do_not_depend_on_inactive_ones():
    all_active, some_active = Learners(3), Learners(3)
    gradients = random_array(3, seed=1)

    all_active.step(gradients, active=[True, True, True])
    some_active.step(gradients, active=[True, False, True])

    for a, b in zip(all_active.arrays, some_active.arrays, strict=True):
        assert np.array_equal(a[0], b[0])
        assert np.array_equal(a[2], b[2])


@pytest.mark.shows("A1")
def test_a_nan_gradient_of_an_inactive_agent_does_not_spread():
    learners, sound = Learners(2), Learners(2)
    gradients = random_array(2, seed=1)
    broken = gradients.copy()
    broken[1, 512] = np.nan
    broken[1, -1] = np.inf

    learners.step(broken, limits=[1.0, 1.0], active=[True, False])
    sound.step(gradients, limits=[1.0, 1.0], active=[True, False])

    for a, b in zip(learners.arrays, sound.arrays, strict=True):
        assert np.array_equal(a, b)


def test_an_agent_without_a_gradient_and_moments_does_not_move():
    learners = Learners(1)
    before = learners.copies()

    learners.step(np.zeros((1, SIZE), np.float32), target_rates=[0.0])

    for old, new in zip(before, learners.arrays, strict=True):
        assert np.array_equal(old, new)


# Clipping.


@pytest.mark.shows("D5")
def test_each_agent_is_clipped_to_its_own_limit():
    norms = np.array([5.0, 5.0, 0.5, 0.0], np.float32)
    limits = np.array([1.0, 10.0, 1.0, 1.0], np.float32)

    factors = clip_factors(norms, limits)

    assert factors.tolist() == pytest.approx([0.2, 1.0, 1.0, 1.0])


@pytest.mark.shows("A1", "D5")
def test_an_agents_large_gradient_does_not_clip_the_others():
    large = np.array([1e6, 0.5], np.float32)

    assert clip_factors(large, np.ones(2, np.float32))[1] == 1.0

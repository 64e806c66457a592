"""Adam over many agents: like torch's for one, and independent of the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common.optimizer import adam_step, clip_factors

SIZE = 16 * 32 + 32 + 32 * 16 + 16


def random_tensor(agents, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(agents, SIZE, generator=generator)


class Learners:
    """The tensors of some agents, and updates with given gradients."""

    def __init__(self, agents, seed=0):
        self.weights = random_tensor(agents, seed)
        self.means = torch.zeros_like(self.weights)
        self.squares = torch.zeros_like(self.weights)

    @property
    def tensors(self):
        return [self.weights, self.means, self.squares]

    def pick(self, i):
        """Return agent i on its own."""
        alone = Learners(1)
        for mine, whole in zip(alone.tensors, self.tensors, strict=True):
            mine.copy_(whole[i : i + 1])
        return alone

    def copies(self):
        return [tensor.clone() for tensor in self.tensors]

    def step(self, gradients, *, rates=None, counts=None, limits=None, active=None):
        agents = len(self.weights)
        factors = torch.ones(agents)
        if limits is not None:
            norms = torch.linalg.vector_norm(gradients, dim=1)
            factors = clip_factors(norms, torch.tensor(limits))
        adam_step(
            self.weights,
            self.means,
            self.squares,
            gradients.clone(),
            factors=factors,
            rates=torch.tensor(rates or [1e-3] * agents),
            counts=torch.tensor(counts or [1] * agents),
            active=torch.tensor(active or [True] * agents),
        )


@pytest.mark.parametrize("limit", [1e9, 0.5], ids=["unclipped", "clipped"])
def test_one_agent_learns_like_torchs_adam(limit):
    learners = Learners(1)
    theirs = learners.weights[0].clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=3e-3)
    for count in range(1, 31):
        gradients = random_tensor(1, seed=count, scale=0.1)
        learners.step(gradients, rates=[3e-3], counts=[count], limits=[limit])

        theirs.grad = gradients[0].clone()
        torch.nn.utils.clip_grad_norm_([theirs], limit)
        optimizer.step()

    assert torch.allclose(learners.weights[0], theirs, rtol=0, atol=2e-6)


def test_the_first_update_moves_weights_by_the_learning_rate():
    learners = Learners(1)
    before = learners.copies()[0]

    learners.step(random_tensor(1, seed=1), rates=[0.01])

    moved = (learners.weights - before).abs()
    assert torch.allclose(moved, torch.full_like(moved, 0.01), atol=1e-6)


@pytest.mark.shows("A1", "D5")
def test_each_agent_is_updated_as_if_it_were_alone():
    settings = {
        "rates": [1e-3, 5e-2, 1e-4],
        "counts": [1, 7, 1000],
        "limits": [1e9, 0.5, 0.01],
    }
    together = Learners(3)
    alone = [together.pick(i) for i in range(3)]
    gradients = random_tensor(3, seed=1)

    together.step(gradients, **settings)

    for i, learner in enumerate(alone):
        mine = {name: values[i : i + 1] for name, values in settings.items()}
        learner.step(gradients[i : i + 1], **mine)
        for mine, whole in zip(learner.tensors, together.tensors, strict=True):
            assert torch.equal(mine[0], whole[i])


@pytest.mark.shows("A1")
def test_inactive_agents_keep_every_bit():
    learners = Learners(3)
    before = learners.copies()

    learners.step(random_tensor(3, seed=1), active=[True, False, True])

    for old, new in zip(before, learners.tensors, strict=True):
        assert torch.equal(old[1], new[1])
        assert not torch.equal(old[0], new[0])
        assert not torch.equal(old[2], new[2])


@pytest.mark.shows("A1")
def test_active_agents_do_not_depend_on_inactive_ones():
    all_active, some_active = Learners(3), Learners(3)
    gradients = random_tensor(3, seed=1)

    all_active.step(gradients, active=[True, True, True])
    some_active.step(gradients, active=[True, False, True])

    for a, b in zip(all_active.tensors, some_active.tensors, strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[2], b[2])


@pytest.mark.shows("A1")
def test_a_nan_gradient_of_an_inactive_agent_does_not_spread():
    learners, sound = Learners(2), Learners(2)
    gradients = random_tensor(2, seed=1)
    broken = gradients.clone()
    broken[1, 512] = np.nan
    broken[1, -1] = np.inf

    learners.step(broken, limits=[1.0, 1.0], active=[True, False])
    sound.step(gradients, limits=[1.0, 1.0], active=[True, False])

    for a, b in zip(learners.tensors, sound.tensors, strict=True):
        assert torch.equal(a, b)


def test_an_agent_without_a_gradient_and_moments_does_not_move():
    learners = Learners(1)
    before = learners.copies()

    learners.step(torch.zeros(1, SIZE))

    for old, new in zip(before, learners.tensors, strict=True):
        assert torch.equal(old, new)


# Clipping.


@pytest.mark.shows("D5")
def test_each_agent_is_clipped_to_its_own_limit():
    norms, limits = torch.tensor([5.0, 5.0, 0.5, 0.0]), torch.tensor([1.0, 10.0, 1.0, 1.0])

    factors = clip_factors(norms, limits)

    assert factors.tolist() == pytest.approx([0.2, 1.0, 1.0, 1.0])


@pytest.mark.shows("A1", "D5")
def test_an_agents_large_gradient_does_not_clip_the_others():
    large = torch.tensor([1e6, 0.5])

    assert clip_factors(large, torch.tensor([1.0, 1.0]))[1] == 1.0

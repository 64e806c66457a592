"""Adam over many agents: like torch's for one, and blind to who else is there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common.optimizer import adam_step, clip_factors, squared_norms

SHAPES = {"a.weight": (16, 32), "a.bias": (1, 32), "b.weight": (32, 16), "b.bias": (1, 16)}


def random_tensors(agents, luck, scale=1.0):
    generator = torch.Generator().manual_seed(luck)
    return {
        name: scale * torch.randn(agents, *shape, generator=generator)
        for name, shape in SHAPES.items()
    }


class Learners:
    """The tensors of some agents, and steps with random gradients."""

    def __init__(self, agents, luck=0):
        self.weights = random_tensors(agents, luck)
        self.means = {name: torch.zeros_like(t) for name, t in self.weights.items()}
        self.squares = {name: torch.zeros_like(t) for name, t in self.weights.items()}

    @property
    def tensors(self):
        return [
            tensor
            for kept in (self.weights, self.means, self.squares)
            for tensor in kept.values()
        ]

    def pick(self, i):
        """Return agent i by itself."""
        alone = Learners(1)
        for mine, whole in zip(alone.tensors, self.tensors, strict=True):
            mine.copy_(whole[i : i + 1])
        return alone

    def copies(self):
        return [tensor.clone() for tensor in self.tensors]

    def step(self, gradients, *, rates=None, counts=None, limits=None, active=None):
        agents = len(self.weights["a.bias"])
        norms = squared_norms(list(gradients.values())).sqrt()
        factors = torch.ones(agents)
        if limits is not None:
            factors = clip_factors(norms, torch.tensor(limits))
        adam_step(
            self.weights,
            self.means,
            self.squares,
            {name: gradient.clone() for name, gradient in gradients.items()},
            factors=factors,
            rates=torch.tensor(rates or [1e-3] * agents),
            counts=torch.tensor(counts or [1] * agents),
            active=torch.tensor(active or [True] * agents),
        )


def picked(gradients, i):
    return {name: gradient[i : i + 1].clone() for name, gradient in gradients.items()}


@pytest.mark.parametrize("limit", [1e9, 0.5], ids=["unclipped", "clipped"])
def test_one_agent_learns_like_torchs_adam(limit):
    learners = Learners(1)
    theirs = [tensor[0].clone().requires_grad_() for tensor in learners.weights.values()]
    optimizer = torch.optim.Adam(theirs, lr=3e-3)
    for count in range(1, 31):
        gradients = random_tensors(1, luck=count, scale=0.1)
        learners.step(gradients, rates=[3e-3], counts=[count], limits=[limit])

        for parameter, gradient in zip(theirs, gradients.values(), strict=True):
            parameter.grad = gradient[0].clone()
        torch.nn.utils.clip_grad_norm_(theirs, limit)
        optimizer.step()

    for mine, other in zip(learners.weights.values(), theirs, strict=True):
        assert torch.allclose(mine[0], other, rtol=0, atol=2e-6)


def test_the_first_step_is_the_learning_rate_long():
    learners = Learners(1)
    before = learners.copies()[0]

    learners.step(random_tensors(1, luck=1), rates=[0.01])

    moved = (learners.weights["a.weight"] - before).abs()
    assert torch.allclose(moved, torch.full_like(moved, 0.01), atol=1e-6)


@pytest.mark.shows("A1", "D5")
def test_each_agent_steps_as_if_it_were_alone():
    settings = {
        "rates": [1e-3, 5e-2, 1e-4],
        "counts": [1, 7, 1000],
        "limits": [1e9, 0.5, 0.01],
    }
    together = Learners(3)
    alone = [together.pick(i) for i in range(3)]
    gradients = random_tensors(3, luck=1)

    together.step(gradients, **settings)

    for i, learner in enumerate(alone):
        chosen = {name: values[i : i + 1] for name, values in settings.items()}
        learner.step(picked(gradients, i), **chosen)
        for mine, whole in zip(learner.tensors, together.tensors, strict=True):
            assert torch.equal(mine[0], whole[i])


@pytest.mark.shows("A1")
def test_inactive_agents_keep_every_bit():
    learners = Learners(3)
    before = learners.copies()

    learners.step(random_tensors(3, luck=1), active=[True, False, True])

    for old, new in zip(before, learners.tensors, strict=True):
        assert torch.equal(old[1], new[1])
        assert not torch.equal(old[0], new[0])
        assert not torch.equal(old[2], new[2])


@pytest.mark.shows("A1")
def test_active_agents_do_not_notice_that_others_are_not():
    one, other = Learners(3), Learners(3)
    gradients = random_tensors(3, luck=1)

    one.step(gradients, active=[True, True, True])
    other.step(gradients, active=[True, False, True])

    for a, b in zip(one.tensors, other.tensors, strict=True):
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[2], b[2])


@pytest.mark.shows("A1")
def test_a_gradient_that_is_no_number_stays_with_its_inactive_agent():
    learners, sound = Learners(2), Learners(2)
    gradients = random_tensors(2, luck=1)
    broken = {name: gradient.clone() for name, gradient in gradients.items()}
    broken["a.bias"][1] = np.nan
    broken["b.bias"][1] = np.inf

    learners.step(broken, limits=[1.0, 1.0], active=[True, False])
    sound.step(gradients, limits=[1.0, 1.0], active=[True, False])

    for one, other in zip(learners.tensors, sound.tensors, strict=True):
        assert torch.equal(one, other)


def test_an_agent_without_a_gradient_and_moments_does_not_move():
    learners = Learners(1)
    before = learners.copies()

    learners.step({name: torch.zeros(1, *shape) for name, shape in SHAPES.items()})

    for old, new in zip(before, learners.tensors, strict=True):
        assert torch.equal(old, new)


# Clipping.


def test_norms_are_those_of_all_of_an_agents_gradients():
    gradients = [torch.tensor([[[3.0]], [[0.0]]]), torch.tensor([[[4.0]], [[2.0]]])]

    assert squared_norms(gradients).tolist() == [25.0, 4.0]


@pytest.mark.shows("D5")
def test_each_agent_is_clipped_to_its_own_limit():
    norms, limits = torch.tensor([5.0, 5.0, 0.5, 0.0]), torch.tensor([1.0, 10.0, 1.0, 1.0])

    factors = clip_factors(norms, limits)

    assert factors.tolist() == pytest.approx([0.2, 1.0, 1.0, 1.0])


@pytest.mark.shows("A1", "D5")
def test_an_agents_large_gradient_clips_nobody_else():
    large = torch.tensor([1e6, 0.5])

    assert clip_factors(large, torch.tensor([1.0, 1.0]))[1] == 1.0

"""Bugs planted into PPO, V-trace and recurrent PPO: the comparisons detect them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from rookery.algorithms import vtrace
from rookery.algorithms.common import rollout
from rookery.algorithms.common.rollout import Rollout
from rookery.algorithms.kernels import actor_critic
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.ppo import PpoLearner
from rookery.algorithms.vtrace import VtraceLearner
from rookery.replay.sequences import Chain
from tests.references.planting import (
    Bug,
    assert_detected,
    instead,
    with_arguments,
    with_named_arguments,
    with_result,
)
from tests.references.policy_learners import (
    compare_ppo,
    compare_recurrent_ppo,
    compare_vtrace,
)

UNDECIDED = partial(compare_ppo, ppo={"entropy": 0.3})
CLIPPED = partial(compare_ppo, ppo={"clip": 0.05})
LONG = partial(compare_ppo, ppo={"gae": 0.9})
PARTS = partial(compare_ppo, ppo={"minibatches": 5})
NARROW = partial(compare_vtrace, vtrace={"rho_bar": 0.5, "c_bar": 0.5})
TWICE = partial(compare_vtrace, vtrace={"passes": 2})
SEQUENCES = partial(compare_recurrent_ppo, recurrent={"sequence": 5})


def entropy_costs(right):
    def wrong(settings):
        parts = right(settings)
        return parts.model_copy(update={"entropy": -parts.entropy})

    return staticmethod(wrong)


def not_cut(right):
    def wrong(successors, deltas, decays):
        return right(successors, deltas, np.ones_like(decays))

    return wrong


def one_for_all(right):
    """Standardise advantages by those of the first agent."""

    def wrong(self, i, *rest):
        right(self, i, *rest)
        if i > 0:
            self.advantages[i] *= self.advantages[0].std() + 0.5

    return wrong


def all_are_used(right):
    return lambda self, slots, unused: right(self, slots, np.zeros_like(unused))


def bounds(**update):
    return with_arguments(*[None] * 6, lambda settings: settings.model_copy(update=update))


def never_started(right):
    def wrong(self, weights, inputs, hidden, keep):
        return right(self, weights, inputs, hidden, torch.ones_like(keep))

    return wrong


BUGS = {
    "entropy is a cost": Bug(UNDECIDED, PpoLearner, "parts", entropy_costs, "loss"),
    "the ratio is not clipped": Bug(
        CLIPPED,
        actor_critic,
        "ratio_bounds",
        instead(lambda _: (np.float32(0), np.float32(1e9))),
        "loss",
    ),
    "later errors are not decayed": Bug(LONG, rollout, "advantages_of", not_cut, "loss"),
    "advantages look one transition ahead": Bug(
        LONG,
        rollout,
        "successors_of",
        instead(lambda opens, *_: np.full(len(opens), -1)),
        "loss",
    ),
    "advantages are standardised by another agent's": Bug(
        compare_ppo, Rollout, "estimate_advantages", one_for_all, "loss"
    ),
    "unused slots are learned from": Bug(PARTS, Rollout, "minibatch", all_are_used, "loss"),
    "illegal actions have a probability": Bug(
        compare_ppo,
        actor_critic,
        "mask_array",
        instead(lambda _: np.zeros((0, 0, 0), bool)),
        "loss",
    ),
    "V-trace: rho is not clipped": Bug(
        NARROW, vtrace, "vtrace", bounds(rho_bar=1e9), "loss"
    ),
    "V-trace: c is not clipped": Bug(NARROW, vtrace, "vtrace", bounds(c_bar=1e9), "loss"),
    "V-trace: the gradient is not weighted": Bug(
        NARROW,
        actor_critic,
        "actor_critic_losses",
        with_named_arguments(ratios=np.ones_like, high=lambda _: np.float32(1)),
        "loss",
    ),
    "V-trace: advantages are computed once": Bug(
        TWICE, VtraceLearner, "advantages_each_pass", instead(False), "loss"
    ),
    "sequences: the stored hidden state is not used": Bug(
        SEQUENCES, Chain, "cut", with_result(hidden=np.zeros_like), "loss"
    ),
    "sequences: the hidden state crosses episodes": Bug(
        SEQUENCES, Gru, "unroll", never_started, "loss"
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_detected(bug, monkeypatch):
    assert_detected(bug, monkeypatch)

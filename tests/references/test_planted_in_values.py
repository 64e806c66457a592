"""Bugs planted into DQN, IQN and recurrent DQN: the comparisons detect them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from rookery.algorithms import q_learning, recurrent_dqn
from rookery.algorithms.common import losses
from rookery.algorithms.common.group import Group
from rookery.algorithms.dqn import DqnLearner
from rookery.algorithms.iqn import IqnLearner
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.q_learning import QLearner
from rookery.replay.sequences import Timeline
from tests.references.planting import (
    Bug,
    assert_detected,
    instead,
    with_arguments,
    with_result,
)
from tests.references.recurrent import compare_recurrent_dqn
from tests.references.value_learners import compare_dqn, compare_iqn

PRIORITISED = {"kind": "prioritised", "exponent": 1.0, "correction": 1.0}
DOUBLE = partial(compare_dqn, dqn={"double": True})
DUELING = partial(compare_dqn, dqn={"dueling": True})
NOISY = partial(compare_dqn, dqn={"noisy": True})
GAP = partial(compare_dqn, dqn={"gap": 0.6})
RETRACE = partial(compare_dqn, dqn={"retrace": 0.9}, n_step=3)
WEIGHED = partial(compare_dqn, replay=PRIORITISED)
TWICE = partial(compare_dqn, gradient={"accumulate": 2})
QUANTILES = partial(compare_iqn, network={"quantiles": 4})
DOUBLE_QUANTILES = partial(compare_iqn, iqn={"double": True})
MIXED_QUANTILES = partial(compare_iqn, iqn={"retrace": 0.9}, n_step=3)
WEIGHED_QUANTILES = partial(compare_iqn, replay=PRIORITISED)
SEQUENCES = partial(
    compare_recurrent_dqn,
    replay={"kind": "uniform"},
    n_step=1,
    recurrent={"burn_in": 3, "sequence": 6},
)
WEIGHED_SEQUENCES = partial(
    compare_recurrent_dqn,
    replay=PRIORITISED,
    n_step=1,
    recurrent={"burn_in": 0, "sequence": 4},
)


def target_is_the_network(right):
    def wrong(self, draws):
        online, _ = right(self, draws)
        return online, {name: each.detach() for name, each in online.items()}

    return wrong


def target_chooses(self, online, target_values, obs, legal):
    return losses.masked(target_values, legal).argmax(dim=2)


def without_importance(right):
    def wrong(self, batch):
        return right(self, replace(batch, importance=torch.ones_like(batch.importance)))

    return wrong


def with_one_noise(right):
    def wrong(self, passes, keys):
        right(self, passes, keys)
        self._noise = {k: [noise, noise] for k, (noise, _) in self._noise.items()}

    return wrong


def added_up(right):
    def wrong(self, gradients, loss, active):
        batches = self.agents[0].settings.gradient.accumulate
        return right(self, [each * batches for each in gradients], loss, active)

    return wrong


def never_started(right):
    def wrong(self, weights, inputs, hidden, keep):
        return right(self, weights, inputs, hidden, torch.ones_like(keep))

    return wrong


BUGS = {
    "double: the target chooses as well": Bug(
        DOUBLE, DqnLearner, "best_actions", instead(target_chooses), "loss"
    ),
    "targets are the network's own": Bug(
        compare_dqn, QLearner, "noisy_weights", target_is_the_network, "loss"
    ),
    "illegal actions are valued": Bug(
        compare_dqn, losses, "masked", instead(lambda values, _: values), "loss"
    ),
    "dueling: advantages keep their mean": Bug(
        DUELING,
        losses,
        "dueling",
        instead(lambda each, n: each[..., n : n + 1] + each[..., :n]),
        "loss",
    ),
    "the target has the network's noise": Bug(
        NOISY, QLearner, "draw_ahead", with_one_noise, "loss"
    ),
    "the gap has the wrong sign": Bug(
        GAP, losses, "action_gaps", lambda right: lambda *each: -right(*each), "loss"
    ),
    "Retrace never cuts": Bug(
        RETRACE, q_learning, "retrace_shares", with_arguments(torch.ones_like), "loss"
    ),
    "the threshold is always 1": Bug(
        compare_dqn, losses, "huber", with_arguments(None, None, lambda _: 1.0), "loss"
    ),
    "importance weights are left out": Bug(
        WEIGHED, DqnLearner, "compute_losses", without_importance, "loss"
    ),
    "batches are added up, not averaged": Bug(TWICE, Group, "apply", added_up, "means"),
    "IQN: taus are upside down": Bug(
        QUANTILES,
        losses,
        "quantile_huber",
        with_arguments(None, None, lambda taus: 1.0 - taus),
        "loss",
    ),
    "IQN: the mean over both kinds of quantiles": Bug(
        QUANTILES,
        losses,
        "quantile_huber",
        lambda right: lambda each, *rest: right(each, *rest) / each.shape[2],
        "loss",
    ),
    "IQN: the target chooses as well": Bug(
        DOUBLE_QUANTILES,
        IqnLearner,
        "means",
        lambda right: lambda self, _, obs: right(self, self.group.target, obs),
        "loss",
    ),
    "IQN: Retrace never cuts": Bug(
        MIXED_QUANTILES,
        q_learning,
        "retrace_shares",
        with_arguments(torch.ones_like),
        "loss",
    ),
    "IQN: importance weights are left out": Bug(
        WEIGHED_QUANTILES, IqnLearner, "compute_losses", without_importance, "loss"
    ),
    "IQN: priorities are squared errors": Bug(
        WEIGHED_QUANTILES,
        losses,
        "mean_errors",
        lambda right: lambda *each: right(*each).square(),
        "priorities",
    ),
    "sequences: burn-in is trained": Bug(
        SEQUENCES, Timeline, "read", with_arguments(None, None, None, lambda _: 0), "loss"
    ),
    "sequences: the hidden state crosses episodes": Bug(
        SEQUENCES, Gru, "unroll", never_started, "loss"
    ),
    "sequences: the stored hidden state is not used": Bug(
        SEQUENCES, Timeline, "read", with_result(hidden=np.zeros_like), "loss"
    ),
    "sequences: only the largest error counts": Bug(
        WEIGHED_SEQUENCES, recurrent_dqn, "MAX_ERROR_SHARE", instead(1.0), "priorities"
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_detected(bug, monkeypatch):
    assert_detected(bug, monkeypatch)

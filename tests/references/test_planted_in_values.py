"""Bugs planted into DQN, IQN and recurrent DQN: the comparisons see them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from rookery.algorithms import recurrent_dqn
from rookery.algorithms.common import losses
from rookery.algorithms.common.group import Group
from rookery.algorithms.dqn import DqnLearner
from rookery.algorithms.iqn import IqnLearner
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.q_learning import QLearner
from rookery.replay.sequences import Timeline
from tests.references.planting import Bug, found, given, instead, see
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
    def wrong(self, place):
        weights, _ = right(self, place)
        return weights, {name: each.detach() for name, each in weights.items()}

    return wrong


def target_chooses(self, weights, every, inputs, legal):
    return losses.masked(every, legal).argmax(dim=2)


def without_importance(right):
    def wrong(self, batches, columns, importance, draws, place):
        return right(self, batches, columns, torch.ones_like(importance), draws, place)

    return wrong


def with_one_noise(right):
    def wrong(self, passes, places):
        right(self, passes, places)
        self._noises = {one: [noise, noise] for one, (noise, _) in self._noises.items()}

    return wrong


def added_up(right):
    def wrong(self, gradients, loss, active):
        batches = self.agents[0].settings.gradient.accumulate
        return right(self, [each * batches for each in gradients], loss, active)

    return wrong


def never_started(right):
    def wrong(self, weights, seen, hidden, keep):
        return right(self, weights, seen, hidden, torch.ones_like(keep))

    return wrong


BUGS = {
    "double: the target chooses as well": Bug(
        DOUBLE, DqnLearner, "_best", instead(target_chooses), "loss"
    ),
    "targets are the network's own": Bug(
        compare_dqn, QLearner, "shaken", target_is_the_network, "loss"
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
        GAP, losses, "shortfalls", lambda right: lambda *each: -right(*each), "loss"
    ),
    "Retrace never cuts": Bug(
        RETRACE, losses, "retrace_shares", given(torch.ones_like), "loss"
    ),
    "the threshold is always 1": Bug(
        compare_dqn, losses, "huber", given(None, None, lambda _: 1.0), "loss"
    ),
    "importance weights are left out": Bug(
        WEIGHED, DqnLearner, "losses", without_importance, "loss"
    ),
    "batches are added up, not averaged": Bug(TWICE, Group, "apply", added_up, "means"),
    "IQN: fractions are upside down": Bug(
        QUANTILES,
        losses,
        "quantile_huber",
        given(None, None, lambda fractions: 1.0 - fractions),
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
        "_means",
        lambda right: lambda self, _, inputs: right(self, self.group.target, inputs),
        "loss",
    ),
    "IQN: Retrace never cuts": Bug(
        MIXED_QUANTILES, losses, "retrace_shares", given(torch.ones_like), "loss"
    ),
    "IQN: importance weights are left out": Bug(
        WEIGHED_QUANTILES, IqnLearner, "losses", without_importance, "loss"
    ),
    "IQN: priorities are squared errors": Bug(
        WEIGHED_QUANTILES,
        losses,
        "mean_errors",
        lambda right: lambda *each: right(*each).square(),
        "priorities",
    ),
    "sequences: burn-in is trained": Bug(
        SEQUENCES, Timeline, "read", given(None, None, None, lambda _: 0), "loss"
    ),
    "sequences: something is carried into another episode": Bug(
        SEQUENCES, Gru, "unroll", never_started, "loss"
    ),
    "sequences: the stored hidden state is not used": Bug(
        SEQUENCES, Timeline, "read", found(hidden=np.zeros_like), "loss"
    ),
    "sequences: the largest error is all that counts": Bug(
        WEIGHED_SEQUENCES, recurrent_dqn, "LARGEST", instead(1.0), "priorities"
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_seen(bug, monkeypatch):
    see(bug, monkeypatch)

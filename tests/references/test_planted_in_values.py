"""Bugs planted into DQN, IQN and recurrent DQN: the comparisons detect them."""

from __future__ import annotations

from copy import copy
from functools import partial
from inspect import signature

import numpy as np
import pytest
import torch

from rookery.algorithms import recurrent_dqn
from rookery.algorithms.common import losses
from rookery.algorithms.common.group import Group
from rookery.algorithms.kernels import dqn as kernel
from rookery.algorithms.kernels import iqn as iqn_kernel
from rookery.algorithms.kernels.values import NO_MASK
from rookery.algorithms.nets.gru import Gru
from rookery.algorithms.q_learning import QLearner
from rookery.replay.sequences import Timeline
from tests.references.planting import (
    Bug,
    assert_detected,
    instead,
    with_arguments,
    with_named_arguments,
    with_result,
)
from tests.references.recurrent import compare_recurrent_dqn
from tests.references.value_learners import compare_dqn, compare_iqn

PRIORITISED = {"kind": "prioritised", "exponent": 1.0, "correction": 1.0}
DOUBLE = partial(compare_dqn, dqn={"double": True})
DUELING = partial(compare_dqn, dqn={"dueling": True})
NOISY = partial(compare_dqn, dqn={"noisy": True})
GAP = partial(compare_dqn, dqn={"gap": 0.6})
HYSTERETIC = partial(compare_dqn, dqn={"hysteresis": 0.2})
HYSTERETIC_SEQUENCES = partial(compare_recurrent_dqn, dqn={"hysteresis": 0.2})
RETRACE = partial(compare_dqn, dqn={"retrace": 0.9}, n_step=3)
WEIGHED = partial(compare_dqn, replay=PRIORITISED)
TWICE = partial(compare_dqn, gradient={"accumulate": 2})
QUANTILES = partial(compare_iqn, network={"quantiles": 4})
DOUBLE_QUANTILES = partial(compare_iqn, iqn={"double": True})
MIXED_QUANTILES = partial(compare_iqn, iqn={"retrace": 0.9, "double": False}, n_step=3)
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
    def wrong(self, network, group, *rest):
        group = copy(group)
        group.arrays = {**group.arrays, "target": group.arrays["weights"]}
        right(self, network, group, *rest)

    return wrong


def averaged_over_both(right):
    """Divide losses and their gradients by the number of estimated quantiles, too."""

    def wrong(*args):
        right(*args)
        named = signature(right.py_func).bind(*args).arguments
        for name in ("losses", "d_outputs"):
            named[name] /= named["quantiles"]

    return wrong


def never_cut(right):
    """Take the best actions, by the target network's means, for those that were taken."""

    def wrong(*args):
        named = signature(right.py_func).bind(*args).arguments
        each = named["target_outputs"][..., : named["num_actions"]]
        means = each.reshape(len(each), -1, named["quantiles"], each.shape[2]).mean(axis=2)
        legal = named["next_legal"]
        if legal.size:
            means[legal.any(axis=2, keepdims=True) & ~legal] = -np.inf
        named["taken"] = means.argmax(axis=2).reshape(named["taken"].shape)
        right(*named.values())

    return wrong


def with_squared_errors(right):
    def wrong(*args):
        right(*args)
        errors = signature(right.py_func).bind(*args).arguments["errors"]
        errors *= errors

    return wrong


def with_one_noise(right):
    def wrong(self, passes, keys):
        right(self, passes, keys)
        self._noise = {k: [noise, noise] for k, (noise, _) in self._noise.items()}

    return wrong


def added_up(right):
    def wrong(self, losses, active):
        for gradient in self.gradients.values():
            gradient *= self.agents[0].settings.gradient.accumulate
        return right(self, losses, active)

    return wrong


def upside_down(right):
    def wrong(loss, values, targets, factor):
        return right(loss, targets, values, factor)

    return wrong


def never_started(right):
    def wrong(self, weights, inputs, hidden, keep):
        return right(self, weights, inputs, hidden, torch.ones_like(keep))

    return wrong


BUGS = {
    "double: the target chooses as well": Bug(
        DOUBLE,
        kernel,
        "compute_gradients",
        with_named_arguments(double=lambda _: False),
        "loss",
    ),
    "targets are the network's own": Bug(
        compare_dqn, kernel.DqnPass, "__init__", target_is_the_network, "loss"
    ),
    "illegal actions are valued": Bug(
        compare_dqn, kernel, "mask_array", instead(lambda _: NO_MASK), "loss"
    ),
    "dueling: the state value is left out": Bug(
        DUELING,
        kernel,
        "compute_gradients",
        with_named_arguments(dueling=lambda _: False),
        "loss",
    ),
    "the target has the network's noise": Bug(
        NOISY, QLearner, "draw_ahead", with_one_noise, "loss"
    ),
    "the gap counts twice": Bug(
        GAP,
        kernel,
        "compute_gradients",
        with_named_arguments(gap=lambda gap: 2 * gap),
        "loss",
    ),
    "hysteresis is left out": Bug(
        HYSTERETIC,
        kernel,
        "compute_gradients",
        with_named_arguments(hysteresis=lambda _: np.float32(1)),
        "loss",
    ),
    "Retrace always cuts": Bug(
        RETRACE,
        kernel,
        "compute_gradients",
        with_named_arguments(continues=np.zeros_like),
        "loss",
    ),
    "the threshold is always 1": Bug(
        compare_dqn,
        kernel,
        "compute_gradients",
        with_named_arguments(threshold=lambda _: np.float32(1)),
        "loss",
    ),
    "importance weights are left out": Bug(
        WEIGHED,
        kernel,
        "compute_gradients",
        with_named_arguments(importance=np.ones_like),
        "loss",
    ),
    "batches are added up, not averaged": Bug(TWICE, Group, "apply", added_up, "means"),
    "IQN: taus are upside down": Bug(
        QUANTILES,
        iqn_kernel,
        "quantile_regression",
        with_named_arguments(taus=lambda taus: 1 - taus),
        "loss",
    ),
    "IQN: the mean over both kinds of quantiles": Bug(
        QUANTILES, iqn_kernel, "quantile_regression", averaged_over_both, "loss"
    ),
    "IQN: the target chooses as well": Bug(
        DOUBLE_QUANTILES,
        iqn_kernel,
        "quantile_regression",
        with_named_arguments(mean_outputs=lambda means: means[:, :0]),
        "loss",
    ),
    "IQN: Retrace never cuts": Bug(
        MIXED_QUANTILES, iqn_kernel, "quantile_regression", never_cut, "loss"
    ),
    "IQN: importance weights are left out": Bug(
        WEIGHED_QUANTILES,
        iqn_kernel,
        "quantile_regression",
        with_named_arguments(importance=np.ones_like),
        "loss",
    ),
    "IQN: priorities are squared errors": Bug(
        WEIGHED_QUANTILES,
        iqn_kernel,
        "quantile_regression",
        with_squared_errors,
        "priorities",
    ),
    "sequences: burn-in is trained": Bug(
        SEQUENCES, Timeline, "read", with_arguments(None, None, None, lambda _: 0), "loss"
    ),
    "sequences: hysteresis is for values that were too low": Bug(
        HYSTERETIC_SEQUENCES, losses, "hysteretic", upside_down, "loss"
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

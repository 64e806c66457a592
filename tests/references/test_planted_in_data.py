"""Bugs planted into returns, the replay and the optimizer: the comparisons detect them."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.algorithms.common import group, optimizer
from rookery.replay import buffer as replay
from rookery.replay.priorities import Priorities
from rookery.replay.rewards import RewardSpread
from tests.references.planting import (
    Bug,
    assert_detected,
    instead,
    with_arguments,
    with_result,
)
from tests.references.test_optimizer import compare_updates
from tests.references.test_replay import compare_priorities
from tests.references.test_returns import compare_returns


def truncation_ends_it_all(right):
    def wrong(stretch, *rest):
        ended = stretch.terminated | stretch.truncated
        return right(replay.Segment(stretch.active, stretch.rewards, ended, ended), *rest)

    return wrong


def one_turn_too_many(right):
    def wrong(stretch, n_step, discount, per_step):
        return with_result(discounts=lambda each: each * np.float32(discount))(right)(
            stretch, n_step, discount, per_step
        )

    return wrong


def forget_earlier_rounds(right):
    def wrong(self, reader, first):
        self.state = np.zeros(3)
        right(self, reader, first)

    return wrong


def only_what_is_new(right):
    return lambda self, new: self._set(self._leaf(new), np.full(len(new), self.largest))


def weigh_one(right):
    def wrong(self, new):
        right(self, new)
        self._set(self._leaf(new), np.ones(len(new)))

    return wrong


def divided_by_the_smallest(right):
    def wrong(self, numbers):
        steps, weights = right(self, numbers)
        return steps, weights / weights.min()

    return wrong


def as_if_long_ago(right):
    def wrong(*arrays, counts, **rest):
        right(*arrays, counts=np.full_like(counts, 10**6), **rest)

    return wrong


def decayed_squares(right):
    def wrong(weights, means, squares, *rest, active, **named):
        squares[active] *= 0.99
        right(weights, means, squares, *rest, active=active, **named)

    return wrong


def after_every_update(right):
    def wrong(self, losses, active):
        self._target_every = np.ones_like(self._target_every)
        return right(self, losses, active)

    return wrong


BUGS = {
    "the next value is discounted once more": Bug(
        compare_returns, replay, "n_step_transitions", one_turn_too_many, "discounts"
    ),
    "a truncated episode has no value after it": Bug(
        compare_returns, replay, "n_step_transitions", truncation_ends_it_all, "discounts"
    ),
    "turns in which the agent is out are not discounted": Bug(
        compare_returns,
        replay,
        "n_step_transitions",
        with_arguments(None, None, None, lambda _: True),
        "returns|discounts",
    ),
    "a transition closes one active row too late": Bug(
        compare_returns,
        replay,
        "n_step_transitions",
        with_arguments(None, lambda n: n + 1),
        "usable|closing",
    ),
    "the spread is that of the newest rewards": Bug(
        compare_returns, RewardSpread, "update", forget_earlier_rounds, "factor"
    ),
    "transitions that left keep their priority": Bug(
        compare_priorities, Priorities, "advance", only_what_is_new, "priorities"
    ),
    "new transitions do not get the largest priority": Bug(
        compare_priorities, Priorities, "advance", weigh_one, "priorities"
    ),
    "importance weights are divided by the smallest": Bug(
        compare_priorities, Priorities, "sample", divided_by_the_smallest, "importance"
    ),
    "priorities are squared errors": Bug(
        compare_priorities,
        Priorities,
        "update",
        with_arguments(None, None, np.square),
        "priorities",
    ),
    "the bias of the moments is not corrected": Bug(
        compare_updates, group, "adam_step", as_if_long_ago, "weights"
    ),
    "gradients are not clipped": Bug(
        compare_updates, group, "clip_factors", instead(lambda n, _: n * 0 + 1), "weights"
    ),
    "second moments decay faster": Bug(
        compare_updates, group, "adam_step", decayed_squares, "weights"
    ),
    "the bias of the second moments is corrected for another decay": Bug(
        compare_updates, optimizer, "BETA2", instead(0.99), "weights"
    ),
    "the learning rate is constant": Bug(
        compare_updates, group, "learning_rate", instead(lambda base, *_: base), "weights"
    ),
    "targets move after every update": Bug(
        compare_updates, group.Group, "apply", after_every_update, "target"
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_detected(bug, monkeypatch):
    assert_detected(bug, monkeypatch)

"""V-trace: targets by hand, and rounds against a plain implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rookery.algorithms.common.rollout import successors_of
from rookery.algorithms.vtrace import VTRACE, vtrace
from rookery.config.agent import VtraceConfig
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import (
    SEED,
    TURNS,
    WORLDS,
    GroupTrainer,
    agent_of,
    same_bits,
    spec_of,
)
from tests.algorithms.test_ppo import plain_transitions

pytestmark = pytest.mark.shows("D7")

# Targets.


def in_a_row(rewards, values, next_values, ratios, discounts=None, **bounds):
    """Return targets and advantages of successive transitions of one world."""
    count = len(rewards)
    turns = np.arange(count)
    successors = successors_of(turns, turns + 1, np.zeros(count, np.int64))
    numbers = (rewards, discounts or [0.5] * count, values, next_values, ratios)
    arrays = [np.array(each, np.float32) for each in numbers]
    targets, advantages = vtrace(successors, *arrays, VtraceConfig(**bounds))
    return targets.tolist(), advantages.tolist()


def test_targets_and_advantages_by_hand():
    # Errors: 1 + 0.5·4 − 2 = 1, then 2 + 0.5·6 − 4 = 1. Ratios 4 and 0.5 are clipped to
    # rho 2 and 0.5, and c 1 and 0.5.
    targets, advantages = in_a_row([1, 2], [2, 4], [4, 6], [4, 0.5], rho_bar=2.0, c_bar=1.0)

    assert targets == [2 + 2 * 1 + 0.5 * 1 * (0.5 * 1), 4 + 0.5 * 1]
    assert advantages == [1 + 0.5 * (4 + 0.5) - 2, 2 + 0.5 * 6 - 4]


def test_on_policy_the_target_is_the_whole_discounted_return():
    targets, _ = in_a_row([1, 2, 4], [9, 8, 7], [8, 7, 10], [1, 1, 1])

    assert targets[0] == 1 + 0.5 * 2 + 0.25 * 4 + 0.125 * 10


def test_an_action_with_ratio_0_cuts_off_everything_after_it():
    changed, same = (
        in_a_row([1, 2, reward], [9, 8, 7], [8, 7, 3], [1, 0, 1]) for reward in (4, 400)
    )

    assert changed[0][:2] == same[0][:2]
    assert changed[0][1] == 8.0  # its own error has no weight either


def test_nothing_is_bootstrapped_after_the_end_of_an_episode():
    targets, advantages = in_a_row([1, 2], [0, 0], [50, 0], [1, 1], discounts=[0.0, 0.5])

    assert (targets, advantages) == ([1.0, 2.0], [1.0, 2.0])


def test_worlds_are_kept_apart():
    opens, closes = np.array([0, 0, 1]), np.array([1, 1, 2])
    ones = np.ones(3, np.float32)

    targets, _ = vtrace(
        successors_of(opens, closes, np.array([0, 1, 1])),
        np.array([1, 10, 100], np.float32),
        0.5 * ones,
        0 * ones,
        0 * ones,
        ones,
        VtraceConfig(),
    )

    assert targets.tolist() == [1.0, 10 + 0.5 * 100, 100.0]


# A plain implementation: torch's modules and Adam, one transition after the other.


class PlainNetwork(nn.Module):
    def __init__(self, weights, depth):
        super().__init__()
        self.read = nn.ModuleList(linear(weights, f"read.{i}") for i in range(depth))
        self.choose, self.value = linear(weights, "choose"), linear(weights, "value")

    def forward(self, obs, legal=None):
        hidden = obs
        for layer in self.read:
            hidden = torch.tanh(layer(hidden))
        logits = self.choose(hidden)
        if legal is not None:
            logits = torch.where(torch.tensor(legal), logits, -torch.inf)
        return torch.log_softmax(logits, dim=0), self.value(hidden)[0]


def linear(weights, name):
    """Return torch's layer with our weights."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = nn.Linear(*weight.shape)
    layer.weight.data = torch.tensor(np.array(weight.T))
    layer.bias.data = torch.tensor(np.array(bias[0]))
    return layer


class PlainVtrace:
    def __init__(self, agent, weights):
        self.settings = agent.settings
        self.network = PlainNetwork(weights, agent.settings.network.depth)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=agent.settings.learning_rate
        )

    @torch.no_grad()
    def compute_advantages(self, steps):
        """Go through transitions from last to first, as the paper defines it."""
        settings, by_row = self.settings.vtrace, {(s.turn, s.world): s for s in steps}
        for step in reversed(steps):
            log_probs, value = self.network(step.obs, step.legal)
            step.value = value.item()
            next_value = self.network(step.next_obs)[1].item()
            ratio = float(np.exp(log_probs[step.action].item() - step.old_log_prob))
            successor = by_row.get((step.closes, step.world))
            next_target = next_value if successor is None else successor.target
            delta = step.reward + step.discount * next_value - step.value
            step.target = step.value + min(settings.rho_bar, ratio) * delta
            if successor is not None:
                correction = successor.target - successor.value
                step.target += step.discount * min(settings.c_bar, ratio) * correction
                # Both are the value of the same row.
                assert successor.value == pytest.approx(next_value, abs=1e-5)
            step.advantage = step.reward + step.discount * next_target - step.value

    def update(self, steps):
        settings, total = self.settings.vtrace, torch.tensor(0.0)
        for step in steps:
            log_probs, value = self.network(step.obs, step.legal)
            ratio = float(np.exp(log_probs[step.action].item() - step.old_log_prob))
            rho = min(settings.rho_bar, ratio)
            finite = log_probs[torch.isfinite(log_probs)]
            total = total - rho * step.advantage * log_probs[step.action]
            total = total + settings.entropy * (finite.exp() * finite).sum()
            total = total + settings.value * (step.target - value) ** 2
        loss = total / len(steps)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient.clip)
        self.optimizer.step()
        return loss.item()

    def learn(self, steps, number, agent, slots):
        """Learn a round; return the mean loss of its updates."""
        settings, updates = self.settings.vtrace, []
        size = -(-slots // settings.minibatches)
        for k in range(settings.passes):
            self.compute_advantages(steps)
            drawn = Stream(SEED, Purpose.LEARNER).bits((agent, number, k), 0, slots)[0]
            shuffled = sorted(range(slots), key=lambda slot: drawn[slot])
            for start in range(0, size * settings.minibatches, size):
                used = [i for i in shuffled[start : start + size] if i < len(steps)]
                updates.append(self.update([steps[i] for i in used]))
        return np.mean(updates)


ONCE = {"passes": 1, "minibatches": 1}
CASES = {
    "one pass": {"vtrace": ONCE},
    "several": {"vtrace": {"passes": 2, "minibatches": 3}},
    "loose bounds": {"vtrace": {**ONCE, "rho_bar": 3.0, "c_bar": 2.0}},
    "tight bounds": {"vtrace": {**ONCE, "rho_bar": 0.5, "c_bar": 0.1}},
    "c_bar 0": {"vtrace": {**ONCE, "c_bar": 0.0}},
    "much entropy": {"vtrace": {**ONCE, "entropy": 0.5, "value": 2.0}},
    "deep and odd": {"vtrace": ONCE, "network": {"width": 13, "depth": 3}},
    "masked": {"vtrace": ONCE},
}


@pytest.mark.parametrize(("name", "settings"), CASES.items(), ids=CASES)
def test_rounds_are_those_of_a_plain_implementation(name, settings):
    agent = agent_of(3, spec_of(3, masked=name == "masked"), learning_rate=1e-3, **settings)
    trainer = GroupTrainer(VTRACE, [agent])
    parameters, experience = trainer.learner.network.parameters, trainer.experiences[0]
    plain = PlainVtrace(agent, parameters.unpadded(trainer.states[0]["weights"]))
    for number in (1, 2):
        (metrics,) = trainer.train()
        steps = plain_transitions(experience, experience.first)
        loss = plain.learn(steps, number, agent=3, slots=TURNS * WORLDS)

        assert metrics["loss"] == pytest.approx(loss, rel=1e-3, abs=1e-5)
    weights = parameters.unpadded(trainer.states[0]["weights"])
    for name, layer in plain.network.named_modules():
        if isinstance(layer, nn.Linear):
            arrays = weights[f"{name}.weight"].T, weights[f"{name}.bias"][0]
            for array, expected in zip(arrays, (layer.weight, layer.bias), strict=True):
                assert np.allclose(array, expected.detach(), rtol=0, atol=2e-5), name


def test_bounds_change_what_is_learned():
    def learned(**settings):
        trainer = GroupTrainer(VTRACE, [agent_of(vtrace=settings)])
        trainer.train(rounds=2)
        return trainer.states[0]["weights"].tobytes()

    cases = [{}, {"rho_bar": 0.5}, {"c_bar": 0.5}, {"passes": 1}]
    assert len({learned(**case) for case in cases}) == 4


def test_a_round_without_transitions_changes_nothing():
    trainer = GroupTrainer(VTRACE, [agent_of()])
    before = trainer.states[0]

    (metrics,) = trainer.learn(first=0)

    assert metrics["updates"] == 0
    assert same_bits(trainer.states[0], before)

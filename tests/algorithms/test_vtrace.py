"""V-trace: targets by hand, rounds against a plain implementation, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rookery.algorithms.vtrace import VTRACE, corrected
from rookery.config.agent import VtraceConfig
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import (
    SEED,
    TURNS,
    WORLDS,
    Crew,
    agent_of,
    same_bits,
    spec_of,
)
from tests.algorithms.test_ppo import plain_steps

pytestmark = pytest.mark.shows("D7")

# Targets.


def in_a_row(returns, values, after, ratios, discounts=None, **limits):
    """Return targets and advantages of steps of one world, one after the other."""
    count = len(returns)
    turns = np.arange(count)
    path = (turns, turns + 1, np.zeros(count, np.int64))
    numbers = (returns, discounts or [0.5] * count, values, after, ratios)
    given = [np.array(one, np.float32) for one in numbers]
    targets, advantages = corrected(path, *given, VtraceConfig(**limits))
    return targets.tolist(), advantages.tolist()


def test_targets_and_advantages_by_hand():
    # Errors: 1 + 0.5·4 − 2 = 1, then 2 + 0.5·6 − 4 = 1. Ratios 4 and 0.5 count 2 and 0.5
    # for a step itself, and 1 and 0.5 for what comes after it.
    targets, advantages = in_a_row([1, 2], [2, 4], [4, 6], [4, 0.5], rho_bar=2.0, c_bar=1.0)

    assert targets == [2 + 2 * 1 + 0.5 * 1 * (0.5 * 1), 4 + 0.5 * 1]
    assert advantages == [1 + 0.5 * (4 + 0.5) - 2, 2 + 0.5 * 6 - 4]


def test_on_policy_the_target_is_the_whole_discounted_return():
    targets, _ = in_a_row([1, 2, 4], [9, 8, 7], [8, 7, 10], [1, 1, 1])

    assert targets[0] == 1 + 0.5 * 2 + 0.25 * 4 + 0.125 * 10


def test_what_would_never_be_done_now_changes_no_value_before_it():
    changed, same = (
        in_a_row([1, 2, reward], [9, 8, 7], [8, 7, 3], [1, 0, 1]) for reward in (4, 400)
    )

    assert changed[0][:2] == same[0][:2]
    assert changed[0][1] == 8.0  # its own error weighs nothing either


def test_nothing_is_taken_from_behind_the_end_of_an_episode():
    targets, advantages = in_a_row([1, 2], [0, 0], [50, 0], [1, 1], discounts=[0.0, 0.5])

    assert (targets, advantages) == ([1.0, 2.0], [1.0, 2.0])


def test_worlds_are_kept_apart():
    opens, closes = np.array([0, 0, 1]), np.array([1, 1, 2])
    ones = np.ones(3, np.float32)

    targets, _ = corrected(
        (opens, closes, np.array([0, 1, 1])),
        np.array([1, 10, 100], np.float32),
        0.5 * ones,
        0 * ones,
        0 * ones,
        ones,
        VtraceConfig(),
    )

    assert targets.tolist() == [1.0, 10 + 0.5 * 100, 100.0]


# A plain implementation: torch's modules and Adam, one step after the other.


class PlainNetwork(nn.Module):
    def __init__(self, weights, depth):
        super().__init__()
        self.read = nn.ModuleList(linear(weights, f"read.{i}") for i in range(depth))
        self.choose, self.value = linear(weights, "choose"), linear(weights, "value")

    def forward(self, seen, legal=None):
        hidden = seen
        for layer in self.read:
            hidden = torch.tanh(layer(hidden))
        logits = self.choose(hidden)
        if legal is not None:
            logits = torch.where(torch.tensor(legal), logits, -torch.inf)
        return torch.log_softmax(logits, dim=0), self.value(hidden)[0]


def linear(weights, name):
    """Return torch's layer with the weights of ours."""
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
    def judge(self, steps):
        """Go through steps from the last to the first, as the paper defines it."""
        about, by_place = self.settings.vtrace, {(s.turn, s.world): s for s in steps}
        for step in reversed(steps):
            logs, value = self.network(step.now, step.legal)
            step.value = value.item()
            after = self.network(step.next)[1].item()
            ratio = float(np.exp(logs[step.action].item() - step.old_log))
            follower = by_place.get((step.closes, step.world))
            target_after = after if follower is None else follower.target
            error = step.gained + step.discount * after - step.value
            step.target = step.value + min(about.rho_bar, ratio) * error
            if follower is not None:
                above = follower.target - follower.value
                step.target += step.discount * min(about.c_bar, ratio) * above
                # Here the network says the same of both: the same row.
                assert follower.value == pytest.approx(after, abs=1e-5)
            step.advantage = step.gained + step.discount * target_after - step.value

    def update(self, steps):
        about, total = self.settings.vtrace, torch.tensor(0.0)
        for step in steps:
            logs, value = self.network(step.now, step.legal)
            ratio = float(np.exp(logs[step.action].item() - step.old_log))
            weight = min(about.rho_bar, ratio)
            sure = logs[torch.isfinite(logs)]
            total = total - weight * step.advantage * logs[step.action]
            total = total + about.entropy * (sure.exp() * sure).sum()
            total = total + about.value * (step.target - value) ** 2
        loss = total / len(steps)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient.clip)
        self.optimizer.step()
        return loss.item()

    def learn(self, steps, number, agent, places):
        """Learn a round; return the mean loss of its updates."""
        about, found = self.settings.vtrace, []
        size = -(-places // about.minibatches)
        for one in range(about.passes):
            self.judge(steps)
            drawn = Stream(SEED, Purpose.LEARNER).bits((agent, number, one), 0, places)[0]
            shuffled = sorted(range(places), key=lambda place: drawn[place])
            for start in range(0, size * about.minibatches, size):
                chosen = shuffled[start : start + size]
                found.append(self.update([steps[i] for i in chosen if i < len(steps)]))
        return np.mean(found)


ONCE = {"passes": 1, "minibatches": 1}
CASES = {
    "one pass": {"vtrace": ONCE},
    "several": {"vtrace": {"passes": 2, "minibatches": 3}},
    "wide limits": {"vtrace": {**ONCE, "rho_bar": 3.0, "c_bar": 2.0}},
    "narrow limits": {"vtrace": {**ONCE, "rho_bar": 0.5, "c_bar": 0.1}},
    "no tail": {"vtrace": {**ONCE, "c_bar": 0.0}},
    "much entropy": {"vtrace": {**ONCE, "entropy": 0.5, "value": 2.0}},
    "deep and odd": {"vtrace": ONCE, "network": {"width": 13, "depth": 3}},
    "masked": {"vtrace": ONCE},
}


@pytest.mark.parametrize(("name", "chosen"), CASES.items(), ids=CASES)
def test_rounds_are_those_of_a_plain_implementation(name, chosen):
    agent = agent_of(3, spec_of(3, masked=name == "masked"), learning_rate=1e-3, **chosen)
    crew = Crew(VTRACE, [agent])
    parameters, life = crew.learner.network.parameters, crew.lives[0]
    plain = PlainVtrace(agent, parameters.real(crew.states[0]["weights"]))
    for number in (1, 2):
        (metrics,) = crew.train()
        steps = plain_steps(life, life.first)
        loss = plain.learn(steps, number, agent=3, places=TURNS * WORLDS)

        assert metrics["loss"] == pytest.approx(loss, rel=1e-3, abs=1e-5)
    real = parameters.real(crew.states[0]["weights"])
    for name, layer in plain.network.named_modules():
        if isinstance(layer, nn.Linear):
            found = real[f"{name}.weight"].T, real[f"{name}.bias"][0]
            for mine, other in zip(found, (layer.weight, layer.bias), strict=True):
                assert np.allclose(mine, other.detach(), rtol=0, atol=2e-5), name


def test_limits_change_what_is_learned():
    def learned(**chosen):
        crew = Crew(VTRACE, [agent_of(vtrace=chosen)])
        crew.train(rounds=2)
        return crew.states[0]["weights"].tobytes()

    cases = [{}, {"rho_bar": 0.5}, {"c_bar": 0.5}, {"passes": 1}]
    assert len({learned(**case) for case in cases}) == 4


def test_a_round_without_steps_changes_nothing():
    crew = Crew(VTRACE, [agent_of()])
    before = crew.states[0]

    (metrics,) = crew.learn(first=0)

    assert metrics["updates"] == 0
    assert same_bits(crew.states[0], before)

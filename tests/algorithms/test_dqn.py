"""DQN: its updates against a plain implementation, and how it acts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rookery.actor.policies import exploration_of
from rookery.algorithms.dqn import DQN, DqnPolicy
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import SEED, GroupTrainer, agent_of, spec_of
from tests.algorithms.test_iqn import flat_inputs, make_input, plain_noise, with_noise


class PlainDqn:
    """DQN as in the papers: one agent, no padding, one transition after the other."""

    def __init__(self, agent, weights):
        self.settings = agent.settings
        self.weights = {
            name: torch.tensor(np.array(array)).requires_grad_()
            for name, array in weights.items()
        }
        self.target = {name: torch.tensor(np.array(a)) for name, a in weights.items()}
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=self.settings.learning_rate
        )
        self.updates = 0

    def values(self, weights, inputs):
        """Return the values of all actions for one observation."""
        hidden = inputs
        layers = [f"read.{i}" for i in range(self.settings.network.depth)]
        for name in [*layers, "hidden"]:
            hidden = torch.relu(
                hidden @ weights[f"{name}.weight"] + weights[f"{name}.bias"][0]
            )
        out = hidden @ weights["values.weight"] + weights["values.bias"][0]
        if self.settings.dqn.dueling:
            out = out[-1] + out[:-1] - out[:-1].mean()
        return out

    def loss(self, batch, importance, noise=None, target_noise=None):
        """Return the mean loss of transitions, and their absolute errors."""
        weights = with_noise(self.weights, noise)
        target = with_noise(self.target, target_noise)
        total, errors, threshold = 0.0, [], self.settings.dqn.threshold
        for i, weight in enumerate(importance):
            with torch.no_grad():
                next_values = self.values(target, flat_inputs(batch.next_seen, i))
                choosing = next_values
                if self.settings.dqn.double:
                    choosing = self.values(weights, flat_inputs(batch.next_seen, i))
                legal = batch.next_legal
                allowed = [k for k in range(5) if legal is None or legal[i, k]]
                best = max(allowed, key=lambda k: choosing[k].item())
                y = float(batch.returns[i])
                y = y + float(batch.discounts[i]) * next_values[best]
                values = self.values(target, flat_inputs(batch.seen, i))
                legal = batch.legal
                allowed = [k for k in range(5) if legal is None or legal[i, k]]
                gap = max(values[k] for k in allowed) - values[batch.actions[i]]
                y = y - self.settings.dqn.gap * gap
            value = self.values(weights, flat_inputs(batch.seen, i))[batch.actions[i]]
            size = (y - value).abs()
            huber = 0.5 * size**2 / threshold if size <= threshold else size - threshold / 2
            total = total + weight * huber
            errors.append(size.item())
        return total / len(importance), errors

    def update(self, *batch):
        loss, errors = self.loss(*batch)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.gradient.clip)
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.settings.target.every == 0:
            rate = self.settings.target.rate
            with torch.no_grad():
                for name, weight in self.weights.items():
                    self.target[name] = (1 - rate) * self.target[name] + rate * weight
        return loss.item(), errors


CASES = {
    "as shipped": {},
    "not double": {"dqn": {"double": False}},
    "not dueling": {"dqn": {"dueling": False}},
    "plain": {"dqn": {"double": False, "dueling": False}, "n_step": 1},
    "noisy": {"dqn": {"noisy": True}},
    "another threshold": {"dqn": {"threshold": 0.3}},
    "deep and odd": {"network": {"width": 13, "depth": 3}},
    "hard target": {"target": {"every": 2, "rate": 1.0}},
    "prioritised": {"replay": {"kind": "prioritised"}},
    "advantage learning": {"dqn": {"gap": 0.7}},
    "masked": {},
    "masked, advantage learning": {"dqn": {"gap": 0.7}},
}


@pytest.mark.shows("D3")
@pytest.mark.parametrize(("name", "settings"), CASES.items(), ids=CASES)
def test_updates_are_those_of_a_plain_implementation(name, settings):
    spec = spec_of(3, masked=name.startswith("masked"))
    agent = agent_of(3, spec, learning_rate=1e-3, updates_per_round=1, **settings)
    trainer = GroupTrainer(DQN, [agent])
    parameters, reader = trainer.learner.network.parameters, trainer.experiences[0].reader
    plain = PlainDqn(agent, parameters.unpadded(trainer.states[0]["weights"]))
    size = agent.settings.batch_size
    trainer.experiences[0].play_round()
    leaves = np.ones(len(reader.usable))
    for number in (1, 2, 3):
        key = (np.array([3]), number, 0)
        drawn = Stream(SEED, Purpose.LEARNER).uniform(key, 0, size)[0]
        usable, importance = reader.usable, np.ones(size)
        order = (drawn * len(usable)).astype(int)
        if name == "prioritised":  # by the leaves, which are in the order of rows
            usable, probabilities = np.sort(usable), leaves / leaves.sum()
            order = np.searchsorted(probabilities.cumsum(), drawn, side="right")
            importance = (len(leaves) * probabilities[order]) ** -0.4
            importance /= importance.max()
        noises = [None, None]
        if agent.settings.dqn.noisy:
            noises = [plain_noise(trainer.learner.network, key, draw) for draw in (0, 1)]

        (metrics,) = trainer.learn(first=0 if number == 1 else trainer.experiences[0].turn)
        loss, errors = plain.update(reader.batch(usable[order]), importance, *noises)

        leaves[order] = (np.array(errors) + 1e-3) ** 0.6
        assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
        assert metrics["td_error"] == pytest.approx(np.mean(errors), rel=1e-4)
    for name, expected in (("weights", plain.weights), ("target", plain.target)):
        for key, array in parameters.unpadded(trainer.states[0][name]).items():
            assert np.allclose(array, expected[key].detach().numpy(), rtol=0, atol=1e-5), (
                key
            )


@pytest.mark.shows("D3")
def test_switching_an_option_off_changes_what_is_learned():
    def learned(**dqn):
        trainer = GroupTrainer(DQN, [agent_of(dqn=dqn)])
        trainer.train(rounds=5)
        return trainer.states[0]["weights"].tobytes()

    cases = [{}, {"double": False}, {"dueling": False}, {"noisy": True}]
    assert len({learned(**case) for case in cases}) == 4


# Acting.


def policy_of(agent):
    policy = DqnPolicy([agent], SEED)
    weights = DQN.learner([agent], SEED).initial(agent)["weights"]
    policy.begin_round([weights], 1)
    return policy, weights


@pytest.mark.shows("D3")
@pytest.mark.parametrize("dueling", [True, False])
def test_without_exploration_the_action_with_the_highest_value_is_taken(dueling):
    agent = agent_of(dqn={"dueling": dueling})
    policy, weights = policy_of(agent)
    plain = PlainDqn(agent, policy.network.parameters.unpadded(weights))
    policy_input = make_input([agent], worlds=6)

    output = policy.act(policy_input)

    for world in range(6):
        inputs = flat_inputs(policy_input.observations[0], world)
        values = plain.values(plain.weights, inputs).detach()
        assert output.actions[0, world] == values.argmax().item()
        assert output.values[0, world] == pytest.approx(values.max().item(), abs=1e-5)


@pytest.mark.shows("D3", "D8")
def test_noise_changes_with_the_round_and_can_be_left_out():
    agent = agent_of(dqn={"noisy": True})
    policy, weights = policy_of(agent)
    policy_input = make_input([agent], worlds=5)

    first = policy.act(policy_input).values.copy()
    policy.begin_round([weights], 2)
    second = policy.act(policy_input).values.copy()
    policy.begin_round([weights], 2, noise=False)
    still = policy.act(policy_input).values.copy()

    assert len({values.tobytes() for values in (first, second, still)}) == 3


@pytest.mark.parametrize(("noisy", "probability"), [(True, 0.0), (False, 1.0)])
def test_noisy_networks_explore_without_epsilon(noisy, probability):
    # Whether IQN's noise is on does not matter to DQN.
    agent = agent_of(dqn={"noisy": noisy}, iqn={"noisy": not noisy}, algorithm="dqn")

    assert (
        exploration_of(replace(agent, algorithm=DQN, learns=True), steps=0) == probability
    )

"""DQN: its updates against a plain implementation, and how it acts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rookery.actor.policies import exploration_of
from rookery.algorithms.dqn import DQN, DqnPolicy
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import SEED, Crew, agent_of, spec_of
from tests.algorithms.test_iqn import flat_inputs, moment_of, plain_noise, shaken_plainly


class PlainDqn:
    """DQN as the papers have it: one agent, no padding, one step after the other."""

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

    def loss(self, batch, importance, noise=None, other=None):
        """Return the mean loss of steps, and their absolute errors."""
        weights = shaken_plainly(self.weights, noise)
        target = shaken_plainly(self.target, other)
        total, errors, threshold = 0.0, [], self.settings.dqn.threshold
        for i, weight in enumerate(importance):
            with torch.no_grad():
                after = self.values(target, flat_inputs(batch.next_seen, i))
                likes = after
                if self.settings.dqn.double:
                    likes = self.values(weights, flat_inputs(batch.next_seen, i))
                legal = batch.next_legal
                allowed = [k for k in range(len(after)) if legal is None or legal[i, k]]
                best = max(allowed, key=lambda k: likes[k].item())
                wanted = float(batch.returns[i]) + float(batch.discounts[i]) * after[best]
                before = self.values(target, flat_inputs(batch.seen, i))
                legal = batch.legal
                allowed = [k for k in range(len(before)) if legal is None or legal[i, k]]
                short = max(before[k] for k in allowed) - before[batch.actions[i]]
                wanted = wanted - self.settings.dqn.gap * short
            found = self.values(weights, flat_inputs(batch.seen, i))[batch.actions[i]]
            size = (wanted - found).abs()
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
    "pushed apart": {"dqn": {"gap": 0.7}},
    "masked": {},
    "masked, pushed apart": {"dqn": {"gap": 0.7}},
}


@pytest.mark.shows("D3")
@pytest.mark.parametrize(("name", "chosen"), CASES.items(), ids=CASES)
def test_updates_are_those_of_a_plain_implementation(name, chosen):
    spec = spec_of(3, masked=name.startswith("masked"))
    agent = agent_of(3, spec, learning_rate=1e-3, updates_per_round=1, **chosen)
    crew = Crew(DQN, [agent])
    parameters, reader = crew.learner.network.parameters, crew.lives[0].reader
    plain = PlainDqn(agent, parameters.real(crew.states[0]["weights"]))
    size = agent.settings.batch_size
    crew.lives[0].live()
    leaves = np.ones(len(reader.usable))
    for number in (1, 2, 3):
        place = (np.array([3]), number, 0)
        drawn = Stream(SEED, Purpose.LEARNER).uniform(place, 0, size)[0]
        usable, importance = reader.usable, np.ones(size)
        order = (drawn * len(usable)).astype(int)
        if name == "prioritised":  # by the leaves, which lie in the order of places
            usable, probabilities = np.sort(usable), leaves / leaves.sum()
            order = np.searchsorted(probabilities.cumsum(), drawn, side="right")
            importance = (len(leaves) * probabilities[order]) ** -0.4
            importance /= importance.max()
        noises = [None, None]
        if agent.settings.dqn.noisy:
            noises = [plain_noise(crew.learner.network, place, draw) for draw in (0, 1)]

        (metrics,) = crew.learn(first=0 if number == 1 else crew.lives[0].turn)
        loss, errors = plain.update(reader.batch(usable[order]), importance, *noises)

        leaves[order] = (np.array(errors) + 1e-3) ** 0.6
        assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
        assert metrics["td_error"] == pytest.approx(np.mean(errors), rel=1e-4)
    for kept, other in (("weights", plain.weights), ("target", plain.target)):
        for key, real in parameters.real(crew.states[0][kept]).items():
            assert np.allclose(real, other[key].detach().numpy(), rtol=0, atol=1e-5), key


@pytest.mark.shows("D3")
def test_switching_a_part_off_changes_what_is_learned():
    def learned(**dqn):
        crew = Crew(DQN, [agent_of(dqn=dqn)])
        crew.train(rounds=5)
        return crew.states[0]["weights"].tobytes()

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
def test_without_exploration_the_action_of_the_highest_value_is_taken(dueling):
    agent = agent_of(dqn={"dueling": dueling})
    policy, weights = policy_of(agent)
    plain = PlainDqn(agent, policy.network.parameters.real(weights))
    moment = moment_of([agent], worlds=6)

    choice = policy.act(moment)

    for world in range(6):
        inputs = flat_inputs(moment.seen[0], world)
        values = plain.values(plain.weights, inputs).detach()
        assert choice.actions[0, world] == values.argmax().item()
        assert choice.values[0, world] == pytest.approx(values.max().item(), abs=1e-5)


@pytest.mark.shows("D3", "D8")
def test_noise_changes_with_the_round_and_can_be_left_out():
    agent = agent_of(dqn={"noisy": True})
    policy, weights = policy_of(agent)
    moment = moment_of([agent], worlds=5)

    first = policy.act(moment).values.copy()
    policy.begin_round([weights], 2)
    second = policy.act(moment).values.copy()
    policy.begin_round([weights], 2, noise=False)
    still = policy.act(moment).values.copy()

    assert len({values.tobytes() for values in (first, second, still)}) == 3


@pytest.mark.parametrize(("noisy", "chance"), [(True, 0.0), (False, 1.0)])
def test_noise_in_the_weights_takes_the_place_of_epsilon(noisy, probability):
    # That IQN's own noise is on is nothing to DQN.
    agent = agent_of(dqn={"noisy": noisy}, iqn={"noisy": not noisy}, algorithm="dqn")

    assert (
        exploration_of(replace(agent, algorithm=DQN, learns=True), steps=0) == probability
    )

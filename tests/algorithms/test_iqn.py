"""IQN: its updates against a plain implementation, and how it acts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.base import PolicyInput
from rookery.algorithms.common.group import noise_for
from rookery.algorithms.iqn import IQN, IqnPolicy
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import (
    SEED,
    Experience,
    GroupTrainer,
    agent_of,
    same_bits,
    spec_of,
)

COSINES = 64


# A plain implementation: one agent, no padding, one transition after the other.


class PlainIqn:
    """IQN as in the paper, with torch's Adam."""

    def __init__(self, agent, weights):
        self.agent, self.settings = agent, agent.settings
        self.weights = {
            name: torch.tensor(np.array(array)).requires_grad_()
            for name, array in weights.items()
        }
        self.target = {name: torch.tensor(np.array(a)) for name, a in weights.items()}
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=self.settings.learning_rate
        )
        self.updates = 0

    def quantiles(self, weights, inputs, taus):
        """Return values of all actions for one observation, (quantiles, actions)."""
        hidden = inputs
        for i in range(self.settings.network.depth):
            hidden = torch.relu(
                hidden @ weights[f"read.{i}.weight"] + weights[f"read.{i}.bias"][0]
            )
        quantiles = []
        for tau in taus:
            cosines = torch.cos(torch.pi * torch.arange(COSINES) * tau)
            embedded = cosines @ weights["fraction.weight"] + weights["fraction.bias"][0]
            joined = hidden * torch.relu(embedded)
            joined = joined @ weights["join.weight"] + weights["join.bias"][0]
            out = torch.relu(joined) @ weights["values.weight"] + weights["values.bias"][0]
            if self.settings.iqn.dueling:
                out = out[-1] + out[:-1] - out[:-1].mean()
            quantiles.append(out)
        return torch.stack(quantiles)

    def best(self, weights, inputs, taus, legal):
        means = self.quantiles(weights, inputs, taus).mean(dim=0)
        allowed = [i for i in range(len(means)) if legal is None or legal[i]]
        return max(allowed, key=lambda i: means[i].item())

    def loss(self, transitions, importance, noise=None, target_noise=None):
        """Return the mean loss of transitions, and the errors of their means."""
        weights = with_noise(self.weights, noise)
        target = with_noise(self.target, target_noise)
        total, errors = 0.0, []
        for step, weight in zip(transitions, importance, strict=True):
            with torch.no_grad():
                after = self.quantiles(target, step["next_obs"], step["next_taus"])
                count = self.settings.iqn.acting_quantiles
                fixed = (torch.arange(count) + 0.5) / count
                choosing, taus = (
                    (weights, fixed)
                    if self.settings.iqn.double
                    else (target, step["next_taus"])
                )
                best = self.best(choosing, step["next_obs"], taus, step["next_legal"])
                targets = step["return"] + step["discount"] * after[:, best]
                means = self.quantiles(target, step["obs"], fixed).mean(dim=0)
                top = self.best(target, step["obs"], fixed, step["legal"])
                gap = means[top] - means[step["action"]]
                targets = targets - self.settings.iqn.gap * gap
            quantiles = self.quantiles(weights, step["obs"], step["taus"])
            quantiles = quantiles[:, step["action"]]
            deltas = targets[None, :] - quantiles[:, None]
            threshold = self.settings.iqn.threshold
            huber = torch.where(
                deltas.abs() <= threshold,
                0.5 * deltas**2,
                threshold * (deltas.abs() - 0.5 * threshold),
            )
            tilt = (step["taus"][:, None] - (deltas < 0).float()).abs()
            total = total + weight * (tilt * huber / threshold).mean(dim=1).sum()
            errors.append((targets.mean() - quantiles.detach().mean()).abs().item())
        return total / len(transitions), errors

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


def with_noise(weights, noise):
    noisy = dict(weights)
    for layer, (rows, columns) in (noise or {}).items():
        scale = weights[f"{layer}.weight_noise"] * torch.outer(rows, columns)
        noisy[f"{layer}.weight"] = weights[f"{layer}.weight"] + scale
        shift = weights[f"{layer}.bias_noise"] * columns
        noisy[f"{layer}.bias"] = weights[f"{layer}.bias"] + shift
    return noisy


def flat_inputs(observations, i):
    """Return one observation as a vector: view, scaled, then self; oldest first."""
    view = observations["view"][i].astype(np.float64).ravel() / 255
    flat = np.concatenate([view, observations["self"][i].ravel()])
    return torch.tensor(flat, dtype=torch.float32)


def transitions_of(batch, draws, quantiles):
    """Return a batch as a list of transitions, with the taus that were drawn for it."""
    size = len(batch.actions)
    taus, next_taus = torch.tensor(draws, dtype=torch.float32).view(2, size, quantiles)
    return [
        {
            "obs": flat_inputs(batch.seen, i),
            "next_obs": flat_inputs(batch.next_seen, i),
            "action": int(batch.actions[i]),
            "return": float(batch.returns[i]),
            "discount": float(batch.discounts[i]),
            "legal": None if batch.legal is None else batch.legal[i],
            "next_legal": None if batch.next_legal is None else batch.next_legal[i],
            "taus": taus[i],
            "next_taus": next_taus[i],
        }
        for i in range(size)
    ]


def plain_noise(network, key, draw):
    """Return the factorised noise of both noisy layers, without padding."""
    layers = network.noisy_layers
    stream = Stream(SEED, Purpose.LEARNER_NOISE)
    drawn = noise_for(layers, stream, key, draw * len(layers))
    return {
        name: (
            noise.inputs[0, : layers[name][0], 0],
            noise.outputs[0, 0, : layers[name][1]],
        )
        for name, noise in drawn.items()
    }


CASES = {
    "as shipped": {},
    "not double": {"iqn": {"double": False}},
    "not dueling": {"iqn": {"dueling": False}},
    "neither": {"iqn": {"double": False, "dueling": False}},
    "noisy": {"iqn": {"noisy": True}},
    "another threshold": {"iqn": {"threshold": 0.3}},
    "deep and odd": {"network": {"width": 13, "depth": 3, "quantiles": 3}},
    "one quantile": {"network": {"quantiles": 1}},
    "clipped": {"gradient": {"clip": 0.05}},
    "hard target": {"target": {"every": 2, "rate": 1.0}},
    "prioritised": {"replay": {"kind": "prioritised"}},
    "advantage learning": {"iqn": {"gap": 0.7}},
    "masked": {},
    "masked, advantage learning": {"iqn": {"gap": 0.7}},
}


@pytest.mark.shows("D3")
@pytest.mark.parametrize(("name", "settings"), CASES.items(), ids=CASES)
def test_updates_are_those_of_a_plain_implementation(name, settings):
    spec = spec_of(3, masked=name.startswith("masked"))
    agent = agent_of(3, spec, learning_rate=1e-3, updates_per_round=1, **settings)
    trainer = GroupTrainer(IQN, [agent])
    parameters, reader = trainer.learner.network.parameters, trainer.experiences[0].reader
    plain = PlainIqn(agent, parameters.unpadded(trainer.states[0]["weights"]))
    size, quantiles = agent.settings.batch_size, agent.settings.network.quantiles
    trainer.experiences[0].play_round()
    leaves = np.ones(len(reader.usable))
    for number in (1, 2, 3):
        key = (np.array([3]), number, 0)
        drawn = Stream(SEED, Purpose.LEARNER).uniform(key, 0, size + 2 * size * quantiles)[
            0
        ]
        usable, importance = reader.usable, np.ones(size)
        order = (drawn[:size] * len(usable)).astype(int)
        if name == "prioritised":  # by the leaves, which are in the order of rows
            usable, probabilities = np.sort(usable), leaves / leaves.sum()
            order = np.searchsorted(probabilities.cumsum(), drawn[:size], side="right")
            importance = (len(leaves) * probabilities[order]) ** -0.4
            importance /= importance.max()
        batch = reader.batch(usable[order])
        noises = [None, None]
        if agent.settings.iqn.noisy:
            noises = [plain_noise(trainer.learner.network, key, draw) for draw in (0, 1)]

        (metrics,) = trainer.learn(first=0 if number == 1 else trainer.experiences[0].turn)
        loss, errors = plain.update(
            transitions_of(batch, drawn[size:], quantiles), importance, *noises
        )

        leaves[order] = (np.array(errors) + 1e-3) ** 0.6
        assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
        assert metrics["td_error"] == pytest.approx(np.mean(errors), rel=1e-4)
    state = trainer.states[0]
    for name, expected in (("weights", plain.weights), ("target", plain.target)):
        for key, array in parameters.unpadded(state[name]).items():
            assert np.allclose(array, expected[key].detach().numpy(), rtol=0, atol=1e-5), (
                key
            )


@pytest.mark.shows("D3")
def test_switching_an_option_off_changes_what_is_learned():
    def learned(**iqn):
        trainer = GroupTrainer(IQN, [agent_of(iqn=iqn)])
        trainer.train(rounds=5)
        return trainer.states[0]["weights"].tobytes()

    cases = [{}, {"double": False}, {"dueling": False}, {"noisy": True}]
    assert len({learned(**case) for case in cases}) == 4


# Targets.


class Spy(IQN.learner):
    """Keeps the last batch that it learned from."""

    def compute_losses(self, batch):
        self.batch = batch
        return super().compute_losses(batch)


def next_quantiles(trainer, legal):
    """Return the target's quantiles of random next observations: all, and the best's."""
    learner = trainer.learner
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(1, 8, learner.network.features.padded, generator=generator)
    inputs[:, :, learner.network.features.width :] = 0
    taus = torch.rand(1, 8, 4, generator=generator)
    with torch.no_grad():
        quantiles = learner.network.quantiles(learner.group.target, inputs, taus)
        best = learner.best_actions(learner.group.weights, quantiles, inputs, legal)
        return quantiles, quantiles[0, torch.arange(8), :, best[0]][None]


@pytest.mark.shows("D3")
@pytest.mark.parametrize("double", [True, False])
def test_targets_never_come_from_illegal_actions(double):
    trainer = GroupTrainer(
        IQN, [agent_of(spec=spec_of(masked=True), iqn={"double": double})]
    )
    legal = torch.zeros(1, 8, 5, dtype=torch.bool)
    legal[0, torch.arange(8), torch.arange(8) % 5] = True  # only one output each

    quantiles, best = next_quantiles(trainer, legal)

    for i in range(8):
        assert torch.equal(best[0, i], quantiles[0, i, :, i % 5])


@pytest.mark.parametrize("double", [True, False])
def test_where_nothing_is_legal_the_target_is_that_of_the_best_action(double):
    # A closing row after truncation: the agent does not act there, as a game can say.
    agent = agent_of(spec=spec_of(masked=True), iqn={"double": double})
    none_legal, all_legal = GroupTrainer(IQN, [agent]), GroupTrainer(IQN, [agent])

    none_legal.train(rounds=3, closing_legal=False)
    all_legal.train(rounds=3, closing_legal=True)

    assert same_bits(none_legal.states[0], all_legal.states[0])


def test_targets_use_the_mask_of_the_row_in_which_a_transition_closes():
    agent = agent_of(spec=spec_of(masked=True), updates_per_round=1)
    trainer = GroupTrainer(IQN, [agent])
    trainer.learner = Spy([agent], SEED)
    trainer.learner.load([trainer.learner.initial(agent)])

    trainer.train()

    reader = trainer.experiences[0].reader
    drawn = Stream(SEED, Purpose.LEARNER).uniform((0, 1, 0), 0, 8)[0]
    transitions = reader.sample(drawn)
    worlds = transitions % reader.worlds
    expected = reader.at("legal", reader.closes(transitions), worlds)
    assert np.array_equal(trainer.learner.batch.next_legal[0].numpy(), expected)


# Warm-up.


@pytest.mark.parametrize("settings", [{"replay": {"warmup": 90}}, {"batch_size": 64}])
def test_an_agent_that_is_warming_up_keeps_every_bit(settings):
    trainer = GroupTrainer(IQN, [agent_of(**settings)])
    before = trainer.states[0]

    (metrics,) = trainer.train()

    assert metrics["updates"] == 0
    assert 0 < metrics["usable_steps"] < 64
    assert same_bits(trainer.states[0], before)


def test_updates_skipped_during_warm_up_are_not_made_up_later():
    trainer = GroupTrainer(IQN, [agent_of(replay={"warmup": 30})])

    updates = [trainer.train()[0]["updates"] for _ in range(3)]

    assert updates == [0, 3, 3]
    assert trainer.states[0]["counters"][0] == 6


@pytest.mark.shows("A1")
def test_an_agent_that_warms_up_longer_does_not_delay_the_others():
    early, late = agent_of(0), agent_of(1, replay={"warmup": 60})
    together, alone = GroupTrainer(IQN, [early, late]), GroupTrainer(IQN, [early])

    counts = [[each["updates"] for each in together.train()] for _ in range(4)]
    alone.train(rounds=4)

    assert counts == [[3, 0], [3, 0], [3, 3], [3, 3]]
    assert same_bits(together.states[0], alone.states[0])


# Gradient accumulation.


class FixedStream:
    """A stream of given numbers: batch, taus and next taus of each pass."""

    def __init__(self, *passes):
        self._passes = list(passes)

    def uniform(self, key, draw, count):
        draws = [np.concatenate([part.ravel() for part in self._passes[k]]) for k in key[2]]
        assert [len(numbers) for numbers in draws] == [count] * len(draws)
        return np.stack(draws)


@pytest.mark.shows("D4")
@pytest.mark.parametrize("times", [2, 3])
def test_small_batches_accumulated_equal_one_large_batch(times):
    rng, size, quantiles = np.random.default_rng(0), 5, 4
    batches = rng.random((times, size))
    taus, next_taus = rng.random((2, times, size, quantiles))
    results = {}
    for name, batch, repeats in (("small", size, times), ("large", times * size, 1)):
        agent = agent_of(
            batch_size=batch, gradient={"accumulate": repeats}, updates_per_round=1
        )
        trainer = GroupTrainer(IQN, [agent])
        whole = [(batches, taus, next_taus)]
        parts = list(zip(batches, taus, next_taus, strict=True))
        trainer.learner.stream = FixedStream(*(parts if name == "small" else whole))
        (results[f"{name} metrics"],) = trainer.train()
        results[name] = trainer.states[0]

    small, large = results["small"], results["large"]
    assert results["small metrics"]["updates"] == 1
    assert small["counters"].tolist() == large["counters"].tolist() == [1, 0]
    # After one update the first policy_input is a tenth of the gradient.
    scale = np.abs(large["means"]).max()
    assert np.allclose(small["means"], large["means"], rtol=0, atol=1e-5 * scale)
    assert results["small metrics"]["gradient_norm"] == pytest.approx(
        results["large metrics"]["gradient_norm"], rel=1e-5
    )


@pytest.mark.shows("D4")
def test_accumulated_batches_are_different_batches():
    single = GroupTrainer(IQN, [agent_of(updates_per_round=1)])
    double = GroupTrainer(IQN, [agent_of(updates_per_round=1, gradient={"accumulate": 2})])

    single.train()
    double.train()

    means = [trainer.states[0]["means"] for trainer in (single, double)]
    assert not np.allclose(*means, rtol=1e-3)


# Rewards.


def test_standardised_rewards_are_divided_by_their_spread():
    agent = agent_of(updates_per_round=1, reward={"standardise": True})
    trainer = GroupTrainer(IQN, [agent])
    trainer.learner = Spy([agent], SEED)
    trainer.learner.load([trainer.learner.initial(agent)])

    trainer.train()

    reader = trainer.experiences[0].reader
    transitions = reader.sample(Stream(SEED, Purpose.LEARNER).uniform((0, 1, 0), 0, 8)[0])
    spread = reader.rewards_since(0).astype(np.float64).std()
    expected = reader.batch(transitions).returns / spread
    assert np.allclose(trainer.learner.batch.returns[0].numpy(), expected, rtol=1e-5)


def test_standardising_survives_a_round_without_experience():
    # In the first round of a pipelined run there is nothing to learn from.
    trainer = GroupTrainer(IQN, [agent_of(reward={"standardise": True})])

    trainer.learn(first=0)
    (metrics,) = trainer.train()

    assert metrics["updates"] == 3
    assert np.isfinite(trainer.states[0]["reward_spread"]).all()


# Acting.


def make_input(agents, worlds, data_seed=0, exploration=0.0, legal=None):
    """Return a random input for some agents."""
    observations = []
    for agent in agents:
        experience = Experience(agent, data_seed, worlds=worlds)
        experience.play_round()
        turns = np.full(worlds, experience.turn - 1)
        observations.append(experience.reader.observations(turns, np.arange(worlds)))
    draws = np.random.default_rng(data_seed).random((len(agents), worlds, 2))
    return PolicyInput(
        observations,
        legal if legal is not None else [None] * len(agents),
        draws,
        np.full(len(agents), exploration),
    )


def policy_of(agents, data_seed=0):
    learner = IQN.learner(agents, SEED + data_seed)
    policy = IqnPolicy(agents, SEED)
    weights = [learner.initial(agent)["weights"] for agent in agents]
    policy.begin_round(weights, 1)
    return policy, weights


@pytest.mark.shows("D3")
@pytest.mark.parametrize("dueling", [True, False])
def test_without_exploration_the_action_with_the_highest_mean_is_taken(dueling):
    agent = agent_of(iqn={"dueling": dueling, "acting_quantiles": 3})
    policy, weights = policy_of([agent])
    plain = PlainIqn(agent, policy.network.parameters.unpadded(weights[0]))
    policy_input = make_input([agent], worlds=6)

    output = policy.act(policy_input)

    taus = torch.tensor([1 / 6, 1 / 2, 5 / 6])
    for world in range(6):
        inputs = flat_inputs(policy_input.observations[0], world)
        means = plain.quantiles(plain.weights, inputs, taus).mean(dim=0).detach()
        assert output.actions[0, world] == means.argmax().item()
        assert output.values[0, world] == pytest.approx(means.max().item(), abs=1e-5)
    assert np.all(output.probabilities == 1.0)
    assert np.allclose(output.entropies, 0.0)


def test_exploring_agents_take_actions_as_often_as_their_probabilities_say():
    agent = agent_of()
    policy, _ = policy_of([agent])
    policy_input = make_input([agent], worlds=1)
    (greedy,) = policy.act(policy_input).actions[0]
    worlds = 4_000
    policy_input.observations = [
        {
            name: np.repeat(a, worlds, axis=0)
            for name, a in policy_input.observations[0].items()
        }
    ]
    policy_input.draws = np.random.default_rng(0).random((1, worlds, 2))
    policy_input.exploration = np.array([0.5])

    output = policy.act(policy_input)

    shares = np.bincount(output.actions[0], minlength=5) / worlds
    expected = np.full(5, 0.1)
    expected[greedy] = 0.6
    assert shares == pytest.approx(expected, abs=0.03)
    assert output.probabilities[0] == pytest.approx(expected[output.actions[0]])
    assert output.entropies[0] == pytest.approx(-(expected * np.log(expected)).sum())


def random_legal(worlds, actions=5, data_seed=0):
    rng = np.random.default_rng(data_seed)
    legal = rng.random((worlds, actions)) < 0.4
    legal[np.arange(worlds), rng.integers(actions, size=worlds)] = True
    return legal


@pytest.mark.parametrize("exploration", [0.0, 0.5, 1.0])
def test_illegal_actions_are_never_taken(exploration):
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = random_legal(worlds=200)

    output = policy.act(make_input([agent], 200, exploration=exploration, legal=[legal]))

    assert legal[np.arange(200), output.actions[0]].all()


def test_probabilities_count_only_legal_actions():
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = random_legal(worlds=200)
    greedy = policy.act(make_input([agent], 200, legal=[legal])).actions[0]

    output = policy.act(make_input([agent], 200, exploration=0.5, legal=[legal]))

    share = 0.5 / legal.sum(axis=1)
    expected = share + 0.5 * (output.actions[0] == greedy)
    assert output.probabilities[0] == pytest.approx(expected, abs=1e-6)
    assert (output.actions[0] != greedy).any()


def test_entropies_count_only_legal_actions():
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = np.array(
        [[True, False, False, False, False], [True, True, False, False, False]]
    )

    output = policy.act(make_input([agent], 2, exploration=0.5, legal=[legal]))

    two = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert output.entropies[0] == pytest.approx([0.0, two], abs=1e-6)


def test_an_agent_without_legal_actions_takes_a_valid_action():
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    policy_input = make_input([agent], 2, exploration=0.5, legal=[np.zeros((2, 5), bool)])

    output = policy.act(policy_input)

    assert np.all((output.actions >= 0) & (output.actions < 5))
    assert np.isfinite(output.probabilities).all()


@pytest.mark.shows("D3", "D8")
def test_noise_changes_with_the_round_and_stays_within_it():
    agent = agent_of(iqn={"noisy": True})
    policy, weights = policy_of([agent])
    policy_input = make_input([agent], worlds=5)

    first = policy.act(policy_input).values.copy()
    again = policy.act(policy_input).values.copy()
    policy.begin_round(weights, 2)
    second = policy.act(policy_input).values.copy()
    policy.begin_round(weights, 1)
    repeated = policy.act(policy_input).values.copy()

    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, repeated)


@pytest.mark.shows("A1", "D8")
def test_noisy_agents_with_the_same_weights_get_different_noise():
    agents = [agent_of(i, iqn={"noisy": True}) for i in range(2)]
    policy, weights = policy_of(agents)
    policy.begin_round([weights[0], weights[0]], 1)
    policy_input = make_input(agents, worlds=5)
    policy_input.observations = [policy_input.observations[0], policy_input.observations[0]]

    output = policy.act(policy_input)

    assert not np.array_equal(output.values[0], output.values[1])


def test_a_policy_keeps_its_weights_when_the_array_is_overwritten():
    agent = agent_of()
    policy, weights = policy_of([agent])
    policy_input = make_input([agent], worlds=5)
    before = policy.act(policy_input).values.copy()

    weights[0][...] = 0

    assert np.array_equal(policy.act(policy_input).values, before)

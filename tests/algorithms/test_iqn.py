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
    Crew,
    Life,
    agent_of,
    same_bits,
    spec_of,
)

COSINES = 64


# A plain implementation: one agent, no padding, one step of a batch after the other.


class PlainIqn:
    """IQN as the paper has it, with torch's own Adam."""

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

    def quantiles(self, weights, inputs, fractions):
        """Return values of all actions for one observation, (quantiles, actions)."""
        hidden = inputs
        for i in range(self.settings.network.depth):
            hidden = torch.relu(
                hidden @ weights[f"read.{i}.weight"] + weights[f"read.{i}.bias"][0]
            )
        found = []
        for fraction in fractions:
            cosines = torch.cos(torch.pi * torch.arange(COSINES) * fraction)
            looks = cosines @ weights["fraction.weight"] + weights["fraction.bias"][0]
            joined = hidden * torch.relu(looks)
            joined = joined @ weights["join.weight"] + weights["join.bias"][0]
            out = torch.relu(joined) @ weights["values.weight"] + weights["values.bias"][0]
            if self.settings.iqn.dueling:
                out = out[-1] + out[:-1] - out[:-1].mean()
            found.append(out)
        return torch.stack(found)

    def best(self, weights, inputs, fractions, legal):
        means = self.quantiles(weights, inputs, fractions).mean(dim=0)
        allowed = [i for i in range(len(means)) if legal is None or legal[i]]
        return max(allowed, key=lambda i: means[i].item())

    def loss(self, steps, importance, noise=None, other=None):
        """Return the mean loss of steps, and the errors of their means."""
        weights = shaken_plainly(self.weights, noise)
        target = shaken_plainly(self.target, other)
        total, errors = 0.0, []
        for step, weight in zip(steps, importance, strict=True):
            with torch.no_grad():
                after = self.quantiles(target, step["next"], step["others"])
                count = self.settings.iqn.acting_quantiles
                fixed = (torch.arange(count) + 0.5) / count
                if self.settings.iqn.double:
                    best = self.best(weights, step["next"], fixed, step["legal"])
                else:
                    best = self.best(target, step["next"], step["others"], step["legal"])
                wanted = step["return"] + step["discount"] * after[:, best]
                means = self.quantiles(target, step["now"], fixed).mean(dim=0)
                top = self.best(target, step["now"], fixed, step["legal_now"])
                short = means[top] - means[step["action"]]
                wanted = wanted - self.settings.iqn.gap * short
            found = self.quantiles(weights, step["now"], step["fractions"])
            found = found[:, step["action"]]
            each = wanted[None, :] - found[:, None]
            threshold = self.settings.iqn.threshold
            huber = torch.where(
                each.abs() <= threshold,
                0.5 * each**2,
                threshold * (each.abs() - 0.5 * threshold),
            )
            tilt = (step["fractions"][:, None] - (each < 0).float()).abs()
            total = total + weight * (tilt * huber / threshold).mean(dim=1).sum()
            errors.append((wanted.mean() - found.detach().mean()).abs().item())
        return total / len(steps), errors

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


def shaken_plainly(weights, noise):
    found = dict(weights)
    for layer, (rows, columns) in (noise or {}).items():
        wild = weights[f"{layer}.weight_noise"] * torch.outer(rows, columns)
        found[f"{layer}.weight"] = weights[f"{layer}.weight"] + wild
        shift = weights[f"{layer}.bias_noise"] * columns
        found[f"{layer}.bias"] = weights[f"{layer}.bias"] + shift
    return found


def flat_inputs(seen, i):
    """Return what a step saw as one vector: view, scaled, then self; oldest first."""
    parts = [seen["view"][i].astype(np.float64).ravel() / 255, seen["self"][i].ravel()]
    return torch.tensor(np.concatenate(parts), dtype=torch.float32)


def steps_of(batch, draws, quantiles):
    """Return a batch as a list of steps, with the fractions that were drawn for it."""
    size = len(batch.actions)
    numbers = torch.tensor(draws, dtype=torch.float32).view(2, size, quantiles)
    return [
        {
            "now": flat_inputs(batch.seen, i),
            "next": flat_inputs(batch.next_seen, i),
            "action": int(batch.actions[i]),
            "return": float(batch.returns[i]),
            "discount": float(batch.discounts[i]),
            "legal_now": None if batch.legal is None else batch.legal[i],
            "legal": None if batch.next_legal is None else batch.next_legal[i],
            "fractions": numbers[0, i],
            "others": numbers[1, i],
        }
        for i in range(size)
    ]


def plain_noise(network, place, draw):
    """Return the factorised noise of both noisy layers, without padding."""
    layers = network.noisy_layers
    stream = Stream(SEED, Purpose.LEARNER_NOISE)
    drawn = noise_for(layers, stream, place, draw * len(layers))
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
    "pushed apart": {"iqn": {"gap": 0.7}},
    "masked": {},
    "masked, pushed apart": {"iqn": {"gap": 0.7}},
}


@pytest.mark.shows("D3")
@pytest.mark.parametrize(("name", "chosen"), CASES.items(), ids=CASES)
def test_updates_are_those_of_a_plain_implementation(name, chosen):
    spec = spec_of(3, masked=name.startswith("masked"))
    agent = agent_of(3, spec, learning_rate=1e-3, updates_per_round=1, **chosen)
    crew = Crew(IQN, [agent])
    parameters, reader = crew.learner.network.parameters, crew.lives[0].reader
    plain = PlainIqn(agent, parameters.real(crew.states[0]["weights"]))
    size, quantiles = agent.settings.batch_size, agent.settings.network.quantiles
    crew.lives[0].live()
    leaves = np.ones(len(reader.usable))
    for number in (1, 2, 3):
        place = (np.array([3]), number, 0)
        drawn = Stream(SEED, Purpose.LEARNER).uniform(
            place, 0, size + 2 * size * quantiles
        )[0]
        usable, importance = reader.usable, np.ones(size)
        order = (drawn[:size] * len(usable)).astype(int)
        if name == "prioritised":  # by the leaves, which lie in the order of places
            usable, probabilities = np.sort(usable), leaves / leaves.sum()
            order = np.searchsorted(probabilities.cumsum(), drawn[:size], side="right")
            importance = (len(leaves) * probabilities[order]) ** -0.4
            importance /= importance.max()
        batch = reader.batch(usable[order])
        noises = [None, None]
        if agent.settings.iqn.noisy:
            noises = [plain_noise(crew.learner.network, place, draw) for draw in (0, 1)]

        (metrics,) = crew.learn(first=0 if number == 1 else crew.lives[0].turn)
        loss, errors = plain.update(
            steps_of(batch, drawn[size:], quantiles), importance, *noises
        )

        leaves[order] = (np.array(errors) + 1e-3) ** 0.6
        assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
        assert metrics["td_error"] == pytest.approx(np.mean(errors), rel=1e-4)
    state = crew.states[0]
    for kept, other in (("weights", plain.weights), ("target", plain.target)):
        for key, real in parameters.real(state[kept]).items():
            assert np.allclose(real, other[key].detach().numpy(), rtol=0, atol=1e-5), key


@pytest.mark.shows("D3")
def test_switching_a_part_off_changes_what_is_learned():
    def learned(**iqn):
        crew = Crew(IQN, [agent_of(iqn=iqn)])
        crew.train(rounds=5)
        return crew.states[0]["weights"].tobytes()

    cases = [{}, {"double": False}, {"dueling": False}, {"noisy": True}]
    assert len({learned(**case) for case in cases}) == 4


# Targets.


class Spy(IQN.learner):
    """Remembers what it was asked to compare."""

    def losses(self, batches, columns, importance, draws, place):
        self.columns = columns
        return super().losses(batches, columns, importance, draws, place)


def values_after(crew, legal):
    """Return the target's quantiles for random next observations and a mask."""
    learner = crew.learner
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(1, 8, learner.network.features.padded, generator=generator)
    inputs[:, :, learner.network.features.width :] = 0
    fractions = torch.rand(1, 8, 4, generator=generator)
    with torch.no_grad():
        weights, target = learner.group.weights, learner.group.target
        every = learner.network.values(
            target,
            learner.network.read(target, inputs),
            learner.network.embed(target, fractions),
        )
        found, _ = learner._values_after(weights, target, inputs, fractions, legal)
        return every, found


@pytest.mark.shows("D3")
@pytest.mark.parametrize("double", [True, False])
def test_targets_never_come_from_illegal_actions(double):
    crew = Crew(IQN, [agent_of(spec=spec_of(masked=True), iqn={"double": double})])
    legal = torch.zeros(1, 8, 5, dtype=torch.bool)
    legal[0, torch.arange(8), torch.arange(8) % 5] = True  # only one choice each

    every, found = values_after(crew, legal)

    for i in range(8):
        assert torch.equal(found[0, i], every[0, i, :, i % 5])


@pytest.mark.parametrize("double", [True, False])
def test_where_nothing_is_legal_the_target_is_that_of_the_best_action(double):
    # A closing row after truncation: nobody acts there, and a game may say so.
    agent = agent_of(spec=spec_of(masked=True), iqn={"double": double})
    silent, free = Crew(IQN, [agent]), Crew(IQN, [agent])

    silent.train(rounds=3, closing_legal=False)
    free.train(rounds=3, closing_legal=True)

    assert same_bits(silent.states[0], free.states[0])


def test_masks_of_the_row_a_step_closes_at_reach_the_target():
    agent = agent_of(spec=spec_of(masked=True), updates_per_round=1)
    crew = Crew(IQN, [agent])
    crew.learner = Spy([agent], SEED)
    crew.learner.load([crew.learner.initial(agent)])

    crew.train()

    reader = crew.lives[0].reader
    drawn = Stream(SEED, Purpose.LEARNER).uniform((0, 1, 0), 0, 8)[0]
    steps = reader.sample(drawn)
    worlds = steps % reader.worlds
    expected = reader.at("legal", reader.closes(steps), worlds)
    assert np.array_equal(crew.learner.columns.next_legal[0].numpy(), expected)


# Beginnings.


@pytest.mark.parametrize("chosen", [{"replay": {"warmup": 90}}, {"batch_size": 64}])
def test_an_agent_that_has_seen_too_little_keeps_every_bit(chosen):
    crew = Crew(IQN, [agent_of(**chosen)])
    before = crew.states[0]

    (metrics,) = crew.train()

    assert metrics["updates"] == 0
    assert 0 < metrics["usable_steps"] < 64
    assert same_bits(crew.states[0], before)


def test_updates_left_out_are_not_made_up_for():
    crew = Crew(IQN, [agent_of(replay={"warmup": 30})])

    updates = [crew.train()[0]["updates"] for _ in range(3)]

    assert updates == [0, 3, 3]
    assert crew.states[0]["counters"][0] == 6


@pytest.mark.shows("A1")
def test_an_agent_that_starts_late_does_not_hold_up_the_others():
    early, late = agent_of(0), agent_of(1, replay={"warmup": 60})
    together, alone = Crew(IQN, [early, late]), Crew(IQN, [early])

    counts = [[one["updates"] for one in together.train()] for _ in range(4)]
    alone.train(rounds=4)

    assert counts == [[3, 0], [3, 0], [3, 3], [3, 3]]
    assert same_bits(together.states[0], alone.states[0])


# Gradient accumulation.


class Dealt:
    """A stream that deals given numbers: steps, fractions and others of each pass."""

    def __init__(self, *passes):
        self._passes = list(passes)

    def uniform(self, place, draw, count):
        dealt = [
            np.concatenate([part.ravel() for part in self._passes[one]]) for one in place[2]
        ]
        assert [len(numbers) for numbers in dealt] == [count] * len(dealt)
        return np.stack(dealt)


@pytest.mark.shows("D4")
@pytest.mark.parametrize("times", [2, 3])
def test_small_batches_accumulated_equal_one_large_batch(times):
    probability, size, quantiles = np.random.default_rng(0), 5, 4
    steps = probability.random((times, size))
    fractions, others = probability.random((2, times, size, quantiles))
    kept = {}
    for name, batch, repeats in (("small", size, times), ("large", times * size, 1)):
        agent = agent_of(
            batch_size=batch, gradient={"accumulate": repeats}, updates_per_round=1
        )
        crew = Crew(IQN, [agent])
        whole = [(steps, fractions, others)]
        parts = list(zip(steps, fractions, others, strict=True))
        crew.learner._stream = Dealt(*(parts if name == "small" else whole))
        (kept[f"{name} metrics"],) = crew.train()
        kept[name] = crew.states[0]

    small, large = kept["small"], kept["large"]
    assert kept["small metrics"]["updates"] == 1
    assert small["counters"].tolist() == large["counters"].tolist() == [1, 0]
    # After one update the first moment is a tenth of the gradient.
    scale = np.abs(large["means"]).max()
    assert np.allclose(small["means"], large["means"], rtol=0, atol=1e-5 * scale)
    assert kept["small metrics"]["gradient_norm"] == pytest.approx(
        kept["large metrics"]["gradient_norm"], rel=1e-5
    )


@pytest.mark.shows("D4")
def test_accumulated_batches_are_different_batches():
    one = Crew(IQN, [agent_of(updates_per_round=1)])
    two = Crew(IQN, [agent_of(updates_per_round=1, gradient={"accumulate": 2})])

    one.train()
    two.train()

    assert not np.allclose(one.states[0]["means"], two.states[0]["means"], rtol=1e-3)


# Rewards.


def test_standardised_rewards_are_divided_by_their_spread():
    agent = agent_of(updates_per_round=1, reward={"standardise": True})
    crew = Crew(IQN, [agent])
    crew.learner = Spy([agent], SEED)
    crew.learner.load([crew.learner.initial(agent)])

    crew.train()

    reader = crew.lives[0].reader
    steps = reader.sample(Stream(SEED, Purpose.LEARNER).uniform((0, 1, 0), 0, 8)[0])
    spread = reader.rewards_since(0).astype(np.float64).std()
    expected = reader.batch(steps).returns / spread
    assert np.allclose(crew.learner.columns.returns[0].numpy(), expected, rtol=1e-5)


def test_standardising_survives_a_round_without_experience():
    # The first round of a pipelined run is learned from nothing.
    crew = Crew(IQN, [agent_of(reward={"standardise": True})])

    crew.learn(first=0)
    (metrics,) = crew.train()

    assert metrics["updates"] == 3
    assert np.isfinite(crew.states[0]["reward_spread"]).all()


# Acting.


def moment_of(agents, worlds, luck=0, exploration=0.0, legal=None):
    """Return a moment full of chance for some agents."""
    moments = []
    for agent in agents:
        life = Life(agent, luck, worlds=worlds)
        life.live()
        turns = np.full(worlds, life.turn - 1)
        moments.append(life.reader.observations(turns, np.arange(worlds)))
    draws = np.random.default_rng(luck).random((len(agents), worlds, 2))
    return PolicyInput(
        moments,
        legal if legal is not None else [None] * len(agents),
        draws,
        np.full(len(agents), exploration),
    )


def policy_of(agents, luck=0):
    learner = IQN.learner(agents, SEED + luck)
    policy = IqnPolicy(agents, SEED)
    weights = [learner.initial(agent)["weights"] for agent in agents]
    policy.begin_round(weights, 1)
    return policy, weights


@pytest.mark.shows("D3")
@pytest.mark.parametrize("dueling", [True, False])
def test_without_exploration_the_action_of_the_highest_mean_is_taken(dueling):
    agent = agent_of(iqn={"dueling": dueling, "acting_quantiles": 3})
    policy, weights = policy_of([agent])
    plain = PlainIqn(agent, policy.network.parameters.real(weights[0]))
    moment = moment_of([agent], worlds=6)

    choice = policy.act(moment)

    fractions = torch.tensor([1 / 6, 1 / 2, 5 / 6])
    for world in range(6):
        inputs = flat_inputs(moment.seen[0], world)
        means = plain.quantiles(plain.weights, inputs, fractions).mean(dim=0).detach()
        assert choice.actions[0, world] == means.argmax().item()
        assert choice.values[0, world] == pytest.approx(means.max().item(), abs=1e-5)
    assert np.all(choice.probabilities == 1.0)
    assert np.allclose(choice.entropies, 0.0)


def test_exploring_agents_take_every_action_as_often_as_they_say():
    agent = agent_of()
    policy, _ = policy_of([agent])
    moment = moment_of([agent], worlds=1)
    (greedy,) = policy.act(moment).actions[0]
    worlds = 4_000
    moment.seen = [
        {name: np.repeat(a, worlds, axis=0) for name, a in moment.seen[0].items()}
    ]
    moment.draws = np.random.default_rng(0).random((1, worlds, 2))
    moment.exploration = np.array([0.5])

    choice = policy.act(moment)

    shares = np.bincount(choice.actions[0], minlength=5) / worlds
    expected = np.full(5, 0.1)
    expected[greedy] = 0.6
    assert shares == pytest.approx(expected, abs=0.03)
    assert choice.probabilities[0] == pytest.approx(expected[choice.actions[0]])
    assert choice.entropies[0] == pytest.approx(-(expected * np.log(expected)).sum())


def some_legal(worlds, actions=5, luck=0):
    probability = np.random.default_rng(luck)
    legal = probability.random((worlds, actions)) < 0.4
    legal[np.arange(worlds), probability.integers(actions, size=worlds)] = True
    return legal


@pytest.mark.parametrize("exploration", [0.0, 0.5, 1.0])
def test_illegal_actions_are_never_taken(exploration):
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = some_legal(worlds=200)

    choice = policy.act(moment_of([agent], 200, exploration=exploration, legal=[legal]))

    assert legal[np.arange(200), choice.actions[0]].all()


def test_probabilities_count_only_legal_actions():
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = some_legal(worlds=200)
    greedy = policy.act(moment_of([agent], 200, legal=[legal])).actions[0]

    choice = policy.act(moment_of([agent], 200, exploration=0.5, legal=[legal]))

    share = 0.5 / legal.sum(axis=1)
    expected = share + 0.5 * (choice.actions[0] == greedy)
    assert choice.probabilities[0] == pytest.approx(expected, abs=1e-6)
    assert (choice.actions[0] != greedy).any()


def test_entropies_count_only_legal_actions():
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = np.array(
        [[True, False, False, False, False], [True, True, False, False, False]]
    )

    choice = policy.act(moment_of([agent], 2, exploration=0.5, legal=[legal]))

    two = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert choice.entropies[0] == pytest.approx([0.0, two], abs=1e-6)


def test_an_agent_without_any_legal_action_does_no_harm():
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    moment = moment_of([agent], 2, exploration=0.5, legal=[np.zeros((2, 5), bool)])

    choice = policy.act(moment)

    assert np.all((choice.actions >= 0) & (choice.actions < 5))
    assert np.isfinite(choice.probabilities).all()


@pytest.mark.shows("D3", "D8")
def test_noise_changes_with_the_round_and_stays_within_it():
    agent = agent_of(iqn={"noisy": True})
    policy, weights = policy_of([agent])
    moment = moment_of([agent], worlds=5)

    first = policy.act(moment).values.copy()
    again = policy.act(moment).values.copy()
    policy.begin_round(weights, 2)
    second = policy.act(moment).values.copy()
    policy.begin_round(weights, 1)
    repeated = policy.act(moment).values.copy()

    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, repeated)


@pytest.mark.shows("A1", "D8")
def test_noisy_agents_with_the_same_weights_are_shaken_differently():
    agents = [agent_of(i, iqn={"noisy": True}) for i in range(2)]
    policy, weights = policy_of(agents)
    policy.begin_round([weights[0], weights[0]], 1)
    moment = moment_of(agents, worlds=5)
    moment.seen = [moment.seen[0], moment.seen[0]]

    choice = policy.act(moment)

    assert not np.array_equal(choice.values[0], choice.values[1])


def test_a_policy_keeps_the_weights_of_its_round_whatever_becomes_of_the_array():
    agent = agent_of()
    policy, weights = policy_of([agent])
    moment = moment_of([agent], worlds=5)
    before = policy.act(moment).values.copy()

    weights[0][...] = 0

    assert np.array_equal(policy.act(moment).values, before)

"""PPO: its rounds against a plain implementation, and how it acts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rookery.actor.policies import exploration_of
from rookery.algorithms.base import PolicyInput
from rookery.algorithms.common.rollout import advantages_of, successors_of
from rookery.algorithms.ppo import PPO
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import (
    SEED,
    TURNS,
    WORLDS,
    Experience,
    GroupTrainer,
    agent_of,
    same_bits,
    spec_of,
)

# A plain implementation: transitions are read from rows one by one, without padding.


def plain_transitions(experience, first):
    """Return the transitions that close from turn `first` on, in the order they opened."""
    transitions = []
    for turn in range(experience.turn):
        for world in range(experience.worlds):
            step = plain_transition(experience, turn, world)
            if step is not None and first <= step.closes < experience.turn:
                transitions.append(step)
    return transitions


def plain_transition(experience, turn, world):
    columns = experience.rows.columns
    if not columns["active"][turn, world]:
        return None
    discount, total, then = experience.agent.settings.discount, 0.0, turn
    while True:
        total += discount ** (then - turn) * float(columns["reward"][then, world])
        ended = bool(columns["terminated"][then, world])
        over = ended or bool(columns["truncated"][then, world])
        then += 1
        if then >= experience.turn:
            return None
        if over or columns["active"][then, world]:
            break
    return SimpleNamespace(
        turn=turn,
        world=world,
        closes=then,
        reward=total,
        discount=0.0 if ended else discount ** (then - turn),
        obs=plain_observation(experience, turn, world),
        next_obs=plain_observation(experience, then, world),
        action=int(columns["action"][turn, world]),
        old_log_prob=float(np.log(columns["probability"][turn, world])),
        legal=columns["legal"][turn, world] if "legal" in columns else None,
    )


def plain_observation(experience, turn, world):
    """Return the newest two rows as one vector: view, scaled, then self."""
    columns = experience.rows.columns
    whole = []
    for name, scale in (("part.view", 1 / 255), ("part.self", 1.0)):
        newest = columns[name][turn, world].astype(np.float64).ravel() * scale
        older = np.zeros_like(newest)
        if columns["age"][turn, world] > 0:
            older = columns[name][turn - 1, world].astype(np.float64).ravel() * scale
        whole += [older, newest]
    return torch.tensor(np.concatenate(whole), dtype=torch.float32)


class PlainPpo:
    """PPO with torch's Adam."""

    def __init__(self, agent, weights):
        self.settings = agent.settings
        self.weights = {
            name: torch.tensor(np.array(array)).requires_grad_()
            for name, array in weights.items()
        }
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=self.settings.learning_rate
        )

    def forward(self, inputs, legal=None):
        """Return the log probabilities of actions and the value of one observation."""
        hidden, weights = inputs, self.weights
        for i in range(self.settings.network.depth):
            hidden = torch.tanh(
                hidden @ weights[f"read.{i}.weight"] + weights[f"read.{i}.bias"][0]
            )
        logits = hidden @ weights["choose.weight"] + weights["choose.bias"][0]
        if legal is not None:
            logits = torch.where(torch.tensor(legal), logits, -torch.inf)
        value = hidden @ weights["value.weight"] + weights["value.bias"][0]
        return torch.log_softmax(logits, dim=0), value[0]

    @torch.no_grad()
    def compute_advantages(self, steps):
        """Give transitions their advantages and returns."""
        by_row = {(step.turn, step.world): step for step in steps}
        for step in reversed(steps):
            value, next_value = (
                self.forward(inputs)[1].item() for inputs in (step.obs, step.next_obs)
            )
            raw = step.reward + step.discount * next_value - value
            successor = by_row.get((step.closes, step.world))
            if successor is not None:
                raw += step.discount * self.settings.ppo.gae * successor.raw
            step.raw, step.value_target = raw, value + raw
        raws = np.array([step.raw for step in steps])
        for step in steps:
            step.advantage = (step.raw - raws.mean()) / (raws.std() + 1e-8)

    def update(self, steps):
        """Make one update; return the loss."""
        ppo, total = self.settings.ppo, torch.tensor(0.0)
        for step in steps:
            log_probs, value = self.forward(step.obs, step.legal)
            ratio = (log_probs[step.action] - step.old_log_prob).exp()
            gain = ratio * step.advantage
            if step.advantage > 0 and ratio > 1 + ppo.clip:
                gain = torch.tensor((1 + ppo.clip) * step.advantage)
            if step.advantage < 0 and ratio < 1 - ppo.clip:
                gain = torch.tensor((1 - ppo.clip) * step.advantage)
            finite = log_probs[torch.isfinite(log_probs)]
            entropy = -(finite.exp() * finite).sum()
            total = total - gain - ppo.entropy * entropy
            total = total + ppo.value * (step.value_target - value) ** 2
        loss = total / len(steps)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.gradient.clip)
        self.optimizer.step()
        return loss.item()

    def learn(self, steps, number, agent, slots):
        """Learn a round; return the mean loss of its updates."""
        self.compute_advantages(steps)
        ppo, updates = self.settings.ppo, []
        size = -(-slots // ppo.minibatches)
        for k in range(ppo.passes):
            stream = Stream(SEED, Purpose.LEARNER)
            drawn = stream.bits((agent, number, k), 0, slots)[0]
            shuffled = sorted(range(slots), key=lambda slot: drawn[slot])
            for start in range(0, size * ppo.minibatches, size):
                used = [i for i in shuffled[start : start + size] if i < len(steps)]
                updates.append(self.update([steps[i] for i in used]))
        return np.mean(updates)


CASES = {
    "as shipped": {},
    "one minibatch": {"ppo": {"passes": 1, "minibatches": 1}},
    "odd minibatches": {"ppo": {"minibatches": 5}},
    "tight clip": {"ppo": {"clip": 0.01, "passes": 3}},
    "no entropy": {"ppo": {"entropy": 0.0}},
    "much entropy": {"ppo": {"entropy": 0.5}},
    "higher value weight": {"ppo": {"value": 2.0}},
    "lambda 0": {"ppo": {"gae": 0.0}},
    "lambda 1": {"ppo": {"gae": 1.0}, "discount": 0.9},
    "deep and odd": {"network": {"width": 13, "depth": 3}},
    "clipped gradients": {"gradient": {"clip": 0.05}},
    "masked": {},
}


@pytest.mark.parametrize(("name", "settings"), CASES.items(), ids=CASES)
def test_rounds_are_those_of_a_plain_implementation(name, settings):
    agent = agent_of(3, spec_of(3, masked=name == "masked"), learning_rate=1e-3, **settings)
    trainer = GroupTrainer(PPO, [agent])
    parameters, experience = trainer.learner.network.parameters, trainer.experiences[0]
    plain = PlainPpo(agent, parameters.unpadded(trainer.states[0]["weights"]))
    updates = agent.settings.ppo.passes * agent.settings.ppo.minibatches
    for number in (1, 2):
        (metrics,) = trainer.train()
        steps = plain_transitions(experience, experience.first)
        loss = plain.learn(steps, number, agent=3, slots=TURNS * WORLDS)

        assert metrics["updates"] == updates
        assert len(steps) < TURNS * WORLDS
        assert metrics["loss"] == pytest.approx(loss, rel=1e-3, abs=1e-5)
    for key, array in parameters.unpadded(trainer.states[0]["weights"]).items():
        expected = plain.weights[key].detach().numpy()
        assert np.allclose(array, expected, rtol=0, atol=2e-5), key
    assert trainer.states[0]["counters"].tolist() == [2 * updates, 0]


def test_transitions_that_opened_in_the_round_before_are_learned_from_once():
    trainer = GroupTrainer(PPO, [agent_of()])
    experience = trainer.experiences[0]

    trainer.train()
    early = {
        (step.turn, step.world) for step in plain_transitions(experience, experience.first)
    }
    trainer.train()
    late = {
        (step.turn, step.world) for step in plain_transitions(experience, experience.first)
    }

    transitions = np.sort(experience.reader.closed_since(experience.first))
    assert {divmod(int(each), WORLDS) for each in transitions} == late
    assert not early & late
    assert any(turn < experience.first for turn, _ in late)


@pytest.mark.parametrize("tamper", [1, 5])
def test_rows_in_which_an_agent_is_out_do_not_matter(tamper):
    agent = agent_of(spec=spec_of(masked=True), frames=1)
    plain, tampered = GroupTrainer(PPO, [agent]), GroupTrainer(PPO, [agent])

    plain.train(rounds=3)
    tampered.train(rounds=3, tamper=tamper)

    columns = [
        trainer.experiences[0].rows.columns["part.self"] for trainer in (plain, tampered)
    ]
    assert not np.array_equal(*columns)
    assert same_bits(plain.states[0], tampered.states[0])


def test_a_round_without_transitions_changes_nothing():
    agent = agent_of()
    trainer = GroupTrainer(PPO, [agent])
    before = trainer.states[0]

    (metrics,) = trainer.learn(first=0)

    assert metrics["updates"] == 0
    assert same_bits(trainer.states[0], before)


@pytest.mark.shows("A1")
def test_a_minibatch_without_transitions_changes_no_bit():
    slots = TURNS * WORLDS
    one_each = {"passes": 1, "minibatches": slots}
    trainer = GroupTrainer(PPO, [agent_of(i, ppo=one_each) for i in range(2)])
    trainer.train()  # there are policy_inputs now, which would move weights
    group, updates = trainer.learner.group, []
    apply = group.apply

    def watched(losses, active):
        before = trainer.states
        norms = apply(losses, active)
        for i, (old, new) in enumerate(zip(before, trainer.states, strict=True)):
            updates.append((i, bool(active[i]), same_bits(old, new)))
        return norms

    group.apply = watched
    metrics = trainer.train()

    assert len(updates) == 2 * slots
    assert all(active != same for _, active, same in updates)
    for i, experience in enumerate(trainer.experiences):
        count = len(experience.reader.closed_since(experience.first))
        assert 0 < count < slots
        assert sum(active for agent, active, _ in updates if agent == i) == count
        assert metrics[i]["updates"] == count


def test_metrics_are_means_over_transitions_without_unused_slots():
    agent = agent_of(ppo={"passes": 1, "minibatches": 1})
    trainer = GroupTrainer(PPO, [agent])
    weights = trainer.learner.network.parameters.unpadded(trainer.states[0]["weights"])
    plain = PlainPpo(agent, weights)

    (metrics,) = trainer.train()

    steps = plain_transitions(trainer.experiences[0], 0)
    plain.compute_advantages(steps)
    errors = np.mean([abs(step.raw) for step in steps])
    values = np.mean([step.value_target - step.raw for step in steps])
    assert metrics["td_error"] == pytest.approx(errors, rel=1e-3)
    assert metrics["q_value"] == pytest.approx(values, rel=1e-3)


def test_standardised_rewards_change_what_ppo_learns():
    standardised = GroupTrainer(PPO, [agent_of(reward={"standardise": True})])
    plain = GroupTrainer(PPO, [agent_of()])

    standardised.train(rounds=2)
    plain.train(rounds=2)

    assert not same_bits(standardised.states[0], plain.states[0])


# Advantages.


def test_advantages_by_hand():
    # One world; transitions open at 0, 1 and 4, and close at 1, 4 and 5.
    result = advantages_of(
        successors_of(np.array([0, 1, 4]), np.array([1, 4, 5]), np.array([0, 0, 0])),
        np.array([1.0, 2.0, 4.0]),
        np.array([0.5, 0.5, 0.5]),
    )

    assert result.tolist() == [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]


def test_advantages_never_cross_worlds_or_ends():
    # World 0: 0 → 1 ends there (decay 0); world 1: 0 → 1 continues.
    result = advantages_of(
        successors_of(
            np.array([0, 0, 1, 1]), np.array([1, 1, 2, 2]), np.array([0, 1, 0, 1])
        ),
        np.array([1.0, 10.0, 100.0, 1000.0]),
        np.array([0.0, 0.5, 0.5, 0.5]),
    )

    assert result.tolist() == [1, 510, 100, 1000]


# Acting.


def policy_of(agents):
    learner, policy = PPO.learner(agents, SEED), PPO.policy(agents, SEED)
    weights = [learner.initial(agent)["weights"] for agent in agents]
    policy.begin_round(weights, 1)
    return policy, weights


def make_input(agent, worlds, exploration=1.0, legal=None, data_seed=0):
    experience = Experience(agent, data_seed, worlds=worlds)
    experience.play_round()
    turns = np.full(worlds, experience.turn - 1)
    observations = experience.reader.observations(turns, np.arange(worlds))
    draws = np.random.default_rng(data_seed).random((1, worlds, 2))
    return PolicyInput([observations], [legal], draws, np.array([exploration]))


def plain_probabilities(agent, weights, policy_input, policy):
    """Return the probabilities of all actions by the plain implementation."""
    plain = PlainPpo(agent, policy.network.parameters.unpadded(weights))
    rows = []
    for world in range(policy_input.draws.shape[1]):
        view = policy_input.observations[0]["view"][world].astype(np.float64).ravel() / 255
        inputs = np.concatenate([view, policy_input.observations[0]["self"][world].ravel()])
        legal = None if policy_input.legal[0] is None else policy_input.legal[0][world]
        log_probs, _ = plain.forward(torch.tensor(inputs, dtype=torch.float32), legal)
        rows.append(log_probs.detach().exp().numpy())
    return np.array(rows)


def random_legal(worlds, actions=5):
    rng = np.random.default_rng(0)
    legal = rng.random((worlds, actions)) < 0.4
    legal[np.arange(worlds), rng.integers(actions, size=worlds)] = True
    return legal


@pytest.mark.parametrize("masked", [False, True])
def test_probabilities_and_entropies_are_those_of_the_network(masked):
    agent = agent_of(spec=spec_of(masked=masked))
    policy, weights = policy_of([agent])
    policy_input = make_input(agent, 30, legal=random_legal(30) if masked else None)

    output = policy.act(policy_input)

    probabilities = plain_probabilities(agent, weights[0], policy_input, policy)
    taken = probabilities[np.arange(30), output.actions[0]]
    logs = np.log(np.maximum(probabilities, 1e-30))
    assert output.probabilities[0] == pytest.approx(taken, rel=1e-4)
    assert output.entropies[0] == pytest.approx(
        -(probabilities * logs).sum(axis=1), abs=1e-4
    )


def test_actions_are_taken_as_often_as_their_probabilities_say():
    agent = agent_of()
    policy, weights = policy_of([agent])
    policy_input = make_input(agent, 1)
    (probabilities,) = plain_probabilities(agent, weights[0], policy_input, policy)
    worlds = 4_000
    policy_input.observations = [
        {
            name: np.repeat(a, worlds, axis=0)
            for name, a in policy_input.observations[0].items()
        }
    ]
    policy_input.draws = np.random.default_rng(0).random((1, worlds, 2))

    actions = policy.act(policy_input).actions[0]

    assert np.bincount(actions, minlength=5) / worlds == pytest.approx(
        probabilities, abs=0.03
    )


@pytest.mark.parametrize(("draw", "expected"), [(0.0, "first"), (1 - 2**-32, "last")])
def test_the_smallest_and_the_largest_draw_take_the_first_and_last_action(draw, expected):
    agent = agent_of()
    policy, _ = policy_of([agent])
    policy_input = make_input(agent, 50)
    policy_input.draws = np.full((1, 50, 2), draw)

    actions = policy.act(policy_input).actions[0]

    assert set(actions.tolist()) == {0 if expected == "first" else 4}


@pytest.mark.parametrize(
    "draw", [None, 0.0, 1 - 2**-32], ids=["any", "smallest", "largest"]
)
@pytest.mark.parametrize("exploration", [0.0, 1.0])
def test_illegal_actions_are_never_taken(draw, exploration):
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = random_legal(300)
    policy_input = make_input(agent, 300, exploration, legal)
    if draw is not None:
        policy_input.draws = np.full((1, 300, 2), draw)

    output = policy.act(policy_input)

    assert legal[np.arange(300), output.actions[0]].all()
    assert (output.probabilities > 0).all()


def test_without_exploration_the_most_likely_action_is_taken():
    agent = agent_of()
    policy, weights = policy_of([agent])
    policy_input = make_input(agent, 30, exploration=0.0)

    output = policy.act(policy_input)

    probabilities = plain_probabilities(agent, weights[0], policy_input, policy)
    assert output.actions[0].tolist() == probabilities.argmax(axis=1).tolist()


def test_ppo_keeps_sampling_when_epsilon_has_reached_0():
    # PPO does not use epsilon; one that ends at 0 must not make it greedy.
    agent = agent_of(algorithm="ppo", epsilon={"end": 0.0, "steps": 1})
    agent = replace(agent, algorithm=PPO, learns=True)

    assert exploration_of(agent, steps=10**6) > 0

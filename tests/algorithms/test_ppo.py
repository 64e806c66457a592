"""PPO: its rounds against a plain implementation, and how it acts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rookery.actor.policies import exploration_of
from rookery.algorithms.base import PolicyInput
from rookery.algorithms.common.rollout import advantages_of
from rookery.algorithms.ppo import PPO
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import (
    SEED,
    TURNS,
    WORLDS,
    Crew,
    Life,
    agent_of,
    same_bits,
    spec_of,
)

# A plain implementation: rows become steps one by one, without padding.


def plain_steps(life, first):
    """Return the steps that close from turn `first` on, in the order they opened."""
    found = []
    for turn in range(life.turn):
        for world in range(life.worlds):
            step = plain_step(life, turn, world)
            if step is not None and first <= step.closes < life.turn:
                found.append(step)
    return found


def plain_step(life, turn, world):
    columns = life.rows.columns
    if not columns["active"][turn, world]:
        return None
    discount, total, then = life.agent.settings.discount, 0.0, turn
    while True:
        total += discount ** (then - turn) * float(columns["reward"][then, world])
        ended = bool(columns["terminated"][then, world])
        over = ended or bool(columns["truncated"][then, world])
        then += 1
        if then >= life.turn:
            return None
        if over or columns["active"][then, world]:
            break
    return SimpleNamespace(
        turn=turn,
        world=world,
        closes=then,
        gained=total,
        discount=0.0 if ended else discount ** (then - turn),
        now=plain_look(life, turn, world),
        next=plain_look(life, then, world),
        action=int(columns["action"][turn, world]),
        old_log=float(np.log(columns["probability"][turn, world])),
        legal=columns["legal"][turn, world] if "legal" in columns else None,
    )


def plain_look(life, turn, world):
    """Return the newest two rows as one vector: view, scaled, then self."""
    columns = life.rows.columns
    whole = []
    for name, scale in (("part.view", 1 / 255), ("part.self", 1.0)):
        newest = columns[name][turn, world].astype(np.float64).ravel() * scale
        older = np.zeros_like(newest)
        if columns["age"][turn, world] > 0:
            older = columns[name][turn - 1, world].astype(np.float64).ravel() * scale
        whole += [older, newest]
    return torch.tensor(np.concatenate(whole), dtype=torch.float32)


class PlainPpo:
    """PPO with torch's own Adam."""

    def __init__(self, agent, weights):
        self.settings = agent.settings
        self.weights = {
            name: torch.tensor(np.array(array)).requires_grad_()
            for name, array in weights.items()
        }
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=self.settings.learning_rate
        )

    def look(self, inputs, legal=None):
        """Return log-probabilities of actions and the value of one observation."""
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
    def judge(self, steps):
        """Give steps their advantages and targets, by the state a round starts from."""
        by_place = {(step.turn, step.world): step for step in steps}
        for step in reversed(steps):
            value, after = (self.look(seen)[1].item() for seen in (step.now, step.next))
            raw = step.gained + step.discount * after - value
            follower = by_place.get((step.closes, step.world))
            if follower is not None:
                raw += step.discount * self.settings.ppo.gae * follower.raw
            step.raw, step.target = raw, value + raw
        every = np.array([step.raw for step in steps])
        for step in steps:
            step.advantage = (step.raw - every.mean()) / (every.std() + 1e-8)

    def update(self, steps):
        """Take one step of the optimizer; return the loss."""
        ppo, total = self.settings.ppo, torch.tensor(0.0)
        for step in steps:
            logs, value = self.look(step.now, step.legal)
            ratio = (logs[step.action] - step.old_log).exp()
            gain = ratio * step.advantage
            if step.advantage > 0 and ratio > 1 + ppo.clip:
                gain = torch.tensor((1 + ppo.clip) * step.advantage)
            if step.advantage < 0 and ratio < 1 - ppo.clip:
                gain = torch.tensor((1 - ppo.clip) * step.advantage)
            sure = logs[torch.isfinite(logs)]
            entropy = -(sure.exp() * sure).sum()
            total = total - gain - ppo.entropy * entropy
            total = total + ppo.value * (step.target - value) ** 2
        loss = total / len(steps)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.gradient.clip)
        self.optimizer.step()
        return loss.item()

    def learn(self, steps, number, agent, places):
        """Learn a round; return the mean loss of its updates."""
        self.judge(steps)
        ppo, found = self.settings.ppo, []
        size = -(-places // ppo.minibatches)
        for one in range(ppo.passes):
            stream = Stream(SEED, Purpose.LEARNER)
            drawn = stream.bits((agent, number, one), 0, places)[0]
            shuffled = sorted(range(places), key=lambda place: drawn[place])
            for start in range(0, size * ppo.minibatches, size):
                chosen = shuffled[start : start + size]
                found.append(self.update([steps[i] for i in chosen if i < len(steps)]))
        return np.mean(found)


CASES = {
    "as shipped": {},
    "one minibatch": {"ppo": {"passes": 1, "minibatches": 1}},
    "odd minibatches": {"ppo": {"minibatches": 5}},
    "clipped often": {"ppo": {"clip": 0.01, "passes": 3}},
    "no entropy": {"ppo": {"entropy": 0.0}},
    "much entropy": {"ppo": {"entropy": 0.5}},
    "values weigh more": {"ppo": {"value": 2.0}},
    "no tail": {"ppo": {"gae": 0.0}},
    "whole tail": {"ppo": {"gae": 1.0}, "discount": 0.9},
    "deep and odd": {"network": {"width": 13, "depth": 3}},
    "small gradients": {"gradient": {"clip": 0.05}},
    "masked": {},
}


@pytest.mark.parametrize(("name", "chosen"), CASES.items(), ids=CASES)
def test_rounds_are_those_of_a_plain_implementation(name, chosen):
    agent = agent_of(3, spec_of(3, masked=name == "masked"), learning_rate=1e-3, **chosen)
    crew = Crew(PPO, [agent])
    parameters, life = crew.learner.network.parameters, crew.lives[0]
    plain = PlainPpo(agent, parameters.real(crew.states[0]["weights"]))
    updates = agent.settings.ppo.passes * agent.settings.ppo.minibatches
    for number in (1, 2):
        (metrics,) = crew.train()
        steps = plain_steps(life, life.first)
        loss = plain.learn(steps, number, agent=3, places=TURNS * WORLDS)

        assert metrics["updates"] == updates
        assert len(steps) < TURNS * WORLDS
        assert metrics["loss"] == pytest.approx(loss, rel=1e-3, abs=1e-5)
    for key, real in parameters.real(crew.states[0]["weights"]).items():
        expected = plain.weights[key].detach().numpy()
        assert np.allclose(real, expected, rtol=0, atol=2e-5), key
    assert crew.states[0]["counters"].tolist() == [2 * updates, 0]


def test_steps_that_opened_in_the_round_before_are_learned_from_once():
    crew = Crew(PPO, [agent_of()])
    life = crew.lives[0]

    crew.train()
    early = {(step.turn, step.world) for step in plain_steps(life, life.first)}
    crew.train()
    late = {(step.turn, step.world) for step in plain_steps(life, life.first)}

    steps = np.sort(life.reader.closed_since(life.first))
    assert {divmod(int(step), WORLDS) for step in steps} == late
    assert not early & late
    assert any(turn < life.first for turn, _ in late)


@pytest.mark.parametrize("tamper", [1, 5])
def test_what_is_written_while_an_agent_is_out_weighs_nothing(tamper):
    agent = agent_of(spec=spec_of(masked=True), frames=1)
    one, other = Crew(PPO, [agent]), Crew(PPO, [agent])

    one.train(rounds=3)
    other.train(rounds=3, tamper=tamper)

    columns = [crew.lives[0].rows.columns["part.self"] for crew in (one, other)]
    assert not np.array_equal(*columns)
    assert same_bits(one.states[0], other.states[0])


def test_a_round_without_steps_changes_nothing():
    agent = agent_of()
    crew = Crew(PPO, [agent])
    before = crew.states[0]

    (metrics,) = crew.learn(first=0)

    assert metrics["updates"] == 0
    assert same_bits(crew.states[0], before)


@pytest.mark.shows("A1")
def test_a_minibatch_without_a_step_leaves_every_bit_as_it_was():
    places = TURNS * WORLDS
    one_each = {"passes": 1, "minibatches": places}
    crew = Crew(PPO, [agent_of(i, ppo=one_each) for i in range(2)])
    crew.train()  # there are moments now, which would move weights
    group, kept = crew.learner.group, []
    step = group.apply

    def watched(gradients, loss, active):
        before = crew.states
        norms = step(gradients, loss, active)
        for i, (old, new) in enumerate(zip(before, crew.states, strict=True)):
            kept.append((i, bool(active[i]), same_bits(old, new)))
        return norms

    group.apply = watched
    metrics = crew.train()

    assert len(kept) == 2 * places
    assert all(active != same for _, active, same in kept)
    for i, life in enumerate(crew.lives):
        steps = len(life.reader.closed_since(life.first))
        assert 0 < steps < places
        assert sum(active for agent, active, _ in kept if agent == i) == steps
        assert metrics[i]["updates"] == steps


def test_metrics_tell_of_the_steps_and_not_of_unused_places():
    agent = agent_of(ppo={"passes": 1, "minibatches": 1})
    crew = Crew(PPO, [agent])
    real = crew.learner.network.parameters.real(crew.states[0]["weights"])
    plain = PlainPpo(agent, real)

    (metrics,) = crew.train()

    steps = plain_steps(crew.lives[0], 0)
    plain.judge(steps)
    wrong = np.mean([abs(step.raw) for step in steps])
    values = np.mean([step.target - step.raw for step in steps])
    assert metrics["td_error"] == pytest.approx(wrong, rel=1e-3)
    assert metrics["q_value"] == pytest.approx(values, rel=1e-3)


def test_standardising_rewards_makes_a_difference_to_ppo_too():
    calm = Crew(PPO, [agent_of(reward={"standardise": True})])
    plain = Crew(PPO, [agent_of()])

    calm.train(rounds=2)
    plain.train(rounds=2)

    assert not same_bits(calm.states[0], plain.states[0])


# Advantages.


def test_advantages_by_hand():
    # One world; steps open at 0, 1 and 4 and close at 1, 4 and 5, where nothing opens.
    found = advantages_of(
        np.array([0, 1, 4]),
        np.array([1, 4, 5]),
        np.array([0, 0, 0]),
        np.array([1.0, 2.0, 4.0]),
        np.array([0.5, 0.5, 0.5]),
    )

    assert found.tolist() == [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]


def test_advantages_never_cross_worlds_or_ends():
    # World 0: 0 → 1 ends there (decay 0); world 1: 0 → 1 goes on.
    found = advantages_of(
        np.array([0, 0, 1, 1]),
        np.array([1, 1, 2, 2]),
        np.array([0, 1, 0, 1]),
        np.array([1.0, 10.0, 100.0, 1000.0]),
        np.array([0.0, 0.5, 0.5, 0.5]),
    )

    assert found.tolist() == [1, 510, 100, 1000]


# Acting.


def policy_of(agents):
    learner, policy = PPO.learner(agents, SEED), PPO.policy(agents, SEED)
    weights = [learner.initial(agent)["weights"] for agent in agents]
    policy.begin_round(weights, 1)
    return policy, weights


def moment_of(agent, worlds, exploration=1.0, legal=None, luck=0):
    life = Life(agent, luck, worlds=worlds)
    life.live()
    seen = life.reader.observations(np.full(worlds, life.turn - 1), np.arange(worlds))
    draws = np.random.default_rng(luck).random((1, worlds, 2))
    return PolicyInput([seen], [legal], draws, np.array([exploration]))


def chances_of(agent, weights, moment, policy):
    """Return the probabilities of all actions by the plain implementation."""
    plain = PlainPpo(agent, policy.network.parameters.real(weights))
    found = []
    for world in range(moment.draws.shape[1]):
        view = moment.seen[0]["view"][world].astype(np.float64).ravel() / 255
        inputs = np.concatenate([view, moment.seen[0]["self"][world].ravel()])
        legal = None if moment.legal[0] is None else moment.legal[0][world]
        logs, _ = plain.look(torch.tensor(inputs, dtype=torch.float32), legal)
        found.append(logs.detach().exp().numpy())
    return np.array(found)


def some_legal(worlds, actions=5):
    probability = np.random.default_rng(0)
    legal = probability.random((worlds, actions)) < 0.4
    legal[np.arange(worlds), probability.integers(actions, size=worlds)] = True
    return legal


@pytest.mark.parametrize("masked", [False, True])
def test_probabilities_and_entropies_are_those_of_the_network(masked):
    agent = agent_of(spec=spec_of(masked=masked))
    policy, weights = policy_of([agent])
    moment = moment_of(agent, 30, legal=some_legal(30) if masked else None)

    choice = policy.act(moment)

    probabilities = chances_of(agent, weights[0], moment, policy)
    taken = probabilities[np.arange(30), choice.actions[0]]
    logs = np.log(np.maximum(probabilities, 1e-30))
    assert choice.probabilities[0] == pytest.approx(taken, rel=1e-4)
    assert choice.entropies[0] == pytest.approx(
        -(probabilities * logs).sum(axis=1), abs=1e-4
    )


def test_actions_are_taken_as_often_as_their_probabilities_say():
    agent = agent_of()
    policy, weights = policy_of([agent])
    moment = moment_of(agent, 1)
    (probabilities,) = chances_of(agent, weights[0], moment, policy)
    worlds = 4_000
    moment.seen = [
        {name: np.repeat(a, worlds, axis=0) for name, a in moment.seen[0].items()}
    ]
    moment.draws = np.random.default_rng(0).random((1, worlds, 2))

    actions = policy.act(moment).actions[0]

    assert np.bincount(actions, minlength=5) / worlds == pytest.approx(
        probabilities, abs=0.03
    )


@pytest.mark.parametrize(("draw", "expected"), [(0.0, "first"), (1 - 2**-32, "last")])
def test_the_smallest_and_the_largest_draw_take_the_first_and_last_action(draw, expected):
    agent = agent_of()
    policy, _ = policy_of([agent])
    moment = moment_of(agent, 50)
    moment.draws = np.full((1, 50, 2), draw)

    actions = policy.act(moment).actions[0]

    assert set(actions.tolist()) == {0 if expected == "first" else 4}


@pytest.mark.parametrize(
    "draw", [None, 0.0, 1 - 2**-32], ids=["any", "smallest", "largest"]
)
@pytest.mark.parametrize("exploration", [0.0, 1.0])
def test_illegal_actions_are_never_taken(draw, exploration):
    agent = agent_of(spec=spec_of(masked=True))
    policy, _ = policy_of([agent])
    legal = some_legal(300)
    moment = moment_of(agent, 300, exploration, legal)
    if draw is not None:
        moment.draws = np.full((1, 300, 2), draw)

    choice = policy.act(moment)

    assert legal[np.arange(300), choice.actions[0]].all()
    assert (choice.probabilities > 0).all()


def test_without_exploration_the_likeliest_action_is_taken():
    agent = agent_of()
    policy, weights = policy_of([agent])
    moment = moment_of(agent, 30, exploration=0.0)

    choice = policy.act(moment)

    probabilities = chances_of(agent, weights[0], moment, policy)
    assert choice.actions[0].tolist() == probabilities.argmax(axis=1).tolist()


def test_ppo_goes_on_drawing_when_epsilon_has_run_out():
    # Epsilon is no setting of PPO's; one that ends at 0 must not make it greedy.
    agent = agent_of(algorithm="ppo", epsilon={"end": 0.0, "steps": 1})
    agent = replace(agent, algorithm=PPO, learns=True)

    assert exploration_of(agent, steps=10**6) > 0

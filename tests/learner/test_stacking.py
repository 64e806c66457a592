"""Stacked agents get the same bits as on their own, in any group."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from rookery.actor.policies import PolicyRunner, by_agent
from rookery.algorithms.base import PolicyInput
from rookery.algorithms.dqn import DQN
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.iqn import IQN, IqnPolicy
from rookery.algorithms.ppo import PPO
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.algorithms.vtrace import VTRACE
from rookery.specs import Part
from tests.algorithms.conftest import (
    PARTS,
    SEED,
    WORLDS,
    Experience,
    GroupTrainer,
    agent_of,
    same_bits,
    spec_of,
)

ME = 3
"""The number of the agent that is compared."""
BOTH = pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])

GRID = {"view": Part((3, 4, 5), np.dtype(np.uint8), scale=1 / 255), "self": PARTS["self"]}
# Name to algorithm, settings and spec.
CASES = {
    "iqn": (IQN, {}, {}),
    "iqn, 13 wide": (
        IQN,
        {"network": {"width": 13, "quantiles": 3}, "batch_size": 7},
        {"actions": 2},
    ),
    "iqn, 50 wide, masked": (
        IQN,
        {"network": {"width": 50, "depth": 2}, "batch_size": 5},
        {"masked": True, "actions": 17},
    ),
    "iqn, noisy": (IQN, {"network": {"width": 50}, "iqn": {"noisy": True}}, {}),
    "iqn, prioritised": (
        IQN,
        {"replay": {"kind": "prioritised"}, "network": {"width": 13}},
        {"masked": True},
    ),
    "iqn, plain": (
        IQN,
        {"iqn": {"double": False, "dueling": False}, "network": {"quantiles": 1}},
        {},
    ),
    "iqn, accumulating": (IQN, {"gradient": {"accumulate": 3}}, {}),
    "iqn, as shipped": (
        IQN,
        {
            "network": {"width": 128, "quantiles": 8},
            "batch_size": 64,
            "replay": {"capacity": 200},
        },
        {},
    ),
    "iqn, convolution": (IQN, {"network": {"channels": 16, "width": 13}}, {"parts": GRID}),
    "dqn": (DQN, {}, {}),
    "dqn, by a softmax": (DQN, {"epsilon": {"temperature": 0.1}}, {"actions": 7}),
    "dqn, 13 wide, plain": (
        DQN,
        {
            "network": {"width": 13},
            "dqn": {"double": False, "dueling": False},
            "batch_size": 7,
        },
        {"actions": 2},
    ),
    "dqn, noisy, prioritised": (
        DQN,
        {
            "network": {"width": 50, "depth": 2},
            "dqn": {"noisy": True},
            "replay": {"kind": "prioritised"},
        },
        {"masked": True, "actions": 17},
    ),
    "dqn, retrace": (DQN, {"dqn": {"retrace": 0.9}, "n_step": 3}, {"masked": True}),
    "iqn, retrace": (
        IQN,
        {"iqn": {"retrace": 0.9}, "n_step": 3, "network": {"quantiles": 3}},
        {"actions": 3},
    ),
    "ppo": (PPO, {}, {}),
    "ppo, convolution": (PPO, {"network": {"channels": 16, "width": 50}}, {"parts": GRID}),
    "ppo, 13 wide": (PPO, {"network": {"width": 13}, "ppo": {"minibatches": 5}}, {}),
    "ppo, 50 wide, masked": (
        PPO,
        {"network": {"width": 50, "depth": 2}},
        {"masked": True, "actions": 17},
    ),
    "vtrace": (VTRACE, {}, {}),
    "vtrace, 13 wide, masked": (
        VTRACE,
        {"network": {"width": 13}, "vtrace": {"minibatches": 3}},
        {"masked": True},
    ),
    "recurrent dqn": (RECURRENT_DQN, {}, {}),
    "recurrent dqn, prioritised, masked": (
        RECURRENT_DQN,
        {
            "network": {"width": 13},
            "recurrent": {"width": 48},
            "replay": {"kind": "prioritised"},
            "dqn": {"noisy": True},
            "batch_size": 7,
        },
        {"masked": True, "actions": 17},
    ),
    "recurrent dqn, one sequence": (
        RECURRENT_DQN,
        {"recurrent": {"width": 48, "sequence": 12}, "batch_size": 1},
        {},
    ),
    "recurrent ppo": (RECURRENT_PPO, {}, {}),
    "recurrent ppo, one sequence": (
        RECURRENT_PPO,
        {"recurrent": {"sequence": 12}, "ppo": {"minibatches": 3}},
        {},
    ),
    "recurrent ppo, 13 wide, masked": (
        RECURRENT_PPO,
        {"network": {"width": 13}, "recurrent": {"width": 48}, "ppo": {"minibatches": 5}},
        {"masked": True, "actions": 17},
    ),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)
# What agents of one group can differ in: given to the others, not to the one compared.
OTHERS = [
    {},
    {"learning_rate": 0.3, "discount": 0.5},
    {"updates_per_round": 1, "target": {"every": 2, "rate": 1.0}},
    {"replay": {"warmup": 50}, "gradient": {"clip": 1e-3}},
    {"updates_per_round": 7, "reward": {"standardise": True}},
    {"rate": {"schedule": "cosine", "updates": 3, "warmup": 2}},
    {"epsilon": {"end": 1.0}, "discount_per": "step"},
]


def agent_in(case, number, **changes):
    """Return an agent of a case, with changed settings."""
    _, settings, spec = CASES[case]
    merged = {
        name: {**settings.get(name, {}), **changes.get(name, {})}
        if isinstance(settings.get(name, changes.get(name)), dict)
        else changes.get(name, settings.get(name))
        for name in settings.keys() | changes.keys()
    }
    return agent_of(number, spec_of(number, **spec), **merged)


def group_of(case, size, position):
    """Return agents with the one compared at a position among others unlike it."""
    numbers = [number for number in range(size + 1) if number != ME][: size - 1]
    agents = [
        agent_in(case, number, **OTHERS[i % len(OTHERS)])
        for i, number in enumerate(numbers)
    ]
    agents.insert(position, agent_in(case, ME))
    return agents


def trained(case, agents, rounds=3, data_seed=None, worlds=WORLDS):
    trainer = GroupTrainer(CASES[case][0], agents, data_seed, worlds=worlds)
    trainer.train(rounds=rounds)
    return trainer.states


@cache
def trained_separately(case):
    (state,) = trained(case, [agent_in(case, ME)])
    return state


@cache
def trained_as_a_pair(case):
    return trained(case, [agent_in(case, 0), agent_in(case, ME)])


# Learning.


@pytest.mark.shows("A1", "A2")
@pytest.mark.parametrize(("size", "position"), [(2, 1), (3, 0), (8, 5)])
@EVERY_CASE
def test_an_agent_learns_the_same_stacked_as_on_its_own(case, size, position):
    separate = trained_separately(case)

    states = trained(case, group_of(case, size, position))

    assert separate["counters"][0] > 0
    assert same_bits(states[position], separate)


@pytest.mark.shows("A1", "A2")
@pytest.mark.parametrize("worlds", [1, 2, 5, 16])
@pytest.mark.parametrize("case", ["iqn, 13 wide", "dqn, 13 wide, plain", "ppo, 13 wide"])
def test_an_agent_learns_the_same_with_any_number_of_worlds(case, worlds):
    settings = {"batch_size": 4, "replay": {"warmup": 4, "capacity": 40 * worlds}}
    agents = [agent_in(case, number, **settings) for number in range(4)]

    (separate,) = trained(case, [agents[ME]], worlds=worlds)
    stacked = trained(case, agents, worlds=worlds)

    assert separate["counters"][0] > 0
    assert same_bits(stacked[ME], separate)


@pytest.mark.shows("A1", "A2")
@pytest.mark.parametrize(
    "case",
    ["iqn, 50 wide, masked", "iqn, prioritised", "iqn, noisy", "ppo, 50 wide, masked"],
)
def test_the_order_of_agents_changes_nothing(case):
    agents = group_of(case, 5, 2)
    order = [3, 0, 4, 2, 1]

    straight = trained(case, agents)
    mixed = trained(case, [agents[i] for i in order])

    for position, i in enumerate(order):
        assert same_bits(mixed[position], straight[i])


# Changes of the other agent: settings, and the seed of its data.
CHANGES = {
    "data": ({}, 9),
    "learning rate": ({"learning_rate": 0.5}, 0),
    "discount": ({"discount": 0.1}, 0),
    "clip": ({"gradient": {"clip": 1e-4}}, 0),
    "target": ({"target": {"every": 3, "rate": 1.0}}, 0),
    "rate": ({"rate": {"schedule": "linear", "updates": 2, "warmup": 1}}, 0),
    "updates": ({"updates_per_round": 6}, 0),
    "no updates": ({"updates_per_round": 0}, 0),
    "warm-up": ({"replay": {"warmup": 80}}, 0),
    "capacity": ({"replay": {"capacity": 30}}, 0),
    "rewards": ({"reward": {"standardise": True}}, 0),
    "everything": (
        {
            "learning_rate": 0.2,
            "discount": 0.3,
            "updates_per_round": 5,
            "target": {"every": 2},
            "gradient": {"clip": 0.1},
        },
        9,
    ),
}


@pytest.mark.shows("A1", "A2")
@pytest.mark.parametrize(("changes", "data_seed"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "case", ["iqn, 13 wide", "iqn, prioritised", "ppo, 50 wide, masked"]
)
def test_changing_one_agent_leaves_every_bit_of_another(case, changes, data_seed):
    before = trained_as_a_pair(case)

    agents = [agent_in(case, 0, **changes), agent_in(case, ME)]
    after = trained(case, agents, data_seed=[data_seed, 0])

    assert same_bits(after[1], before[1])


@pytest.mark.shows("A1", "A2")
@pytest.mark.parametrize("case", ["iqn, 13 wide", "iqn, noisy", "ppo, 50 wide, masked"])
def test_changing_one_agents_weights_leaves_every_bit_of_another(case):
    agents = [agent_in(case, 0), agent_in(case, ME)]
    trainers = [GroupTrainer(CASES[case][0], agents) for _ in range(2)]
    state, mine = trainers[1].states
    flat = state["weights"]
    flat[flat != 0] *= 100
    trainers[1].learner.load([state, mine])

    for trainer in trainers:
        trainer.train(rounds=3)

    assert not np.array_equal(
        trainers[0].states[0]["weights"], trainers[1].states[0]["weights"]
    )
    assert same_bits(trainers[0].states[1], trainers[1].states[1])


@pytest.mark.shows("A2", "D8")
@pytest.mark.parametrize("case", ["iqn, noisy", "ppo"])
def test_agents_with_different_numbers_learn_differently(case):
    # The same settings and the same experience, but different random numbers.
    algorithm, _, _ = CASES[case]
    agents = [agent_in(case, number) for number in (0, 1)]
    trainer = GroupTrainer(algorithm, agents)
    trainer.learner.load([trainer.learner.initial(agents[0])] * 2)
    trainer.experiences[1] = trainer.experiences[0]
    trainer.experiences[0].play_round()

    trainer.learn()

    assert not same_bits(*trainer.states)


@pytest.mark.shows("D8")
@EVERY_CASE
def test_learning_again_gives_the_same_bits_and_another_seed_does_not(case):
    agents = [agent_in(case, number) for number in range(2)]
    trainers = [GroupTrainer(CASES[case][0], agents, seed=seed) for seed in (1, 1, 2)]

    for trainer in trainers:
        trainer.train(rounds=3)

    for i in range(2):
        assert same_bits(trainers[0].states[i], trainers[1].states[i])
        assert not same_bits(trainers[0].states[i], trainers[2].states[i])


# Acting.


def input_of(case, agents, worlds):
    """Return what agents act on after a round of random experience."""
    algorithm, _, spec = CASES[case]
    observations, draws, legal, exploration, hidden = [], [], [], [], []
    for agent in agents:
        experience = Experience(
            agent, worlds=worlds, hidden=algorithm.learner.hidden(agent.settings)
        )
        experience.play_round()
        turns, all_worlds = np.full(worlds, experience.turn - 1), np.arange(worlds)
        observations.append(experience.reader.observations(turns, all_worlds))
        legal.append(
            experience.reader.at("legal", turns, all_worlds) if spec.get("masked") else None
        )
        draws.append(np.random.default_rng(agent.number).random((worlds, 2)))
        if algorithm.learner.hidden(agent.settings):
            hidden.append(experience.reader.at("hidden", turns, all_worlds))
        exploration.append(0.3 if agent.number == ME else 0.1 * agent.number)
    return PolicyInput(observations, legal, np.array(draws), np.array(exploration), hidden)


def outputs_of(case, agents, policy_input):
    """Return all arrays of each agent's policy output."""
    algorithm, *_ = CASES[case]
    learner, policy = algorithm.learner(agents, SEED), algorithm.policy(agents, SEED)
    policy.begin_round([learner.initial(agent)["weights"] for agent in agents], 5)
    output = policy.act(policy_input)
    names = ["actions", "probabilities", "values", "entropies"]
    names += ["hidden"] if policy_input.hidden else []
    return [
        {name: np.array(getattr(output, name)[i]) for name in names}
        for i in range(len(agents))
    ]


def acted(case, agents, worlds):
    return outputs_of(case, agents, input_of(case, agents, worlds))


@pytest.mark.shows("A1", "A2", "E1")
@pytest.mark.parametrize(
    ("size", "position", "worlds"), [(2, 1, 1), (3, 0, 3), (8, 7, 1), (8, 5, 16)]
)
@EVERY_CASE
def test_an_agent_acts_the_same_stacked_as_on_its_own(case, size, position, worlds):
    (separate,) = acted(case, [agent_in(case, ME)], worlds)

    stacked = acted(case, group_of(case, size, position), worlds)

    assert same_bits(stacked[position], separate)


def share_of(policy_input, share):
    """Return the input of some of the worlds."""
    return PolicyInput(
        [
            {name: part[share] for name, part in parts.items()}
            for parts in policy_input.observations
        ],
        [None if legal is None else legal[share] for legal in policy_input.legal],
        policy_input.draws[:, share],
        policy_input.exploration,
        [hidden[share] for hidden in policy_input.hidden],
    )


@pytest.mark.shows("E1")
@pytest.mark.parametrize("size", [1, 3])
@EVERY_CASE
def test_an_agent_acts_the_same_in_any_share_of_at_least_four_worlds(case, size):
    agents = group_of(case, size, 0)
    policy_input = input_of(case, agents, 16)
    everywhere = outputs_of(case, agents, policy_input)

    for share in (slice(4), slice(4, 9), slice(3, 15), slice(12, 16)):
        outputs = outputs_of(case, agents, share_of(policy_input, share))

        for own, whole in zip(outputs, everywhere, strict=True):
            assert same_bits(own, {name: array[share] for name, array in whole.items()})


# Which agents form a group.


def learning_agents(algorithm, agents):
    return [replace(agent, algorithm=algorithm, learns=True) for agent in agents]


def test_agents_that_differ_only_in_numbers_form_one_group():
    agents = [agent_of(i, **changes) for i, changes in enumerate(OTHERS)]

    groups = groups_of(learning_agents(IQN, agents))

    assert [[agent.number for agent in group] for group in groups] == [list(range(7))]


UNLIKE = {
    "width": agent_of(1, network={"width": 17}),
    "depth": agent_of(1, network={"depth": 2}),
    "channels": agent_of(1, network={"channels": 16}),
    "quantiles": agent_of(1, network={"quantiles": 5}),
    "frames": agent_of(1, frames=3),
    "steps": agent_of(1, n_step=1),
    "batch": agent_of(1, batch_size=9),
    "accumulation": agent_of(1, gradient={"accumulate": 2}),
    "kind of replay": agent_of(1, replay={"kind": "prioritised"}),
    "noise": agent_of(1, iqn={"noisy": True}),
    "double": agent_of(1, iqn={"double": False}),
    "dueling": agent_of(1, iqn={"dueling": False}),
    "threshold": agent_of(1, iqn={"threshold": 0.5}),
    "acting quantiles": agent_of(1, iqn={"acting_quantiles": 5}),
    "retrace": agent_of(1, iqn={"retrace": 0.5}),
    "ratio": agent_of(1, ppo={"clip": 0.1}),
    "passes": agent_of(1, ppo={"passes": 3}),
    "algorithm": agent_of(1, algorithm="ppo"),
    "actions": agent_of(1, spec_of(1, actions=4)),
    "masks": agent_of(1, spec_of(1, masked=True)),
    "parts": agent_of(1, spec_of(1, parts={"self": PARTS["self"]})),
    "order of parts": agent_of(1, spec_of(1, parts=dict(reversed(PARTS.items())))),
}


@pytest.mark.parametrize("other", UNLIKE.values(), ids=UNLIKE)
def test_agents_that_cannot_be_one_computation_form_separate_groups(other):
    groups = groups_of(learning_agents(IQN, [agent_of(0), other]))

    assert [[agent.number for agent in group] for group in groups] == [[0], [1]]


# All agents and worlds in one pass.


class CountedPolicy(IqnPolicy):
    """Counts its passes."""

    passes = 0

    def act(self, policy_input):
        type(self).passes += 1
        return super().act(policy_input)


@pytest.fixture
def counted():
    CountedPolicy.passes = 0
    return type(IQN)("iqn", CountedPolicy, IQN.learner)


def runner_of(algorithm, agents, worlds=WORLDS):
    """Return a runner with initial weights, and rows to act on."""
    runner = PolicyRunner(groups_of(learning_agents(algorithm, agents)), SEED, worlds)
    learner = algorithm.learner(agents[:1], SEED)
    weights = {agent.number: learner.initial(agent)["weights"] for agent in agents}
    runner.begin_round(1, weights)
    experiences = {agent.number: Experience(agent, worlds=worlds) for agent in agents}
    for experience in experiences.values():
        experience.play_round()
    return runner, {number: experience.rows for number, experience in experiences.items()}


def act(runner, rows, agents, turn=5):
    legal = dict.fromkeys(rows)
    return by_agent(runner.act(agents, rows, legal, turn, lambda number: 0.2))


@pytest.mark.shows("E1")
@pytest.mark.parametrize("worlds", [1, 16])
def test_all_agents_and_worlds_act_in_one_pass(counted, worlds):
    runner, rows = runner_of(counted, [agent_of(i) for i in range(4)], worlds)

    outputs = act(runner, rows, [0, 1, 2, 3])

    assert CountedPolicy.passes == 1
    assert sorted(outputs) == [0, 1, 2, 3]
    assert all(output.actions.shape == (worlds,) for output in outputs.values())


@pytest.mark.shows("E1")
def test_each_kind_of_agent_acts_in_one_pass(counted):
    wide = {"network": {"width": 32}}
    agents = [agent_of(i, **(wide if i % 2 else {})) for i in range(4)]
    runner, rows = runner_of(counted, agents[:1])  # any rows will do
    runner = PolicyRunner(groups_of(learning_agents(counted, agents)), SEED, WORLDS)
    learners = {agent.number: IQN.learner([agent], SEED) for agent in agents}
    weights = {i: learners[i].initial(agents[i])["weights"] for i in learners}
    runner.begin_round(1, weights)
    rows = dict.fromkeys(range(4), rows[0])

    act(runner, rows, [0, 1, 2, 3])

    assert CountedPolicy.passes == 2


@pytest.mark.shows("A2", "E1")
def test_an_agent_acts_the_same_whichever_agents_act_in_its_phase():
    runner, rows = runner_of(IQN, [agent_of(i, iqn={"noisy": True}) for i in range(4)])

    all_four = act(runner, rows, [0, 1, 2, 3])
    pair = act(runner, rows, [2, 0])
    single = act(runner, rows, [2])

    for outputs in (pair, single):
        assert same_bits(vars(outputs[2]), vars(all_four[2]))


@pytest.mark.shows("D8")
def test_every_agent_world_and_turn_has_its_own_draws():
    runner, rows = runner_of(IQN, [agent_of(i) for i in range(3)], worlds=50)
    legal = dict.fromkeys(rows)

    def actions(turn):
        outputs = by_agent(runner.act([0, 1, 2], rows, legal, turn, lambda number: 1.0))
        return [outputs[i].actions.tolist() for i in range(3)]

    first, second = actions(5), actions(6)
    assert len({tuple(own) for own in first + second}) == 6
    assert actions(5) == first

"""A group's states: targets move on schedule, and a NaN stops only its own agent."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from rookery.algorithms.common.group import Group
from rookery.algorithms.iqn import IQN
from rookery.algorithms.nets.layers import Linear, Parameters
from rookery.algorithms.ppo import PPO
from tests.algorithms.conftest import GroupTrainer, agent_of, same_bits

ALL_ACTIVE = np.array([True, True])
ALGORITHMS = pytest.mark.parametrize("algorithm", [IQN, PPO], ids=["iqn", "ppo"])


class Pair:
    """Two agents with one layer, and random gradients."""

    def __init__(self, *agents):
        self.parameters = Parameters([Linear("it", 13, 5)])
        self.group = Group(agents, self.parameters)
        rng = np.random.default_rng(0)
        self.group.load([self._initial(rng) for _ in agents])
        self.rng = rng

    def _initial(self, rng):
        flat = np.zeros(self.parameters.size, np.float32)
        for view in self.parameters.unpadded(flat).values():
            view[...] = rng.normal(size=view.shape)
        return Group.initial(flat)

    def update(self, active=ALL_ACTIVE, loss=(1.0, 1.0), scale=1.0):
        for name, gradient in self.group.gradients.items():
            rows, columns = self.parameters.shapes[name]
            drawn = self.rng.normal(size=(len(gradient), rows, columns))
            gradient[:, :rows, :columns] = torch.from_numpy(scale * drawn)
        return self.group.apply(np.array(loss, np.float32), np.array(active))

    @property
    def states(self):
        return [{k: np.array(a) for k, a in state.items()} for state in self.group.save()]


# Targets.


@pytest.mark.shows("C4")
def test_a_target_starts_as_a_copy():
    states = Pair(agent_of(0), agent_of(1)).states

    assert np.array_equal(states[0]["target"], states[0]["weights"])


@pytest.mark.shows("C4")
def test_a_hard_target_is_copied_exactly_when_it_is_due():
    pair = Pair(
        agent_of(0, target={"every": 3, "rate": 1.0}),
        agent_of(1, target={"every": 2, "rate": 1.0}),
    )
    history = [pair.states]

    for _ in range(7):
        pair.update()
        history.append(pair.states)

    for agent, copied in ((0, [0, 0, 0, 3, 3, 3, 6, 6]), (1, [0, 0, 2, 2, 4, 4, 6, 6])):
        for after, source in enumerate(copied):
            target = history[after][agent]["target"]
            assert np.array_equal(target, history[source][agent]["weights"])


@pytest.mark.shows("C4")
def test_a_soft_target_moves_by_its_rate_when_it_is_due():
    pair = Pair(
        agent_of(0, target={"every": 1, "rate": 0.25}),
        agent_of(1, target={"every": 2, "rate": 0.5}),
    )
    expected = [state["target"].astype(np.float64) for state in pair.states]

    for update in range(1, 7):
        pair.update()
        expected[0] += 0.25 * (pair.states[0]["weights"] - expected[0])
        if update % 2 == 0:
            expected[1] += 0.5 * (pair.states[1]["weights"] - expected[1])

        for state, target in zip(pair.states, expected, strict=True):
            assert np.allclose(state["target"], target, rtol=0, atol=1e-6)


@pytest.mark.shows("C4")
def test_a_targets_schedule_counts_the_agents_own_updates():
    pair = Pair(*(agent_of(i, target={"every": 2, "rate": 1.0}) for i in range(2)))
    pair.update(active=[True, False])
    pair.update(active=[True, True])

    states = pair.states

    assert states[0]["counters"].tolist() == [2, 0]
    assert states[1]["counters"].tolist() == [1, 0]
    assert np.array_equal(states[0]["target"], states[0]["weights"])
    assert not np.array_equal(states[1]["target"], states[1]["weights"])


@pytest.mark.shows("C4")
def test_the_schedule_continues_from_a_loaded_state():
    agents = [agent_of(i, target={"every": 3, "rate": 1.0}) for i in range(2)]
    straight, resumed = Pair(*agents), Pair(*agents)
    for _ in range(4):
        straight.update()
    resumed.group.load(straight.states)
    resumed.rng = np.random.default_rng(1)
    straight.rng = np.random.default_rng(1)

    for _ in range(4):
        straight.update()
        resumed.update()

    assert all(map(same_bits, straight.states, resumed.states))


@pytest.mark.shows("C4")
def test_the_target_schedule_counts_updates_across_rounds():
    trainer = GroupTrainer(
        IQN, [agent_of(target={"every": 4, "rate": 1.0}, updates_per_round=3)]
    )
    history = [trainer.states[0]]
    for _ in range(4):
        trainer.train()
        history.append(trainer.states[0])

    moved = [not np.array_equal(a["target"], b["target"]) for a, b in pairwise(history)]

    # Copied after updates 4, 8 and 12, which are in rounds 2, 3 and 4.
    assert moved == [False, True, True, True]
    assert np.array_equal(history[4]["target"], history[4]["weights"])


# States.


def test_a_state_that_is_saved_and_loaded_is_the_same():
    pair = Pair(agent_of(0), agent_of(1))
    pair.update()
    states = pair.states

    other = Pair(agent_of(0), agent_of(1))
    other.group.load(states)

    assert all(map(same_bits, states, other.states))


@pytest.mark.parametrize("kind", ["uniform", "prioritised"])
@ALGORITHMS
def test_learning_continues_from_a_loaded_state_as_if_never_interrupted(algorithm, kind):
    agents = [agent_of(i, replay={"kind": kind}, iqn={"noisy": True}) for i in range(2)]
    straight, resumed = GroupTrainer(algorithm, agents), GroupTrainer(algorithm, agents)
    straight.train(rounds=3)
    for experience in resumed.experiences:
        for _ in range(2):
            experience.play_round()
    resumed.round = 2
    before = GroupTrainer(algorithm, agents)
    before.train(rounds=2)

    resumed.learner = algorithm.learner(agents, before.learner.seed)
    resumed.learner.load(before.states)
    resumed.train()

    assert all(map(same_bits, straight.states, resumed.states))


def test_gradients_of_agents_do_not_touch_each_other():
    pair = Pair(agent_of(0), agent_of(1))

    weight, bias = (pair.group.weights[f"it.{name}"] for name in ("weight", "bias"))
    pair.group.differentiate(
        weight.sum(dim=(1, 2)) * torch.tensor([1.0, 0.0]) + bias[:, 0, 0]
    )

    d_weight, d_bias = (pair.group.gradients[f"it.{name}"] for name in ("weight", "bias"))
    assert bool((d_weight[0] == 1).all())
    assert not d_weight[1].any()
    assert d_bias[:, 0].sum(dim=1).tolist() == [1, 1]


def test_the_gradients_of_passes_are_added_up_over_an_update():
    pair = Pair(agent_of(0), agent_of(1))
    (gradient, *_) = pair.group.gradients.values()
    totals = []

    for update in range(2):
        for number in range(3):
            gradient.fill_(10.0**number * (1 + update))
            pair.group.accumulate(number, 3)
        totals.append(gradient[0, 0, 0].item())

    assert totals == [111, 222]


@pytest.mark.shows("D5")
def test_each_agent_has_its_own_learning_rate_and_clip():
    pair = Pair(
        agent_of(0, learning_rate=0.1, gradient={"clip": 1e9}),
        agent_of(1, learning_rate=0.001, gradient={"clip": 1e-3}),
    )
    before = pair.states

    norms = pair.update()

    after, sizes = pair.states, []
    for old, new in zip(before, after, strict=True):
        sizes.append(np.abs(new["weights"] - old["weights"]).max())
    assert sizes == pytest.approx([0.1, 0.001], rel=1e-3)
    # The first moment is a tenth of the gradient, as clipped.
    moments = [np.linalg.norm(state["means"]) for state in after]
    assert moments == pytest.approx([0.1 * norms[0], 0.1 * 1e-3], rel=1e-4)


@pytest.mark.shows("D5")
def test_learning_rates_depend_on_the_agents_own_updates():
    rate = {"schedule": "linear", "end": 0.5, "updates": 2}
    pair = Pair(agent_of(0, rate=rate), agent_of(1, rate={"warmup": 4}))
    same = np.random.default_rng(5)
    moved = []
    for _ in range(3):
        pair.group.load(
            [
                state | {"means": 0 * state["means"], "squares": 0 * state["squares"]}
                for state in pair.states
            ]
        )
        before, pair.rng = pair.states, same
        pair.update()
        moved.append(
            [
                np.abs(new["weights"] - old["weights"]).max()
                for old, new in zip(before, pair.states, strict=True)
            ]
        )

    # With moments at zero, an update is the learning rate times a function of the count.
    factor = [
        np.sqrt(1 - 0.999**n) / (1 - 0.9**n) * 0.1 / np.sqrt(0.001) for n in (1, 2, 3)
    ]
    first = [1e-2 * part * f for part, f in zip((1.0, 0.75, 0.5), factor, strict=True)]
    second = [1e-2 * part * f for part, f in zip((0.25, 0.5, 0.75), factor, strict=True)]
    assert np.array(moved) == pytest.approx(np.array([first, second]).T, rel=1e-3)


def test_an_agent_without_updates_can_be_in_a_group_with_others_that_have():
    pair = Pair(agent_of(0), agent_of(1))
    before = pair.states

    pair.update(active=[True, False])

    assert pair.states[0]["counters"].tolist() == [1, 0]
    assert same_bits(pair.states[1], before[1])


@pytest.mark.shows("A1")
@ALGORITHMS
def test_an_agent_that_is_out_for_a_whole_round_does_not_affect_the_others(algorithm):
    agents = [agent_of(i) for i in range(2)]
    together, alone = GroupTrainer(algorithm, agents), GroupTrainer(algorithm, agents[:1])
    before = together.states[1]

    metrics = together.train(absent=[1])
    alone.train()

    assert metrics[0]["updates"] > 0
    assert metrics[1]["updates"] == 0
    assert same_bits(together.states[0], alone.states[0])
    assert same_bits(together.states[1], before)


# NaN.


@pytest.mark.parametrize(
    ("loss", "scale"),
    [((1.0, np.nan), 1.0), ((1.0, np.inf), 1.0), ((1.0, 1.0), [[[1.0]], [[np.nan]]])],
    ids=["loss nan", "loss infinite", "gradient nan"],
)
def test_an_agent_whose_loss_is_not_finite_is_stopped_at_its_last_good_state(loss, scale):
    pair, sound = (Pair(agent_of(0), agent_of(1)) for _ in range(2))
    for each in (pair, sound):
        each.update()
    good = pair.states

    pair.update(loss=loss, scale=np.array(scale))
    sound.update()

    assert pair.group.running.tolist() == [True, False]
    assert same_bits(pair.states[0], sound.states[0])
    stopped = pair.states[1]
    assert stopped.pop("counters").tolist() == [1, 1]
    good[1].pop("counters")
    assert same_bits(stopped, good[1])


def good_state(state):
    """Return a state without its counters, which record that it was stopped."""
    return {name: array for name, array in state.items() if name != "counters"}


@pytest.mark.shows("A2")
@ALGORITHMS
def test_nan_in_one_agents_loss_stops_only_that_agent(algorithm):
    agents = [agent_of(i) for i in range(3)]
    trainer, sound, alone = (
        GroupTrainer(algorithm, agents),
        GroupTrainer(algorithm, agents),
        GroupTrainer(algorithm, agents[:1]),
    )
    for each in (trainer, sound, alone):
        each.train()
    good = trainer.states[1]

    metrics = trainer.train(nan_rewards=[1])
    trainer.train(rounds=2)
    sound.train(rounds=3)
    alone.train(rounds=3)

    assert [each.get("stopped", 0) for each in metrics] == [0, 1, 0]
    for i in (0, 2):
        assert same_bits(trainer.states[i], sound.states[i])
    assert same_bits(trainer.states[0], alone.states[0])
    assert same_bits(good_state(trainer.states[1]), good_state(good))
    assert trainer.states[1]["counters"].tolist() == [good["counters"][0], 1]


def test_nan_does_not_get_into_the_priorities_of_a_stopped_agent():
    agents = [agent_of(i, replay={"kind": "prioritised"}) for i in range(2)]
    trainer = GroupTrainer(IQN, agents)
    trainer.train()

    trainer.train(nan_rewards=[1])

    state = trainer.states[1]
    assert state["counters"][1] == 1
    for name, array in state.items():
        assert np.isfinite(array).all(), name


@ALGORITHMS
def test_metrics_of_a_stopped_agent_are_those_of_the_updates_it_made(algorithm):
    trainer = GroupTrainer(algorithm, [agent_of(i) for i in range(2)])
    trainer.train()
    before = trainer.states[1]["counters"][0]

    metrics = trainer.train(nan_rewards=[1])

    made = trainer.states[1]["counters"][0] - before
    assert metrics[1]["updates"] == made
    assert all(np.isfinite(value) for value in metrics[1].values())


@pytest.mark.shows("A2")
def test_a_stopped_agent_stays_stopped_when_its_state_is_loaded_again():
    agents = [agent_of(i) for i in range(2)]
    trainer = GroupTrainer(IQN, agents)
    trainer.train(nan_rewards=[1])
    stopped = trainer.states

    trainer.learner.load(stopped)
    metrics = trainer.train()

    assert metrics[0]["updates"] == 3
    assert metrics[1]["updates"] == 0
    assert metrics[1]["stopped"] == 1

"""Updates without autograd: gradients by hand against autograd, and agents in any group.

Both compute the same sums in another order, so gradients are compared with a tolerance.
Agents in a group and alone are compared to the last bit.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.algorithms.value_based import ValueBasedLearner
from rookery.specs import Part
from tests.algorithms.conftest import GroupTrainer, agent_of, same_bits, spec_of
from tests.algorithms.kernels.settings_table import (
    ACTING,
    AUTOGRAD,
    DRAWING,
    OPTIMISER,
    OTHER,
    Table,
    cases,
    field_names,
)

TOLERANCE = 1e-5
"""Relative to the largest number of an agent's gradient."""

SCALED = {
    "grid": Part((2, 3, 4), np.dtype(np.uint8), scale=1 / 255),
    "self": Part((3,), np.dtype(np.float32)),
}
SPARSE = {"grid": Part((2, 3, 4), np.dtype(np.uint8))}
"""Integers without a scale, which are multiplied as sparse inputs."""

SHARED: Table = {
    "algorithm": OTHER,
    "frames": (1, 3),
    "n_step": (1, 4),
    "batch_size": (1, 11),
    "learning_rate": OPTIMISER,
    "discount": DRAWING,
    "discount_per": DRAWING,
    "updates_per_round": OPTIMISER,
    "network.width": (1, 16, 37, 80),
    "network.depth": (2, 4),
    "network.channels": (16, 32),
    "network.module": AUTOGRAD,
    "epsilon.start": ACTING,
    "epsilon.end": ACTING,
    "epsilon.steps": ACTING,
    "epsilon.temperature": ACTING,
    "replay.capacity": DRAWING,
    "replay.kind": ("prioritised",),
    "replay.warmup": DRAWING,
    "replay.exponent": DRAWING,
    "replay.correction": DRAWING,
    "reward.scale": DRAWING,
    "reward.clip": DRAWING,
    "reward.standardise": (True,),
    "target.every": OPTIMISER,
    "target.rate": OPTIMISER,
    "rate.schedule": OPTIMISER,
    "rate.end": OPTIMISER,
    "rate.rounds": OPTIMISER,
    "rate.updates": OPTIMISER,
    "rate.warmup": OPTIMISER,
    "gradient.clip": OPTIMISER,
    "gradient.accumulate": (2, 3),
}
PARTS: Table = {
    "double": (False, True),
    "dueling": (False, True),
    "noisy": (False, True),
    "threshold": (0.1, 3.0),
    "gap": (0.0, 0.7),
    "retrace": (None, 0.0, 0.9, 1.0),
}


def parts_of(algorithm: str) -> Table:
    return {f"{algorithm}.{name}": values for name, values in PARTS.items()}


DQN_TABLE: Table = {
    **SHARED,
    **parts_of("dqn"),
    "dqn.hysteresis": (0.1, 0.5),
    "network.quantiles": OTHER,
}
IQN_TABLE: Table = {
    **SHARED,
    **parts_of("iqn"),
    "network.quantiles": (1, 2, 13),
    "iqn.acting_quantiles": (1, 3, 32),
}
TABLES = {"dqn": DQN_TABLE, "iqn": IQN_TABLE}
ALGORITHMS = {"dqn": DQN, "iqn": IQN}
CASES = [
    pytest.param(algorithm, settings, id=f"{algorithm}, {name}")
    for algorithm, table in TABLES.items()
    for name, settings in cases(table)
]


@pytest.mark.shows("D3")
@pytest.mark.parametrize("algorithm", TABLES)
def test_every_setting_has_values_to_try_or_a_reason(algorithm):
    others = tuple(
        {"iqn.", "dqn.", "ppo.", "vtrace.", "tabular.", "recurrent."} - {f"{algorithm}."}
    )
    concerned = [name for name in field_names() if not name.startswith(others)]

    assert sorted(TABLES[algorithm]) == sorted(concerned)


class Comparison:
    """A group whose passes are all computed twice, by hand and by autograd.

    Some transitions of every batch are made special: without a legal action, terminal, or
    with an importance of 0.
    """

    def __init__(self, algorithm, settings, *, agents=2, seed=0, masked=True, parts=SCALED):
        specs = [spec_of(i, parts, masked=masked) for i in range(agents)]
        group = [agent_of(i, spec, **settings) for i, spec in enumerate(specs)]
        self.trainer = GroupTrainer(
            ALGORITHMS[algorithm], group, [seed] * agents, seed=seed
        )
        self.learner = self.trainer.learner
        self.learner.updates_each_agent = False  # but pass by pass
        self._by_hand = self.learner.backpropagate
        self.learner.backpropagate = self._backpropagate
        self.passes = 0
        self.largest = 0.0
        """The largest deviation in any pass, relative to the largest number."""

    def _backpropagate(self, batch):
        make_special(batch)
        expected = ValueBasedLearner.backpropagate(self.learner, batch)
        gradients = self._gradients()
        for view in self.learner.group.gradients.values():
            view.fill_(torch.nan)  # so that a gradient that is not written is found
        result = self._by_hand(batch)
        self._compare(self._gradients(), gradients)
        for name in ("loss", "errors", "values"):
            by_hand, by_autograd = getattr(result, name), getattr(expected, name)
            self._compare(*(each.detach().numpy() for each in (by_hand, by_autograd)))
        self.passes += 1
        return result

    def _gradients(self):
        views = self.learner.group.gradients.values()
        flat = [view.numpy().reshape(len(self.learner.agents), -1) for view in views]
        return np.concatenate(flat, axis=1)

    def _compare(self, found, expected):
        for one, other in zip(found, expected, strict=True):
            deviation = np.abs(one - other).max() / np.abs(other).max()
            assert deviation < TOLERANCE
            self.largest = max(self.largest, float(deviation))


def make_special(batch):
    size = batch.actions.shape[1]
    if size < 8:
        return
    ends = batch.returns.shape[1] // size
    batch.importance = batch.importance.clone()
    batch.importance[:, 0] = 0.0
    batch.importance[:, 1] *= 0.25
    batch.discounts[:, 2 * ends : 3 * ends] = 0.0
    if batch.legal is not None:
        batch.legal[:, 3] = False
        batch.next_legal[:, 4 * ends : 5 * ends] = False


@pytest.mark.shows("D3")
@pytest.mark.parametrize(("algorithm", "settings"), CASES)
def test_gradients_by_hand_are_those_of_autograd(algorithm, settings):
    for seed in range(3):
        comparison = Comparison(algorithm, settings, seed=seed)
        comparison.trainer.train(rounds=2)
        assert comparison.passes >= 3


@pytest.mark.shows("D3")
@pytest.mark.parametrize("algorithm", TABLES)
def test_gradients_agree_in_every_combination_of_parts(algorithm):
    options = product(*[(False, True)] * 3, (0.0, 0.3), (None, 0.8), (False, True))
    for double, dueling, noisy, gap, retrace, masked in options:
        parts = {
            "double": double,
            "dueling": dueling,
            "noisy": noisy,
            "gap": gap,
            "retrace": retrace,
        }
        comparison = Comparison(algorithm, {algorithm: parts}, masked=masked)
        comparison.trainer.train()
        assert comparison.passes == 3


@pytest.mark.shows("D3")
@pytest.mark.parametrize("algorithm", TABLES)
@pytest.mark.parametrize("frames", [1, 2])
def test_gradients_agree_with_sparse_inputs(algorithm, frames):
    for depth in (1, 2):
        settings = {"frames": frames, "network": {"depth": depth}}
        comparison = Comparison(algorithm, settings, parts=SPARSE)
        assert comparison.learner.network.encoder.has_sparse_inputs
        for experience in comparison.trainer.experiences:
            experience.play_round()
            grids = experience.rows.parts["grid"]
            grids[np.random.default_rng(0).random(grids.shape) < 0.8] = 0
        comparison.trainer.learn()
        assert comparison.passes == 3


# Updates agent by agent.

OPTIMISED = [
    {"rate": {"schedule": "cosine", "rounds": 4, "warmup": 2}},
    {"target": {"every": 3, "rate": 1.0}},
    {"gradient": {"clip": 0.01}},
    {"updates_per_round": 40},
]
"""More updates than are made at once, and settings of what follows the gradient."""
EACH_AGENT = [
    *[param for param in CASES if param.values[0] == "dqn"],
    *[pytest.param("dqn", settings, id=f"dqn, {settings}") for settings in OPTIMISED],
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("parts", [SCALED, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize(("algorithm", "settings"), EACH_AGENT)
def test_updates_agent_by_agent_have_the_bits_of_updates_pass_by_pass(
    algorithm, settings, parts, masked
):
    def learned(each_agent):
        specs = [spec_of(i, parts, masked=masked) for i in range(3)]
        group = [agent_of(i, spec, **settings) for i, spec in enumerate(specs)]
        trainer = GroupTrainer(ALGORITHMS[algorithm], group)
        assert trainer.learner.updates_each_agent == is_each_agent(group[0].settings)
        trainer.learner.updates_each_agent &= each_agent
        metrics = [trainer.train(absent=[1]), trainer.train(rounds=2)]
        stopped = trainer.train(nan_rewards=[2])
        return trainer.states, metrics, stopped[:2], stopped[2]["stopped"]

    states, *metrics = learned(each_agent=True)
    expected, *expected_metrics = learned(each_agent=False)

    assert all(map(same_bits, states, expected))
    assert metrics == expected_metrics


def is_each_agent(settings):
    return not (
        settings.network.channels
        or settings.dqn.noisy
        or settings.replay.kind == "prioritised"
        or settings.gradient.accumulate > 1
    )


def test_large_networks_make_fewer_updates_at_once():
    """The longest computation without a sign of life is short."""
    updates = {
        width: DQN.learner([agent_of(0, network={"width": width})], 0).updates_ahead
        for width in (64, 2048)
    }
    assert updates[2048] < updates[64]


# Groups.


@pytest.mark.shows("A1")
@pytest.mark.parametrize(("algorithm", "settings"), CASES)
def test_agents_learn_the_same_bits_in_groups_of_any_size(algorithm, settings):
    def states(numbers):
        agents = [agent_of(i, spec_of(i, SCALED, masked=True), **settings) for i in numbers]
        trainer = GroupTrainer(ALGORITHMS[algorithm], agents)
        trainer.train(rounds=2)
        return dict(zip(numbers, trainer.states, strict=True))

    alone = {i: states([i])[i] for i in range(8)}
    for numbers in ([0, 1], [3, 1, 2], list(range(8))):
        for i, state in states(numbers).items():
            assert same_bits(state, alone[i])

"""PPO's and V-trace's gradients by hand: those of autograd, for every setting."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common.rollout import Minibatch
from rookery.algorithms.kernels import actor_critic
from rookery.algorithms.ppo import PPO, PpoLearner
from rookery.algorithms.recurrent_ppo import RecurrentPpoLearner
from rookery.algorithms.vtrace import VTRACE, VtraceLearner
from rookery.config.agent import NetworkConfig, PpoConfig, VtraceConfig
from rookery.specs import Part
from tests.algorithms.conftest import PARTS, GroupTrainer, agent_of, same_bits, spec_of
from tests.references.planting import with_named_arguments

RELATIVE = 1e-5
"""The limit of a difference, relative to the largest number of an agent."""
ABSOLUTE = 1e-6
"""More for losses and values, which are small sums of numbers around 1."""
ONE_ROUNDING = 2e-7
"""More for gradients: of a target less a value, both around 1, if there are few rows."""
GRIDS = {"map": Part((2, 4, 3), np.dtype(np.uint8), scale=1 / 255), **PARTS}
ALGORITHMS = {"ppo": PPO, "vtrace": VTRACE}

# Every field of the settings that these algorithms read: values to try, or a reason.
SHARED = {
    "entropy": [0.0, 0.3],
    "value": [0.0, 2.0],
    "passes": [1, 3],
    "minibatches": [1, 5, 12],  # 5 leaves slots unused
}
FIELDS = {
    "ppo": SHARED | {"clip": [0.02, 0.5], "gae": [0.0, 1.0]},
    "vtrace": SHARED | {"rho_bar": [0.3, 5.0], "c_bar": [0.0, 0.5]},
    "network": {
        "width": [1, 7, 40],
        "depth": [2, 4],
        "channels": [16],
        "quantiles": "IQN's",
        "module": "uses autograd",
    },
}
OTHER = [
    {},
    {"reward": {"standardise": True}},
    {"rate": {"schedule": "cosine", "updates": 9, "warmup": 2}},
    {"gradient": {"clip": 0.01}},
    {"frames": 1},
]


def cases():
    """Return algorithm and settings of every case, with an id."""
    for name in ALGORITHMS:
        settings = [
            {group: {field: value}}
            for group in (name, "network")
            for field, values in FIELDS[group].items()
            if not isinstance(values, str)
            for value in values
        ]
        for each in [*settings, *OTHER]:
            yield pytest.param(name, each, id=f"{name} {each}")


def test_every_field_has_a_case():
    models = {"ppo": PpoConfig, "vtrace": VtraceConfig, "network": NetworkConfig}
    for name, model in models.items():
        assert FIELDS[name].keys() == model.model_fields.keys(), name


def agents_of(count=3, *, masked=True, actions=5, **settings):
    """Return agents, by default with masks and a grid besides other parts."""
    return [
        agent_of(i, spec_of(i, GRIDS, actions, masked=masked), **settings)
        for i in range(count)
    ]


def agree(name, actual, expected, absolute=ABSOLUTE):
    """Check that arrays (agents, …) are equal up to `RELATIVE` and `absolute`."""
    for i, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        limit = RELATIVE * np.abs(theirs).max(initial=0) + absolute
        difference = np.abs(mine - theirs).max(initial=0)
        assert difference <= limit, f"{name} of agent {i}: {difference} off"


def flat_gradients(group):
    """Return a copy of all gradients, (agents, parameters)."""
    return np.concatenate(
        [each.numpy().reshape(len(each), -1) for each in group.gradients.values()], axis=1
    )


def compare_pass(learner, minibatch):
    """Compare a pass by hand with autograd's; return its result."""
    reference = learner.compute_losses(minibatch)
    learner.group.differentiate(reference.loss)
    gradients = flat_gradients(learner.group)
    for gradient in learner.group.gradients.values():
        gradient.fill_(np.nan)  # everything must be written
    result = learner.pass_by_hand(minibatch.actions.shape[1]).backpropagate(minibatch)
    agree("gradients", flat_gradients(learner.group), gradients, ONE_ROUNDING)
    for name in ("loss", "errors", "values"):
        expected = getattr(reference, name).detach().numpy()
        agree(name, getattr(result, name).numpy(), expected)
    return result


def compare_advantages(learner, right, rollout):
    """Compare advantages and returns from values by hand with those of autograd's."""
    by_hand, learner.pass_by_hand = learner.pass_by_hand, lambda rows: None
    right(rollout)
    expected = [rollout.advantages.copy(), rollout.returns.copy()]
    learner.pass_by_hand = by_hand
    right(rollout)
    agree("advantages", rollout.advantages, expected[0])
    agree("returns", rollout.returns, expected[1])


def compare_rounds(algorithm, agents, rounds=2):
    """Train, and compare all that is computed by hand with autograd's."""
    trainer = GroupTrainer(algorithm, agents)
    learner = trainer.learner
    right = learner.compute_advantages
    learner.compute_advantages = lambda rollout: compare_advantages(learner, right, rollout)
    learner.backpropagate = lambda minibatch: compare_pass(learner, minibatch)
    metrics = trainer.train(rounds)
    assert all(each["updates"] > 0 for each in metrics)


@pytest.mark.shows("E6")
@pytest.mark.parametrize(("name", "settings"), list(cases()))
def test_gradients_by_hand_are_those_of_autograd(name, settings):
    compare_rounds(ALGORITHMS[name], agents_of(**settings))


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("actions", [2, 16, 33])
def test_without_masks_gradients_are_those_of_autograd(name, actions):
    compare_rounds(ALGORITHMS[name], agents_of(masked=False, actions=actions))


# Single minibatches.


def learner_of(name, agents):
    learner = ALGORITHMS[name].learner(agents, 0)
    learner.load([learner.initial(agent) for agent in agents])
    return learner


def random_minibatch(learner, rows=50, seed=0):
    """Return a minibatch: ratios from 0.3 to 3, a fifth unused, some without a mask."""
    rng = np.random.default_rng(seed)
    features, actions = learner.network.features, learner.network.actions
    shape = (len(learner.agents), rows)
    inputs = np.zeros((*shape, features.padded), np.float32)
    inputs[..., : features.width] = rng.normal(size=(*shape, features.width))
    legal = rng.random((*shape, actions)) < 0.5
    taken = rng.integers(actions, size=shape)
    np.put_along_axis(legal, taken[..., None], True, axis=2)
    legal[:, ::7] = False  # as where an agent is out: then all actions count as legal
    minibatch = Minibatch(
        torch.from_numpy(inputs),
        torch.from_numpy(taken),
        torch.zeros(shape),
        torch.from_numpy(rng.normal(size=shape).astype(np.float32)),
        torch.from_numpy(rng.normal(size=shape).astype(np.float32)),
        torch.from_numpy((rng.random(shape) < 0.8).astype(np.float32)),
        torch.from_numpy(legal),
    )
    log_ratios = rng.uniform(np.log(0.3), np.log(3), shape)
    now = log_probs_of(learner, minibatch)
    minibatch.old_log_probs = now - torch.from_numpy(log_ratios.astype(np.float32))
    return minibatch


@torch.no_grad()
def log_probs_of(learner, minibatch):
    """Return log π(a | s), with plain softmax over legal actions."""
    logits, _ = learner.outputs(minibatch)
    allowed = minibatch.legal | ~minibatch.legal.any(dim=2, keepdim=True)
    log_probs = logits.masked_fill(~allowed, -torch.inf).log_softmax(dim=2)
    return log_probs.gather(2, minibatch.actions[..., None])[..., 0]


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("rows", [1, 16, 50])
def test_ratios_on_both_sides_masks_and_unused_slots_agree_with_autograd(name, rows):
    learner = learner_of(name, agents_of(network={"depth": 2, "channels": 16}))
    minibatch = random_minibatch(learner, rows)

    compare_pass(learner, minibatch)

    if rows == 50:  # all four ways to be clipped or not
        ratio = (log_probs_of(learner, minibatch) - minibatch.old_log_probs).exp()
        for beyond in (ratio < 0.8, ratio > 1.2):
            for gain in (minibatch.advantages < 0, minibatch.advantages > 0):
                assert (beyond & gain & (minibatch.weights > 0)).any()


@pytest.mark.parametrize("advantage", [1.0, -1.0], ids=["gain", "loss"])
@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.1, 2.0])
def test_a_policy_that_is_beyond_ppos_clip_is_not_moved_further(ratio, advantage):
    learner = learner_of("ppo", agents_of(1, ppo={"entropy": 0, "value": 0}))
    minibatch = random_minibatch(learner, rows=1)
    minibatch.legal[:] = True
    minibatch.weights[:], minibatch.advantages[:] = 1.0, advantage
    minibatch.old_log_probs = log_probs_of(learner, minibatch) - np.log(ratio)

    result = compare_pass(learner, minibatch)

    clipped = ratio > 1.2 if advantage > 0 else ratio < 0.8
    bound = np.clip(ratio, 0.8, 1.2) if clipped else ratio
    assert result.loss.item() == pytest.approx(-bound * advantage, rel=1e-5)
    assert (np.abs(flat_gradients(learner.group)).max() == 0) == clipped


@pytest.mark.parametrize("name", ALGORITHMS)
def test_slots_of_weight_0_change_nothing_whatever_is_in_them(name):
    learner = learner_of(name, agents_of())
    minibatch, tampered = (random_minibatch(learner) for _ in range(2))
    unused = minibatch.weights == 0
    tampered.advantages[unused], tampered.returns[unused] = torch.nan, torch.inf
    tampered.actions[unused] = 0
    hand = learner.pass_by_hand(50)

    results = []
    for each in (minibatch, tampered):
        result = hand.backpropagate(each)
        arrays = [result.loss, result.errors, result.values]
        results.append(
            [flat_gradients(learner.group), *(array.numpy().copy() for array in arrays)]
        )

    for actual, expected in zip(*results, strict=True):
        assert np.array_equal(actual, expected)


def test_an_illegal_action_has_no_probability_and_no_gradient():
    learner = learner_of("ppo", agents_of(1, ppo={"entropy": 1.0}))
    minibatch = random_minibatch(learner)
    minibatch.legal[:] = True
    minibatch.legal[..., 3] = False
    minibatch.actions[minibatch.actions == 3] = 0

    learner.backpropagate(minibatch)

    d_bias = learner.group.gradients["choose.bias"][0, 0]
    assert d_bias[3] == 0
    assert (d_bias[[0, 1, 2, 4]] != 0).all()


@pytest.mark.parametrize("broken", ["advantages", "returns", "old_log_probs"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_nan_reaches_the_loss_of_its_own_agent_only(name, broken):
    learner = learner_of(name, agents_of())
    minibatch = random_minibatch(learner)
    minibatch.weights[:] = 1
    getattr(minibatch, broken)[1, 5] = torch.nan

    result = learner.backpropagate(minibatch)

    assert torch.isfinite(result.loss).tolist() == [True, False, True]


# Groups.


@pytest.mark.shows("A1", "E6")
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("count", [2, 3, 8])
def test_stacked_agents_get_the_bits_they_get_alone(name, count):
    settings = {"network": {"depth": 2, "channels": 16}, name: {"minibatches": 5}}
    agents = agents_of(count, **settings)
    together = GroupTrainer(ALGORITHMS[name], agents)
    alone = [GroupTrainer(ALGORITHMS[name], [agent]) for agent in agents]

    metrics = together.train(2)

    for i, trainer in enumerate(alone):
        assert trainer.train(2) == [metrics[i]]
        assert same_bits(trainer.states[0], together.states[i])


class Mine(PpoLearner):
    """What a user can write: a loss of its own."""

    def policy_loss(self, log_probs, minibatch):
        return -log_probs * minibatch.advantages


def test_classes_with_their_own_losses_or_networks_use_autograd():
    for learner_type in (PpoLearner, VtraceLearner):
        assert learner_type([agent_of()], 0).pass_by_hand(8) is not None
    for learner_type in (Mine, RecurrentPpoLearner):
        assert learner_type([agent_of()], 0).pass_by_hand(8) is None


def test_a_shorter_round_gets_buffers_of_its_size():
    learner = PpoLearner([agent_of()], 0)
    first = learner.pass_by_hand(8)

    assert learner.pass_by_hand(8) is first
    assert learner.pass_by_hand(6).rows == 6


# Bugs.

BUGS = {
    "the ratio is not clipped": ("ppo", {"high": lambda _: np.float32(9)}),
    "the ratio is clipped on one side": ("ppo", {"low": lambda _: np.float32(0)}),
    "entropy is a cost": ("ppo", {"entropy_coefficient": np.negative}),
    "the value loss has half the coefficient": (
        "ppo",
        {"value_coefficient": lambda each: each / np.float32(2)},
    ),
    "unused slots are learned from": ("ppo", {"weights": np.ones_like}),
    "padding counts as actions": ("ppo", {"num_actions": lambda each: each + 1}),
    "V-trace is clipped as PPO is": ("vtrace", {"is_vtrace": lambda _: False}),
    "V-trace: rho is not bounded": ("vtrace", {"high": lambda _: np.float32(9)}),
}


@pytest.mark.parametrize(("name", "changes"), BUGS.values(), ids=BUGS)
def test_the_comparison_detects_a_planted_bug(name, changes, monkeypatch):
    learner = learner_of(name, agents_of())
    minibatch = random_minibatch(learner)
    compare_pass(learner, minibatch)
    plant = with_named_arguments(**changes)
    right = actor_critic.actor_critic_losses
    monkeypatch.setattr(actor_critic, "actor_critic_losses", plant(right))

    with pytest.raises(AssertionError, match="off"):
        compare_pass(learner, minibatch)


LAYER_BUGS = {
    "masks are ignored": ("mask_array", lambda _: np.zeros((0, 0, 0), bool)),
    "a head's gradient does not reach the encoder": (
        "ActorCriticNetworkPass.backward",
        lambda self, d_logits, d_values: (
            self._value.backward(d_values),
            self._encoder.backward(self._choose.backward(d_logits)),
        ),
    ),
}


@pytest.mark.parametrize(("name", "wrong"), LAYER_BUGS.values(), ids=LAYER_BUGS)
def test_the_comparison_detects_a_bug_planted_around_the_loop(name, wrong, monkeypatch):
    learner = learner_of("ppo", agents_of())
    minibatch = random_minibatch(learner)
    compare_pass(learner, minibatch)
    monkeypatch.setattr(f"{actor_critic.__name__}.{name}", wrong)

    with pytest.raises(AssertionError, match="off"):
        compare_pass(learner, minibatch)


def test_the_comparison_of_rounds_detects_a_chunk_that_is_left_out(monkeypatch):
    right = actor_critic.ActorCriticPass._chunks

    def first_only(self, slots):
        yield next(right(self, slots))

    monkeypatch.setattr(actor_critic.ActorCriticPass, "_chunks", first_only)

    with pytest.raises(AssertionError, match="off"):
        compare_rounds(PPO, agents_of(), rounds=1)

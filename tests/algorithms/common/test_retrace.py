"""Retrace: shares by hand, paths from rows, and targets against the paper's recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common import losses
from rookery.algorithms.common.retrace import retrace_shares
from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.algorithms.nets.layers import Features
from rookery.replay.drawing import Paths
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import SEED, GroupTrainer, agent_of, same_bits, spec_of
from tests.algorithms.test_dqn import PlainDqn
from tests.algorithms.test_iqn import PlainIqn
from tests.algorithms.test_ppo import plain_transition

pytestmark = pytest.mark.shows("D7")

ENDS = 4
FIXED = (torch.arange(4) + 0.5) / 4


# By hand.


def test_shares_of_the_ends_by_hand():
    agrees = torch.tensor([[True, True, False], [False, True, False], [True, False, False]])

    shares = retrace_shares(agrees, 0.5)

    assert shares.tolist() == [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]


def test_with_lambda_1_a_target_bootstraps_where_the_path_left_the_best_actions():
    agrees = torch.tensor([[True, True, False], [True, False, False]])

    assert retrace_shares(agrees, 1.0).tolist() == [[0, 0, 1], [0, 1, 0]]


def test_the_loss_of_a_mixture_of_targets_is_the_mixture_of_their_losses():
    rng = np.random.default_rng(0)
    quantiles, taus = (torch.tensor(rng.random((2, 3, 4))) for _ in range(2))
    targets = torch.tensor(rng.normal(size=(2, 3, 2, 5)))
    shares = torch.tensor([0.3, 0.7])
    quantiles.requires_grad_()

    each = [losses.quantile_huber(quantiles, targets[:, :, k], taus) for k in range(2)]
    weights = (shares / 5).repeat_interleave(5).expand(2, 3, 10)
    whole = losses.quantile_huber(quantiles, targets.flatten(2), taus, 1.0, weights)

    assert torch.allclose(whole, 0.3 * each[0] + 0.7 * each[1], rtol=1e-6)
    slopes = [torch.autograd.grad(loss.sum(), quantiles)[0] for loss in (*each, whole)]
    assert torch.allclose(slopes[2], 0.3 * slopes[0] + 0.7 * slopes[1], rtol=1e-6)


# Paths.


def plain_path(experience, turn, world, ends=ENDS):
    """Return the transitions of a path, one by one, from rows."""
    path = [plain_transition(experience, turn, world)]
    while len(path) < ends:
        last = path[-1]
        after = plain_transition(experience, last.closes, world) if last.discount else None
        if after is None:
            break
        path.append(after)
    return path


def with_returns(path):
    """Yield each transition of a path with the return and discount up to its end."""
    total, discount = 0.0, 1.0
    for step in path:
        total, discount = total + discount * step.reward, discount * step.discount
        yield step, total, discount


def play(algorithm, name, **options):
    settings = {"n_step": ENDS, "updates_per_round": 1, "replay": {"capacity": 300}}
    agent = agent_of(2, **settings, **{name: options})
    trainer = GroupTrainer(algorithm, [agent])
    other = algorithm.learner([agent], SEED + 1).initial(agent)["weights"]
    trainer.learner.load([{**trainer.states[0], "target": other}])
    for _ in range(4):
        trainer.experiences[0].play_round()
    return trainer, agent, trainer.experiences[0]


def plain_of(kind, trainer, agent):
    """Return a plain implementation with the same weights and the same target."""
    unpadded = trainer.learner.network.parameters.unpadded
    plain = kind(agent, unpadded(trainer.states[0]["weights"]))
    target = unpadded(trainer.states[0]["target"])
    plain.target = {name: torch.tensor(np.array(a)) for name, a in target.items()}
    return plain


def test_paths_are_the_transitions_that_follow_each_other():
    _, agent, experience = play(DQN, "dqn", retrace=0.9)
    reader, lengths, frames = experience.reader, set(), agent.settings.frames
    paths = Paths.empty(1, 1, len(reader.usable), ENDS, None)

    reader.follow(reader.usable, 1.0, paths, 0)

    features = Features(agent.spec, frames)
    inputs = np.zeros((len(reader.usable) * (1 + ENDS), features.padded), np.float32)
    features.draw(inputs, reader.rows, paths.addresses[0, 0])
    ends = torch.from_numpy(inputs[len(reader.usable) :, : features.width])
    for i, (turn, world) in enumerate(zip(*reader.opening(reader.usable), strict=True)):
        path = plain_path(experience, int(turn), int(world))
        lengths.add(len(path))
        for k, (step, total, discount) in enumerate(with_returns(path)):
            end = (0, 0, i * ENDS + k)
            assert paths.returns[end] == pytest.approx(total, abs=1e-5)
            assert paths.discounts[end] == pytest.approx(discount)
            assert torch.allclose(ends[i * ENDS + k], step.next_obs)
            assert paths.continues[end] == (k + 1 < len(path))
            if k + 1 < len(path):
                assert paths.taken[end] == path[k + 1].action
    assert lengths == {1, 2, 3, 4}


# Updates.


def plain_retrace(path, q, best, decay, probabilities):
    """Return the target of a path's first transition, by the recursion of the paper."""
    total, weight = q(path[0].obs)[path[0].action], 1.0
    for k, step in enumerate(path):
        if k:
            pi = float(best(step.obs) == step.action)
            weight *= path[k - 1].discount * decay * min(1.0, pi / probabilities[k])
        after = q(step.next_obs)[best(step.next_obs)]
        error = step.reward + step.discount * after - q(step.obs)[step.action]
        total = total + weight * error
    return total


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.7, 1.0])
def test_dqns_targets_are_those_of_the_papers_recursion(double, decay):
    trainer, agent, experience = play(DQN, "dqn", retrace=decay, double=double)
    reader, plain = experience.reader, plain_of(PlainDqn, trainer, agent)
    drawn = Stream(SEED, Purpose.LEARNER).uniform((2, 1, 0), 0, 8)[0]
    errors, continued = [], 0

    def q(obs):
        return plain.values(plain.target, obs).detach()

    def best(obs):
        choosing = plain.weights if double else plain.target
        return int(plain.values(choosing, obs).argmax())

    for turn, world in zip(*reader.opening(reader.sample(drawn)), strict=True):
        path = plain_path(experience, int(turn), int(world))
        probabilities = [
            float(experience.rows.columns["probability"][step.turn, world]) for step in path
        ]
        continued += len(path) > 1 and best(path[1].obs) == path[1].action
        y = plain_retrace(path, q, best, decay, probabilities)
        value = plain.values(plain.weights, path[0].obs)[path[0].action]
        errors.append(abs(y - value).item())

    (metrics,) = trainer.learn(first=0)

    assert continued > 0
    assert metrics["td_error"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_iqns_targets_are_a_mixture_over_the_ends():
    trainer, agent, experience = play(IQN, "iqn", retrace=0.7, acting_quantiles=4)
    reader, plain = experience.reader, plain_of(PlainIqn, trainer, agent)
    count, quantiles = 8, agent.settings.network.quantiles
    draws = count + (1 + ENDS) * count * quantiles
    drawn = Stream(SEED, Purpose.LEARNER).uniform((2, 1, 0), 0, draws)[0]
    numbers = torch.tensor(drawn[count:], dtype=torch.float32)
    taus = numbers[: count * quantiles].view(count, quantiles)
    next_taus = numbers[count * quantiles :].view(count, ENDS, quantiles)
    errors = []
    for i, transition in enumerate(reader.sample(drawn[:count])):
        turn, world = divmod(int(transition), reader.worlds)
        path, reached = plain_path(experience, turn, world), 1.0
        z = plain.quantiles(plain.weights, path[0].obs, taus[i])
        z, error = z[:, path[0].action], 0.0
        for k, (step, total, discount) in enumerate(with_returns(path)):
            best = plain.best(plain.weights, step.next_obs, FIXED, None)
            after = plain.quantiles(plain.target, step.next_obs, next_taus[i, k])[:, best]
            c = 0.7 * (k + 1 < len(path) and path[k + 1].action == best)
            deltas = (total + discount * after)[None] - z[:, None]
            error += reached * (1 - c) * deltas.detach().abs().mean().item()
            reached *= c
        errors.append(error)

    (metrics,) = trainer.learn(first=0)

    assert metrics["td_error"] == pytest.approx(np.mean(errors), rel=1e-4)


@pytest.mark.parametrize(("algorithm", "name"), [(DQN, "dqn"), (IQN, "iqn")])
def test_a_path_of_one_row_is_a_plain_transition(algorithm, name):
    agents = [agent_of(n_step=1, **{name: {"retrace": decay}}) for decay in (None, 0.8)]
    trainers = [GroupTrainer(algorithm, [agent]) for agent in agents]

    for trainer in trainers:
        trainer.train(rounds=2)

    for name in ("weights", "target"):
        arrays = [trainer.states[0][name] for trainer in trainers]
        assert np.allclose(*arrays, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("algorithm", "name"), [(DQN, "dqn"), (IQN, "iqn")])
def test_retrace_learns_from_masked_and_prioritised_paths_too(algorithm, name):
    settings = {"replay": {"kind": "prioritised"}, name: {"retrace": 0.9}}
    agents = [agent_of(i, spec_of(i, masked=True), n_step=3, **settings) for i in range(2)]
    together, alone = GroupTrainer(algorithm, agents), GroupTrainer(algorithm, agents[1:])

    (*_, metrics) = together.train(rounds=3)
    alone.train(rounds=3)

    assert metrics["updates"] == 3
    assert same_bits(together.states[1], alone.states[0])

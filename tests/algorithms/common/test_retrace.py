"""Retrace: shares by hand, paths from rows, and targets against the paper's recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.algorithms.common import losses
from rookery.algorithms.common.retrace import paths_of
from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.rng import Purpose, Stream
from tests.algorithms.conftest import SEED, Crew, agent_of, same_bits, spec_of
from tests.algorithms.test_dqn import PlainDqn
from tests.algorithms.test_iqn import PlainIqn, flat_inputs
from tests.algorithms.test_ppo import plain_step

pytestmark = pytest.mark.shows("D7")

ENDS = 4
FIXED = (torch.arange(4) + 0.5) / 4


# By hand.


def test_shares_of_the_ends_by_hand():
    agrees = torch.tensor([[True, True, False], [False, True, False], [True, False, False]])

    shares = losses.retrace_shares(agrees, 0.5)

    assert shares.tolist() == [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]


def test_without_decay_a_path_counts_to_where_it_left_the_best_actions():
    agrees = torch.tensor([[True, True, False], [True, False, False]])

    assert losses.retrace_shares(agrees, 1.0).tolist() == [[0, 0, 1], [0, 1, 0]]


def test_a_mixture_of_targets_costs_what_its_parts_cost():
    probability = np.random.default_rng(0)
    found, fractions = (torch.tensor(probability.random((2, 3, 4))) for _ in "ab")
    targets = torch.tensor(probability.normal(size=(2, 3, 2, 5)))
    shares = torch.tensor([0.3, 0.7])
    found.requires_grad_()

    each = [losses.quantile_huber(found, targets[:, :, k], fractions) for k in range(2)]
    weights = (shares / 5).repeat_interleave(5).expand(2, 3, 10)
    whole = losses.quantile_huber(found, targets.flatten(2), fractions, 1.0, weights)

    assert torch.allclose(whole, 0.3 * each[0] + 0.7 * each[1], rtol=1e-6)
    slopes = [torch.autograd.grad(one.sum(), found)[0] for one in (*each, whole)]
    assert torch.allclose(slopes[2], 0.3 * slopes[0] + 0.7 * slopes[1], rtol=1e-6)


# Paths.


def walked(life, turn, world, ends=ENDS):
    """Return the steps of a path, one by one, from rows."""
    found = [plain_step(life, turn, world)]
    while len(found) < ends:
        last = found[-1]
        after = plain_step(life, last.closes, world) if last.discount else None
        if after is None:
            break
        found.append(after)
    return found


def lived(algorithm, name, **chosen):
    about = {"n_step": ENDS, "updates_per_round": 1, "replay": {"capacity": 300}}
    agent = agent_of(2, **about, **{name: chosen})
    crew = Crew(algorithm, [agent])
    other = algorithm.learner([agent], SEED + 1).initial(agent)["weights"]
    crew.learner.load([{**crew.states[0], "target": other}])
    for _ in range(4):
        crew.lives[0].live()
    return crew, agent, crew.lives[0]


def plain_of(kind, crew, agent):
    """Return a plain implementation with the same weights and the same target."""
    real = crew.learner.network.parameters.real
    plain = kind(agent, real(crew.states[0]["weights"]))
    target = real(crew.states[0]["target"])
    plain.target = {name: torch.tensor(np.array(a)) for name, a in target.items()}
    return plain


def test_paths_are_the_steps_that_follow_each_other():
    _, _, life = lived(DQN, "dqn", retrace=0.9)
    reader, lengths = life.reader, set()

    paths = paths_of(reader, reader.usable, ENDS)

    for i, (turn, world) in enumerate(zip(*reader.opening(reader.usable), strict=True)):
        gained, counts, walk = 0.0, 1.0, walked(life, int(turn), int(world))
        lengths.add(len(walk))
        for k, step in enumerate(walk):
            gained, counts = gained + counts * step.gained, counts * step.discount
            assert paths.returns[i * ENDS + k] == pytest.approx(gained, abs=1e-5)
            assert paths.discounts[i * ENDS + k] == pytest.approx(counts)
            seen = flat_inputs(paths.next_seen, i * ENDS + k)
            assert torch.allclose(seen, step.next)
            assert paths.goes_on[i * ENDS + k] == (k + 1 < len(walk))
            if k + 1 < len(walk):
                assert paths.taken[i * ENDS + k] == walk[k + 1].action
    assert lengths == {1, 2, 3, 4}


# Updates.


def plain_retrace(walk, q, best, decay, probabilities):
    """Return Retrace's target of a path's first step, by the recursion of the paper."""
    total, weight = q(walk[0].now)[walk[0].action], 1.0
    for k, step in enumerate(walk):
        if k:
            pi = float(best(step.now) == step.action)
            weight *= walk[k - 1].discount * decay * min(1.0, pi / probabilities[k])
        after = q(step.next)[best(step.next)]
        error = step.gained + step.discount * after - q(step.now)[step.action]
        total = total + weight * error
    return total


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.7, 1.0])
def test_dqns_targets_are_those_of_the_papers_recursion(double, decay):
    crew, agent, life = lived(DQN, "dqn", retrace=decay, double=double)
    reader, plain = life.reader, plain_of(PlainDqn, crew, agent)
    drawn = Stream(SEED, Purpose.LEARNER).uniform((2, 1, 0), 0, 8)[0]
    wrong, paths_gone_on = [], 0

    def q(seen):
        return plain.values(plain.target, seen).detach()

    def best(seen):
        chooses = plain.weights if double else plain.target
        return int(plain.values(chooses, seen).argmax())

    for turn, world in zip(*reader.opening(reader.sample(drawn)), strict=True):
        walk = walked(life, int(turn), int(world))
        probabilities = [
            float(life.rows.columns["probability"][step.turn, world]) for step in walk
        ]
        paths_gone_on += len(walk) > 1 and best(walk[1].now) == walk[1].action
        wanted = plain_retrace(walk, q, best, decay, probabilities)
        found = plain.values(plain.weights, walk[0].now)[walk[0].action]
        wrong.append(abs(wanted - found).item())

    (metrics,) = crew.learn(first=0)

    assert paths_gone_on > 0
    assert metrics["td_error"] == pytest.approx(np.mean(wrong), rel=1e-4)


def test_iqns_targets_are_a_mixture_over_the_ends():
    crew, agent, life = lived(IQN, "iqn", retrace=0.7, acting_quantiles=4)
    reader, plain = life.reader, plain_of(PlainIqn, crew, agent)
    count, quantiles = 8, agent.settings.network.quantiles
    total = count + (1 + ENDS) * count * quantiles
    drawn = Stream(SEED, Purpose.LEARNER).uniform((2, 1, 0), 0, total)[0]
    numbers = torch.tensor(drawn[count:], dtype=torch.float32)
    fractions = numbers[: count * quantiles].view(count, quantiles)
    others = numbers[count * quantiles :].view(count, ENDS, quantiles)
    wrong = []
    for i, step in enumerate(reader.sample(drawn[:count])):
        turn, world = divmod(int(step), reader.worlds)
        walk, reached = walked(life, turn, world), 1.0
        found = plain.quantiles(plain.weights, walk[0].now, fractions[i])
        found, gained, counts, error = found[:, walk[0].action], 0.0, 1.0, 0.0
        for k, one in enumerate(walk):
            gained, counts = gained + counts * one.gained, counts * one.discount
            best = plain.best(plain.weights, one.next, FIXED, None)
            after = plain.quantiles(plain.target, one.next, others[i, k])[:, best]
            on = 0.7 * (k + 1 < len(walk) and walk[k + 1].action == best)
            each = (gained + counts * after)[None] - found[:, None]
            error += reached * (1 - on) * each.detach().abs().mean().item()
            reached *= on
        wrong.append(error)

    (metrics,) = crew.learn(first=0)

    assert metrics["td_error"] == pytest.approx(np.mean(wrong), rel=1e-4)


@pytest.mark.parametrize(("algorithm", "name"), [(DQN, "dqn"), (IQN, "iqn")])
def test_a_path_of_one_row_is_a_plain_step(algorithm, name):
    agents = [agent_of(n_step=1, **{name: {"retrace": decay}}) for decay in (None, 0.8)]
    crews = [Crew(algorithm, [agent]) for agent in agents]

    for crew in crews:
        crew.train(rounds=2)

    for name in ("weights", "target"):
        one, other = (crew.states[0][name] for crew in crews)
        assert np.allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("algorithm", "name"), [(DQN, "dqn"), (IQN, "iqn")])
def test_retrace_learns_from_masked_and_prioritised_paths_too(algorithm, name):
    about = {"replay": {"kind": "prioritised"}, name: {"retrace": 0.9}}
    agents = [agent_of(i, spec_of(i, masked=True), n_step=3, **about) for i in range(2)]
    both, alone = Crew(algorithm, agents), Crew(algorithm, agents[1:])

    (*_, metrics) = both.train(rounds=3)
    alone.train(rounds=3)

    assert metrics["updates"] == 3
    assert same_bits(both.states[1], alone.states[0])

"""Before a run: are stacked agents compared with alone at the shapes that it will have?"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rookery.algorithms.nets import gru
from rookery.algorithms.registry import find_algorithm
from rookery.learner import exactness as stacking
from rookery.learner.exactness import is_exact, split_groups
from tests.algorithms.conftest import SEED, agent_of, spec_of

NAMES = ["iqn", "dqn", "recurrent_dqn", "ppo", "vtrace", "recurrent_ppo"]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def group_of(name, size=3, masked=False, **settings):
    agents = [agent_of(i, spec_of(i, masked=masked), **settings) for i in range(size)]
    return [replace(agent, algorithm=find_algorithm(name), learns=True) for agent in agents]


@pytest.mark.shows("A1")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("worlds", "turns"), [(1, 1), (1, 50), (3, 7)])
def test_agents_that_are_the_same_in_company_stay_together(name, worlds, turns):
    group = group_of(name, masked=True)

    assert split_groups([group], SEED, worlds, turns) == ([group], [])


def as_a_view(rows):
    """Lay out gradients as they lie, where that can be done without a copy."""
    rows_, agents, sequences, numbers = rows.shape
    return rows.transpose(0, 1).reshape(agents, rows_ * sequences, numbers)


@pytest.mark.shows("A1")
@pytest.mark.parametrize("width", [16, 48, 80])
def test_agents_that_differ_only_at_the_shapes_of_the_run_are_trained_alone(
    monkeypatch, width
):
    # 50 turns are four sequences, one for each of four minibatches: of one sequence alone
    # a view does not need a copy, and its sum adds up in another order.
    recurrent = {"width": width, "sequence": 16}
    group = group_of("recurrent_ppo", recurrent=recurrent, ppo={"minibatches": 4})
    monkeypatch.setattr(gru, "_by_agent", as_a_view)

    groups, lines = split_groups([group], SEED, 1, 50)

    assert groups == [[agent] for agent in group]
    assert lines == ["agents 0, 1, 2 differ in company on this machine: trained alone."]
    assert is_exact(group, SEED, 4, 50)  # with four sequences all is well


@pytest.mark.parametrize("size", [2, 3, 5])
def test_two_agents_are_compared_as_well_as_all(monkeypatch, size):
    met = []
    compare = stacking._digests

    def note(lives, seed):
        met.append(len(lives))
        return compare(lives, seed)

    monkeypatch.setattr(stacking, "_digests", note)

    assert is_exact(group_of("dqn", size), SEED, 2, 10)
    assert sorted(met) == [1] * size + sorted({2, size})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [1, 8, 100])
@pytest.mark.parametrize(("worlds", "turns"), [(1, 1), (1, 2), (2, 50), (7, 3), (40, 1)])
def test_something_is_learned_in_every_comparison(name, batch, worlds, turns):
    long = {"sequence": 9, "burn_in": 2}
    settings = {"batch_size": batch, "n_step": 5, "frames": 3, "recurrent": long}
    (agent,) = group_of(name, 1, **settings)
    life = stacking._Life(stacking._small(agent), SEED, worlds, turns)
    learner = agent.algorithm.learner([life.agent], SEED)
    learner.load([learner.initial(life.agent)])

    (found,) = learner.learn([life.reader], 1, life.first)

    assert found["updates"] > 0
    assert found["gradient_norm"] > 0


@pytest.mark.parametrize("name", ["ppo", "vtrace", "recurrent_ppo"])
@pytest.mark.parametrize(("worlds", "turns"), [(1, 1), (3, 7), (2, 50)])
def test_on_policy_learners_are_compared_over_one_round_of_the_run(
    monkeypatch, name, worlds, turns
):
    (agent,) = group_of(name, 1)
    life = stacking._Life(stacking._small(agent), SEED, worlds, turns)

    assert (life.reader.boundary - life.first) * life.reader.worlds == turns * worlds


@pytest.mark.parametrize("name", NAMES)
def test_lives_have_ends_absences_and_starts(name):
    (agent,) = group_of(name, 1)
    life = stacking._Life(stacking._small(agent), SEED, 3, 50)
    columns = life.reader.rows.columns

    assert columns["terminated"].any()
    assert columns["truncated"].any()
    assert 0.6 < columns["active"].mean() < 0.9
    assert (columns["age"][1:] == 0).any()

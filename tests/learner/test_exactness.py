"""Before a run, stacked agents are compared with separate ones at the run's shapes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rookery.algorithms.nets import gru
from rookery.algorithms.registry import find_algorithm
from rookery.learner import exactness
from rookery.learner.exactness import is_exact, split_groups
from tests.algorithms.conftest import SEED, agent_of, spec_of

NAMES = ["iqn", "dqn", "recurrent_dqn", "ppo", "vtrace", "recurrent_ppo"]


def group_of(name, size=3, masked=False, **settings):
    agents = [agent_of(i, spec_of(i, masked=masked), **settings) for i in range(size)]
    return [replace(agent, algorithm=find_algorithm(name), learns=True) for agent in agents]


def experience_of(agent, worlds, turns):
    return exactness._SyntheticExperience(exactness._shortened(agent), SEED, worlds, turns)


@pytest.mark.shows("A1")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("worlds", "turns"), [(1, 1), (1, 50), (3, 7)])
def test_agents_with_the_same_bits_when_stacked_stay_in_one_group(name, worlds, turns):
    group = group_of(name, masked=True)

    assert split_groups([group], SEED, worlds, turns)[:2] == ([group], [])


def as_a_view(rows):
    """Reshape gradients without a copy where that is possible."""
    rows_, agents, sequences, numbers = rows.shape
    return rows.transpose(0, 1).reshape(agents, rows_ * sequences, numbers)


@pytest.mark.shows("A1")
@pytest.mark.parametrize("width", [16, 48, 80])
def test_agents_that_differ_only_at_the_shapes_of_the_run_are_trained_separately(
    monkeypatch, width
):
    # 50 turns are four sequences, one for each of four minibatches. A view of a single
    # sequence needs no copy, and is summed in another order.
    recurrent = {"width": width, "sequence": 16}
    group = group_of("recurrent_ppo", recurrent=recurrent, ppo={"minibatches": 4})
    monkeypatch.setattr(gru, "_by_agent", as_a_view)

    groups, lines, _ = split_groups([group], SEED, 1, 50)

    assert groups == [[agent] for agent in group]
    assert lines == [
        "agents 0, 1, 2 do not give the same bits stacked as on their own on this machine: "
        "each is trained separately."
    ]
    assert is_exact(group, SEED, 4, 50)  # with four sequences the bits are the same


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_pair_is_compared_as_well_as_the_whole_group(monkeypatch, size):
    sizes = []
    digests = exactness._digests

    def watched(experiences, seed):
        sizes.append(len(experiences))
        return digests(experiences, seed)

    monkeypatch.setattr(exactness, "_digests", watched)

    assert is_exact(group_of("dqn", size), SEED, 2, 10)
    assert sorted(sizes) == [1] * size + sorted({2, size})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [1, 8, 100])
@pytest.mark.parametrize(("worlds", "turns"), [(1, 1), (1, 2), (2, 50), (7, 3), (40, 1)])
def test_something_is_learned_in_every_comparison(name, batch, worlds, turns):
    long = {"sequence": 9, "burn_in": 2}
    settings = {"batch_size": batch, "n_step": 5, "frames": 3, "recurrent": long}
    (agent,) = group_of(name, 1, **settings)
    experience = experience_of(agent, worlds, turns)
    learner = agent.algorithm.learner([experience.agent], SEED)
    learner.load([learner.initial(experience.agent)])

    (metrics,) = learner.learn([experience.reader], 1, experience.first)

    assert metrics["updates"] > 0
    assert metrics["gradient_norm"] > 0


@pytest.mark.parametrize("name", ["ppo", "vtrace", "recurrent_ppo"])
@pytest.mark.parametrize(("worlds", "turns"), [(1, 1), (3, 7), (2, 50)])
def test_on_policy_learners_are_compared_over_one_round_of_the_run(
    monkeypatch, name, worlds, turns
):
    (agent,) = group_of(name, 1)
    experience = experience_of(agent, worlds, turns)

    rows = (experience.reader.boundary - experience.first) * experience.reader.worlds
    assert rows == turns * worlds


@pytest.mark.parametrize("name", NAMES)
def test_synthetic_experience_has_ends_absences_and_starts(name):
    (agent,) = group_of(name, 1)
    experience = experience_of(agent, 3, 50)
    columns = experience.reader.rows.columns

    assert columns["terminated"].any()
    assert columns["truncated"].any()
    assert 0.6 < columns["active"].mean() < 0.9
    assert (columns["age"][1:] == 0).any()

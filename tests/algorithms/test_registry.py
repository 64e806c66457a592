"""Algorithms by name."""

from __future__ import annotations

import sys

import pytest

import rookery
import rookery.algorithms as package
from rookery.algorithms.base import Algorithm, Learner, Policy
from rookery.algorithms.dqn import DQN
from rookery.algorithms.iqn import IQN
from rookery.algorithms.ppo import PPO
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.algorithms.registry import algorithms, find_algorithm
from rookery.algorithms.tabular import TABULAR
from rookery.algorithms.vtrace import VTRACE
from rookery.errors import ConfigError


def test_built_in_algorithms_are_found_by_name():
    assert algorithms() == {
        "dqn": DQN,
        "iqn": IQN,
        "ppo": PPO,
        "recurrent_dqn": RECURRENT_DQN,
        "recurrent_ppo": RECURRENT_PPO,
        "tabular": TABULAR,
        "vtrace": VTRACE,
    }


@pytest.mark.parametrize(
    "name", ["dqn", "iqn", "ppo", "recurrent_dqn", "recurrent_ppo", "tabular", "vtrace"]
)
def test_an_algorithm_has_a_policy_and_a_learner(name):
    algorithm = find_algorithm(name)

    assert isinstance(algorithm, Algorithm)
    assert algorithm.name == name
    assert issubclass(algorithm.policy, Policy)
    assert issubclass(algorithm.learner, Learner)
    assert algorithm.stackable == (name != "tabular")


def test_only_actor_critic_algorithms_are_on_policy():
    on_policy = {name for name, each in algorithms().items() if each.learner.on_policy}

    assert on_policy == {"ppo", "recurrent_ppo", "vtrace"}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("inq", "did you mean 'iqn'"),
        ("dreamer", "known are dqn, iqn, ppo, recurrent_dqn, recurrent_ppo, "),
        ("", "known are"),
    ],
)
def test_an_unknown_algorithm_is_refused_with_the_known_ones(name, advice):
    with pytest.raises(ConfigError, match=f"unknown algorithm '{name}': {advice}"):
        find_algorithm(name)


NEW = """
from rookery.algorithms.base import Algorithm
from rookery.algorithms.ppo import PpoLearner, PpoPolicy


class CalmLearner(PpoLearner):
    pass


CALM = Algorithm("calm", PpoPolicy, CalmLearner)
"""


@pytest.fixture
def _one_more_file(tmp_path, monkeypatch):
    (tmp_path / "calm.py").write_text(NEW)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    algorithms.cache_clear()
    yield
    algorithms.cache_clear()
    sys.modules.pop("rookery.algorithms.calm", None)


@pytest.mark.usefixtures("_one_more_file")
def test_a_new_algorithm_is_one_file_and_is_selected_by_its_name(tmp_path):
    run = rookery.train(
        "iterated_prisoners_dilemma",
        run=tmp_path / "run",
        workers=0,
        rounds=2,
        turns_per_round=5,
        algorithm="calm",
        game={"turns": 5},
    )

    assert {agent.algorithm.name for agent in run.agents} == {"calm"}
    assert (run.metrics()["updates"] > 0).any()

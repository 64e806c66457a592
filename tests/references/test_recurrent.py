"""Recurrent DQN and PPO: every update of drawn groups, going through rows one by one."""

from __future__ import annotations

import pytest

from tests.references.policy_learners import compare_recurrent_ppo
from tests.references.recurrent import compare_recurrent_dqn


@pytest.mark.parametrize("case", range(8))
def test_updates_of_recurrent_dqn_are_those_of_the_papers(case):
    compare_recurrent_dqn(case)


@pytest.mark.parametrize("case", range(4))
def test_updates_of_recurrent_ppo_are_those_of_the_papers(case):
    compare_recurrent_ppo(case)

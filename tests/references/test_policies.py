"""PPO and V-trace: every update of drawn groups, against the papers' formulas."""

from __future__ import annotations

import pytest

from tests.references.policy_learners import compare_ppo, compare_vtrace


@pytest.mark.parametrize("case", range(5))
def test_updates_of_ppo_are_those_of_the_papers(case):
    compare_ppo(case)


@pytest.mark.shows("D7")
@pytest.mark.parametrize("case", range(5))
def test_updates_of_vtrace_are_those_of_the_paper(case):
    compare_vtrace(case)

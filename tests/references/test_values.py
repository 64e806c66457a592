"""DQN and IQN: every update of drawn groups, against the papers' formulas."""

from __future__ import annotations

import pytest

from tests.references.value_learners import compare_dqn, compare_iqn

pytestmark = pytest.mark.shows("D3")


@pytest.mark.parametrize("case", range(24))
def test_updates_of_dqn_are_those_of_the_papers(case):
    compare_dqn(case)


@pytest.mark.parametrize("case", range(8))
def test_updates_of_iqn_are_those_of_the_papers(case):
    compare_iqn(case)

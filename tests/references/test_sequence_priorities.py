"""Recurrent DQN with priorities and burn-in: some sequences have no row to learn from."""

from __future__ import annotations

import pytest

from tests.references.recurrent import compare_recurrent_dqn


@pytest.mark.parametrize("case", range(4))
def test_a_sequence_that_nothing_is_learned_from_keeps_its_priority(case):
    compare_recurrent_dqn(
        case,
        n_step=2,
        replay={"kind": "prioritised", "exponent": 1.0},
        recurrent={"burn_in": 3, "sequence": 7},
    )

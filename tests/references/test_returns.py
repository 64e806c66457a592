"""Returns, discounts and shaped rewards of drawn lives, walking on one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.replay.rewards import RewardSpread
from tests.references.drawing import Chance, draw_group
from tests.references.lives import TURNS, WORLDS, Life
from tests.references.returns import factor_of, transitions
from tests.references.watching import agree, same

ROUNDS = 4

pytestmark = pytest.mark.shows("D2", "D6")


def compare_returns(case: int) -> None:
    """Compare all steps that a reader has at every border with a walk over plain rows."""
    chance = Chance(7, case)
    for agent in draw_group(chance, n_step=chance.whole(1, 5)):
        n = agent.settings.n_step
        life = Life(agent, case, n, hidden=0)
        spread = RewardSpread(agent.settings.reward)
        for number in range(ROUNDS):
            life.live()
            spread.update(life.reader, number * TURNS)
            compare_steps(life, n, first=number * TURNS)
            agree("factor of rewards", spread.factor, factor_of(life))


def compare_steps(life: Life, n: int, first: int) -> None:
    reader, expected = life.reader, transitions(life, n)
    turns, worlds = reader.opening(reader.usable)
    places = list(zip(turns.tolist(), worlds.tolist(), strict=True))
    same("usable steps", places, [step.place for step in expected])
    closes = reader.closes(reader.usable).tolist()
    same("closing rows", closes, [step.closes for step in expected])
    gains, discounts = reader.outcomes(turns, worlds)
    agree("returns", gains, [step.gain for step in expected])
    agree("discounts", discounts, [step.gamma for step in expected])
    newest = [step.turn * WORLDS + step.world for step in expected if step.closes >= first]
    same("steps of a round", np.sort(reader.closed_since(first)).tolist(), newest)


@pytest.mark.parametrize("case", range(16))
def test_steps_are_those_of_a_walk_over_plain_rows(case):
    compare_returns(case)

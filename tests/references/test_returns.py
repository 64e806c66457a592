"""Returns, discounts and shaped rewards, against a loop over plain rows."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.replay.rewards import RewardSpread
from tests.references.drawing import Sampler, draw_group
from tests.references.experience import TURNS, WORLDS, Experience
from tests.references.recording import agree, same
from tests.references.returns import factor_of, transitions

ROUNDS = 4

pytestmark = pytest.mark.shows("D2", "D6")


def compare_returns(case: int) -> None:
    """Compare a reader's transitions at every boundary with a loop over plain rows."""
    sampler = Sampler(7, case)
    for agent in draw_group(sampler, n_step=sampler.whole(1, 5)):
        n = agent.settings.n_step
        experience = Experience(agent, case, n, hidden=0)
        spread = RewardSpread(agent.settings.reward)
        for number in range(ROUNDS):
            experience.play_round()
            spread.update(experience.reader, number * TURNS)
            compare_steps(experience, n, first=number * TURNS)
            agree("factor of rewards", spread.factor, factor_of(experience))


def compare_steps(experience: Experience, n: int, first: int) -> None:
    reader, expected = experience.reader, transitions(experience, n)
    turns, worlds = reader.opening(reader.usable)
    places = list(zip(turns.tolist(), worlds.tolist(), strict=True))
    same("usable steps", places, [step.row for step in expected])
    closes = reader.closes(reader.usable).tolist()
    same("closing rows", closes, [step.closes for step in expected])
    gains, discounts = reader.outcomes(turns, worlds)
    agree("returns", gains, [step.gain for step in expected])
    agree("discounts", discounts, [step.gamma for step in expected])
    newest = [step.turn * WORLDS + step.world for step in expected if step.closes >= first]
    same("steps of a round", np.sort(reader.closed_since(first)).tolist(), newest)


@pytest.mark.parametrize("case", range(16))
def test_transitions_are_those_of_a_loop_over_plain_rows(case):
    compare_returns(case)

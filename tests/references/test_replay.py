"""Prioritised replay: rounds of draws and updates, against a plain list of priorities."""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

import numpy as np
import pytest

from rookery.replay.priorities import Priorities
from tests.references.drawing import Sampler, draw_group
from tests.references.experience import TURNS, WORLDS, Experience
from tests.references.recording import agree, same
from tests.references.replay import PlainPriorities
from tests.references.returns import transitions

ROUNDS = 6

pytestmark = pytest.mark.shows("B13")


def compare_priorities(case: int) -> None:
    """Compare draws and updates with random errors, over some rounds."""
    sampler = Sampler(8, case)
    for agent in draw_group(sampler):
        experience = Experience(agent, case, agent.settings.n_step, hidden=0)
        tree = Priorities(agent.settings.replay, experience.reader)
        plain = PlainPriorities(agent.settings.replay, experience.slots, WORLDS)
        for number in range(ROUNDS):
            experience.play_round()
            tree.advance(experience.reader.closed_since(number * TURNS))
            plain.take_in(
                [step.row for step in transitions(experience, agent.settings.n_step)]
            )
            agree("priorities", tree.leaves, plain.in_memory())
            if plain.weights:
                compare_draws(sampler.generator, tree, plain)


def compare_draws(generator, tree: Priorities, plain: PlainPriorities) -> None:
    for _ in range(3):
        numbers, errors = generator.random(5), generator.exponential(2.0, 5)
        steps, importance = tree.sample(numbers)
        places, weights = plain.draw(numbers)
        same("drawn transitions", [divmod(step, WORLDS) for step in steps.tolist()], places)
        agree("importance weights", importance, weights)
        tree.update(steps, errors)
        plain.update(places, errors.tolist())
        agree("priorities", tree.leaves, plain.in_memory())
        agree("largest priority", tree.largest, plain.largest)


@pytest.mark.parametrize("case", range(10))
def test_priorities_and_draws_are_those_of_a_plain_list(case):
    compare_priorities(case)


def test_draws_are_as_frequent_as_the_paper_says():
    """P(i) = p_i^α / Σ p^α, over numbers that cover all of [0, 1) evenly."""
    agent = draw_group(Sampler(8, 0), replay={"exponent": 0.6, "capacity": 60})[0]
    experience = Experience(agent, 0, 1, hidden=0)
    experience.play_round()
    tree, steps = (
        Priorities(agent.settings.replay, experience.reader),
        experience.reader.usable,
    )
    tree.advance(steps)
    errors = np.random.default_rng(0).exponential(2.0, len(steps))
    tree.update(steps, errors)

    drawn, _ = tree.sample((np.arange(100_000) + 0.5) / 100_000)

    powers = (errors + 1e-3) ** 0.6
    shares = [(drawn == step).mean() for step in steps]
    np.testing.assert_allclose(shares, powers / powers.sum(), rtol=0, atol=2e-5)

"""What is measured of a run, with scripted players in the place of trained agents."""

from __future__ import annotations

import pytest

import rookery
from rookery.evaluation.play import TRAINED
from rookery.reproduction import measures


def matches(*players, game="climbing", **settings):
    """Return the match of these players as if they were trained."""
    match = rookery.play(game, list(players), episodes=4, game=settings)
    return {TRAINED: match}


A_A = ("always_a", "always_a")
B_C = ("always_b", "always_c")


@pytest.mark.parametrize(
    ("measure", "players", "expected"),
    [
        (measures.mean_return(), A_A, 11.0),
        (measures.mean_return(), B_C, 6.0),
        (measures.mean_sum(), B_C, 12.0),
        (measures.share_at(11.0), A_A, 1.0),
        (measures.share_at(11.0), B_C, 0.0),
        (measures.share_of_agents(6.0), B_C, 1.0),
        (measures.share_of_agents(6.1), B_C, 0.0),
    ],
)
def test_one_shot_games_are_measured(measure, players, expected):
    assert measure.of(matches(*players)) == expected


def test_the_reward_per_turn_is_a_mean_over_turns():
    result = measures.mean_reward(25).of(matches(*B_C, turns=25))

    assert result == 6.0


@pytest.mark.parametrize(
    ("players", "expected"),
    [
        (("cooperator", "cooperator"), 1.0),
        (("cooperator", "defector"), 0.0),  # half of the actions, and not more
        (("defector", "defector"), 0.0),
    ],
)
def test_a_seed_ends_in_the_action_that_most_of_its_turns_have(players, expected):
    played = matches(*players, game="iterated_stag_hunt", turns=20)

    assert measures.share_that_takes("stag", 20).of(played) == expected


def test_a_return_can_be_compared_with_that_of_a_scripted_player():
    measure = measures.share_of_player("always_b")
    played = matches(*A_A) | {"always_b": matches("always_b", "always_b")[TRAINED]}

    assert measure.players == (TRAINED, "always_b")
    assert measure.of(played) == pytest.approx(11 / 7)


def test_agents_that_solve_a_game_are_counted_one_by_one():
    played = matches("cooperator", "defector", game="iterated_prisoners_dilemma", turns=10)

    assert measures.share_of_agents(50.0).of(played) == 0.5

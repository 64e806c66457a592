"""Common-payoff matrix games: payoffs, the one-shot game, and what is observed."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.games import registry
from rookery.games.builtin.climbing import Climbing, Penalty

A, B, C = range(3)


def build(rules=Climbing, worlds=1, seed=0, first_world=0, **settings):
    return rules(rules.Settings(**settings), worlds, seed, first_world)


def turn(game, first, second):
    """Play a turn with the same actions in all worlds; return observations and outcome."""
    (phase,) = game.begin_turn()
    seen = game.observe(phase)
    game.act(phase, np.tile([first, second], (game.worlds, 1)))
    return seen, game.end_turn()


def paid(rules, **settings):
    """Return what both get, by the actions of the first and of the second agent."""
    game = build(rules, turns=9, **settings)
    rewards = [[turn(game, i, j)[1].rewards[0] for j in range(3)] for i in range(3)]
    assert all(first == second for row in rewards for first, second in row)
    return [[float(first) for first, _ in row] for row in rewards]


@pytest.mark.parametrize(
    ("rules", "settings", "payoffs"),
    [
        (Climbing, {}, [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]),
        (Climbing, {"penalty": -2.0}, [[11, -2, 0], [-2, 7, 6], [0, 0, 5]]),
        (Penalty, {}, [[10, 0, 0], [0, 2, 0], [0, 0, 10]]),
        (Penalty, {"penalty": -100.0}, [[10, 0, -100], [0, 2, 0], [-100, 0, 10]]),
    ],
)
def test_both_get_the_payoff_of_the_joint_action(rules, settings, payoffs):
    assert paid(rules, **settings) == payoffs


def test_an_episode_is_one_turn_by_default_and_then_a_closing_turn():
    game = build(worlds=2)

    outcomes = [turn(game, A, A)[1] for _ in range(3)]

    assert [outcome.truncated.all() for outcome in outcomes] == [True, False, True]
    assert [float(outcome.rewards.sum()) for outcome in outcomes] == [44.0, 0.0, 44.0]


def test_a_repeated_game_lasts_its_turns():
    game = build(turns=25)

    outcomes = [turn(game, B, B)[1] for _ in range(26)]

    assert [bool(outcome.truncated.any()) for outcome in outcomes].index(True) == 24
    assert sum(float(outcome.rewards[0, 0]) for outcome in outcomes) == 175.0


def test_nothing_is_observed_by_default():
    game = build(turns=3)

    seen = [turn(game, A, C)[0] for _ in range(4)]

    assert [spec.parts["past"].shape for spec in game.agents] == [(1, 9), (1, 9)]
    assert not any(part["past"].any() for each in seen for part in each.parts)


def test_with_a_history_each_agent_observes_its_own_action_first():
    game = build(turns=9, history=(1, 0))
    turn(game, A, C)

    seen, _ = turn(game, A, A)

    first, second = (part["past"][0, 0].tolist() for part in seen.parts)
    assert first == [0, 0, 1, 0, 0, 0, 0, 0, 0]  # mine a, theirs c
    assert second == [0] * 9


def test_the_actions_but_the_last_are_counted():
    _, outcome = turn(build(worlds=2), A, C)

    assert {name: count.tolist() for name, count in outcome.counts.items()} == {
        "a": [[1, 0]] * 2,
        "b": [[0, 0]] * 2,
    }


@pytest.mark.parametrize("game", ["climbing", "penalty"])
def test_players_always_take_their_action(game):
    names = ["always_a", "always_b", "always_c"]

    mean = [
        [rookery.play(game, [one, other], episodes=2).returns.mean() for other in names]
        for one in names
    ]

    assert np.array_equal(mean, paid(Climbing if game == "climbing" else Penalty))


def test_the_discount_is_0_where_nothing_is_carried_over():
    entry = registry.find("climbing")

    assert entry.training["discount"] == 0.0

"""Iterated matrix games: payoffs, histories, ends and scripted players."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from rookery.games.builtin.matrix import (
    PLAYERS,
    IteratedChicken,
    IteratedPrisonersDilemma,
    IteratedStagHunt,
)
from rookery.games.loop import GameLoop
from rookery.rng import Purpose, Stream

# Rewards for (first, first), (first, second), (second, first), (second, second).
GAMES = {
    "dilemma": (IteratedPrisonersDilemma, [(3, 3), (0, 5), (5, 0), (1, 1)]),
    "stag hunt": (IteratedStagHunt, [(4, 4), (0, 3), (3, 0), (2, 2)]),
    "chicken": (IteratedChicken, [(3, 3), (1, 5), (5, 1), (0, 0)]),
}
NOTHING = [0, 0, 0, 0]


def build(rules=IteratedPrisonersDilemma, worlds=1, seed=0, first_world=0, **settings):
    return rules(rules.Settings(**settings), worlds, seed, first_world)


def turn(game, first, second):
    """Play a turn with the same actions in all worlds; return observations and outcome."""
    (phase,) = game.begin_turn()
    seen = game.observe(phase)
    game.act(phase, np.tile([first, second], (game.worlds, 1)))
    return seen, game.end_turn()


def pasts(seen, world=0):
    return [part["past"][world].tolist() for part in seen.parts]


def random_turns(game, turns):
    """Play random actions, and return every array."""
    arrays = []
    for number in range(turns):
        choices = np.random.default_rng(number).integers(2, size=2)
        seen, outcome = turn(game, *choices)
        arrays += [part["past"] for part in seen.parts] + [seen.active[0]]
        arrays += [outcome.rewards, outcome.terminated, outcome.truncated]
        arrays += list(outcome.counts.values())
    return arrays


# The game.


@pytest.mark.parametrize(("rules", "payoffs"), GAMES.values(), ids=GAMES)
def test_payoffs_are_the_usual_ones(rules, payoffs):
    game = build(rules)

    paid = [
        tuple(turn(game, first, second)[1].rewards[0])
        for first in (0, 1)
        for second in (0, 1)
    ]

    assert paid == payoffs


@pytest.mark.parametrize(
    ("name", "choices", "expected"),
    [
        ("both_first", (0, 0), (9, 9)),
        ("both_second", (1, 1), (9, 9)),
        ("tempted", (1, 0), (9, 0)),
        ("betrayed", (0, 1), (9, 5)),
    ],
)
def test_payoffs_are_settings(name, choices, expected):
    game = build(**{name: 9.0})

    _, outcome = turn(game, *choices)

    assert tuple(outcome.rewards[0]) == expected


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        (IteratedPrisonersDilemma, ("cooperate", "defect")),
        (IteratedStagHunt, ("stag", "hare")),
        (IteratedChicken, ("swerve", "straight")),
    ],
    ids=GAMES,
)
def test_the_cooperative_action_comes_first(rules, names):
    assert [spec.actions for spec in build(rules).agents] == [names, names]


def test_both_agents_act_in_one_phase():
    assert build().begin_turn() == ((0, 1),)


def test_cooperative_actions_are_counted():
    _, outcome = turn(build(worlds=2), 0, 1)

    assert outcome.counts["cooperate"].tolist() == [[1, 0]] * 2


def test_nothing_is_observed_in_the_first_turn():
    seen, _ = turn(build(), 1, 0)

    assert pasts(seen) == [[NOTHING], [NOTHING]]


@pytest.mark.parametrize(
    ("mine", "theirs", "seen_by_first", "seen_by_second"),
    [
        (0, 0, [1, 0, 0, 0], [1, 0, 0, 0]),
        (0, 1, [0, 1, 0, 0], [0, 0, 1, 0]),
        (1, 0, [0, 0, 1, 0], [0, 1, 0, 0]),
        (1, 1, [0, 0, 0, 1], [0, 0, 0, 1]),
    ],
)
def test_each_agent_observes_its_own_action_first(
    mine, theirs, seen_by_first, seen_by_second
):
    game = build()
    turn(game, mine, theirs)

    seen, _ = turn(game, 0, 0)

    assert pasts(seen) == [[seen_by_first], [seen_by_second]]


def test_different_histories_give_different_specs():
    game = build(history=(1, 3))

    assert [spec.parts["past"].shape for spec in game.agents] == [(1, 4), (3, 4)]


def test_each_agent_observes_its_own_number_of_turns_newest_first():
    game = build(history=(1, 3))
    turn(game, 0, 1)
    turn(game, 1, 1)

    seen, _ = turn(game, 0, 0)

    assert pasts(seen) == [
        [[0, 0, 0, 1]],
        [[0, 0, 0, 1], [0, 0, 1, 0], NOTHING],
    ]


@pytest.mark.parametrize("history", [(-1, 1), (0, 1), (1, 0)], ids=str)
def test_history_of_less_than_one_turn_is_refused(history):
    with pytest.raises(ValidationError, match="history"):
        IteratedPrisonersDilemma.Settings(history=history)


def test_episode_is_truncated_after_its_turns():
    game = build(worlds=2, turns=3)

    outcomes = [turn(game, 0, 0)[1] for _ in range(3)]

    assert [outcome.truncated.all() for outcome in outcomes] == [False, False, True]
    assert not any(outcome.terminated.any() for outcome in outcomes)


def test_closing_turn_shows_the_last_actions_and_pays_nothing():
    game = build(turns=2)
    turn(game, 0, 0)
    turn(game, 1, 0)

    seen, outcome = turn(game, 1, 1)

    assert pasts(seen) == [[[0, 0, 1, 0]], [[0, 1, 0, 0]]]
    assert not seen.active[0].any()
    assert not outcome.rewards.any()
    assert not outcome.counts["cooperate"].any()
    assert not (outcome.truncated | outcome.terminated).any()


@pytest.mark.shows("D11")
def test_new_episode_starts_with_an_empty_history():
    game = build(turns=1, history=(2, 2))
    turn(game, 1, 1)
    turn(game, 1, 1)

    seen, _ = turn(game, 0, 0)

    assert seen.active[0].all()
    assert pasts(seen) == [[NOTHING, NOTHING]] * 2


def test_episode_never_stops_with_probability_zero():
    game = build(worlds=50, turns=1000)

    assert not any(turn(game, 0, 0)[1].terminated.any() for _ in range(50))


def test_episode_stops_at_once_with_probability_one():
    _, outcome = turn(build(worlds=4, stop=1.0), 0, 0)

    assert outcome.terminated.all()
    assert not outcome.truncated.any()


def test_episode_stops_after_a_turn_with_the_set_probability():
    game = build(worlds=200, turns=100_000, stop=0.1)

    stopped, played = 0, 0
    for _ in range(100):
        seen, outcome = turn(game, 0, 0)
        stopped += outcome.terminated[:, 0].sum()
        played += seen.active[0].sum()

    assert abs(stopped / played - 0.1) < 5 * np.sqrt(0.09 / played)


def test_worlds_stop_independently():
    game = build(worlds=50, stop=0.3)

    _, outcome = turn(game, 0, 0)

    assert 0 < outcome.terminated[:, 0].sum() < 50


def test_both_players_stop_together():
    game = build(worlds=50, stop=0.3)

    _, outcome = turn(game, 0, 0)

    assert np.array_equal(outcome.terminated[:, 0], outcome.terminated[:, 1])


def test_world_of_many_plays_like_the_same_world_on_its_own():
    many = random_turns(build(worlds=16, stop=0.1, turns=20, history=(1, 3)), 60)
    alone = random_turns(
        build(worlds=1, first_world=5, stop=0.1, turns=20, history=(1, 3)), 60
    )

    for of_many, of_one in zip(many, alone, strict=True):
        assert np.array_equal(of_many[5], of_one[0])


def test_restoring_a_snapshot_repeats_everything():
    game = build(worlds=4, stop=0.1, turns=20, history=(1, 3))
    random_turns(game, 33)
    kept = game.snapshot()
    first = random_turns(game, 100)

    game.restore(kept)

    for before, after in zip(first, random_turns(game, 100), strict=True):
        assert np.array_equal(before, after)


def test_facts_are_the_last_actions():
    game = build(worlds=2)
    turn(game, 1, 0)

    facts = game.facts()

    assert facts["last"].tolist() == [[1, 0]] * 2
    assert facts["turn"].tolist() == [1, 1]


# Scripted players.


def sit(game, *names):
    return [
        PLAYERS[name](spec, game.settings, game.worlds, Stream(0, Purpose.PLAYER, i))
        for i, (spec, name) in enumerate(zip(game.agents, names, strict=True))
    ]


def choices(first, second, number, **settings):
    """Return what two players choose, as a string per player; closing turns left out."""
    game = build(worlds=2, **settings)
    actions = []
    for played in GameLoop(game, sit(game, first, second)).turns():
        if not played.closing.any():
            actions.append(played.actions[1])
        if len(actions) == number:
            break
    return ["".join("CD"[action] for action in row) for row in np.array(actions).T]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("cooperator", "defector", ["CCCCCC", "DDDDDD"]),
        ("tit_for_tat", "defector", ["CDDDDD", "DDDDDD"]),
        ("tit_for_tat", "tit_for_tat", ["CCCCCC", "CCCCCC"]),
        ("tit_for_tat", "cooperator", ["CCCCCC", "CCCCCC"]),
        ("grim", "defector", ["CDDDDD", "DDDDDD"]),
        ("grim", "cooperator", ["CCCCCC", "CCCCCC"]),
        ("pavlov", "defector", ["CDCDCD", "DDDDDD"]),
        ("pavlov", "cooperator", ["CCCCCC", "CCCCCC"]),
        ("pavlov", "pavlov", ["CCCCCC", "CCCCCC"]),
    ],
)
def test_players_choose_as_worked_out_by_hand(first, second, expected):
    assert choices(first, second, 6) == expected


class Scripted:
    """The other player's part, by heart."""

    def __init__(self, spec, line):
        self.spec, self.line = spec, line

    def act(self, observation, turn):
        return np.full(len(observation.active), "CD".index(self.line[turn]))

    def forget(self, starting):
        pass


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("tit_for_tat", "CCDCDDC"),
        ("grim", "CCDDDDD"),
        ("pavlov", "CCDDCDD"),
    ],
)
def test_players_answer_a_mixed_opponent_as_worked_out_by_hand(name, answer):
    game = build()
    player, _ = sit(game, name, name)
    other = Scripted(game.agents[1], "CDCDDCC")
    turns = GameLoop(game, [player, other]).turns()

    actions = [next(turns).actions[0, 0] for _ in range(7)]

    assert "".join("CD"[action] for action in actions) == answer


@pytest.mark.parametrize("name", ["tit_for_tat", "grim", "pavlov"])
def test_players_cooperate_first_in_every_episode(name):
    first, _ = choices(name, "defector", 9, turns=3)

    assert first[0] == first[3] == first[6] == "C"
    assert first == first[:3] * 3


def test_grim_forgives_only_in_the_world_whose_episode_is_over():
    game = build(worlds=2)
    grim, _ = sit(game, "grim", "grim")
    grim.memory["betrayed"][...] = True

    grim.forget(np.array([True, False]))

    assert grim.memory["betrayed"].tolist() == [False, True]


@pytest.mark.parametrize("history", [(1, 4), (4, 1)], ids=str)
def test_players_work_with_any_length_of_history(history):
    assert choices("tit_for_tat", "defector", 4, history=history) == ["CDDD", "DDDD"]

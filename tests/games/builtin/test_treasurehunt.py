"""Treasurehunt: its settings, its rules, its forager, and that the rules stay short."""

from __future__ import annotations

import ast
import inspect
import re

import numpy as np
import pytest

from rookery.games.builtin.gathering import Gathering
from rookery.games.builtin.treasurehunt import Forager, Treasurehunt
from rookery.games.players import RandomPlayer
from rookery.specs import AgentSpec, Part

UP, RIGHT, DOWN, LEFT = range(4)
LOOT = ("gem", "food", "bone")
SHORT = pytest.mark.parametrize(
    "rules", [Treasurehunt, Gathering], ids=["treasurehunt", "gathering"]
)


@pytest.fixture
def hunt(board):
    """Two hunters in the middle of a field that stays empty."""
    hunt = board(Treasurehunt, worlds=2, agents=2, spawn=0.0)
    hunt.place(0, 10, 10)
    hunt.place(1, 15, 15)
    return hunt


def within(share, expected, count):
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("height", 21),
        ("width", 21),
        ("gem", 10.0),
        ("food", 5.0),
        ("bone", -10.0),
        ("bump", -1.0),
        ("spawn", 0.005),
        ("vision", 2),
        ("turns", 100),
        ("agents", 3),
    ],
)
def test_settings_are_those_of_the_original(name, value):
    assert getattr(Treasurehunt.Settings(), name) == value


def test_field_is_walled_all_around(board):
    hunt = board(Treasurehunt)

    walls = hunt.on_map(hunt.world.mask(hunt.rules.wall))
    expected = np.ones((21, 21), bool)
    expected[1:-1, 1:-1] = False
    assert np.array_equal(walls, expected)


def test_hunters_have_four_moves(board):
    spec = board(Treasurehunt).engine.agents[0]

    assert spec.actions == ("up", "right", "down", "left")


@pytest.mark.parametrize(("vision", "side"), [(1, 3), (2, 5), (4, 9)])
def test_hunters_see_as_far_as_their_vision(board, vision, side):
    view = board(Treasurehunt, vision=vision).engine.agents[0].parts["view"]

    assert view.shape == (5, side, side)
    assert view.labels == ("wall", *LOOT, "hunter")


@pytest.mark.parametrize(("name", "worth"), [("gem", 10), ("food", 5), ("bone", -10)])
def test_loot_gives_its_value_and_is_gone(hunt, name, worth):
    kind = getattr(hunt.rules, name)
    hunt.world.fill(kind, hunt.mask((9, 10)))

    outcome = hunt.turn("up", "up")

    assert outcome.rewards.tolist() == [[worth, 0]] * 2
    assert hunt.world.count(kind).tolist() == [0, 0]
    assert hunt.spot(0) == (9, 10)


@pytest.mark.parametrize("name", [*LOOT, "bump"])
def test_value_of_loot_is_a_setting(board, name):
    hunt = board(Treasurehunt, agents=1, spawn=0.0, **{name: 2.5})
    hunt.place(0, 1, 10)
    if name != "bump":
        hunt.world.fill(getattr(hunt.rules, name), hunt.mask((2, 10)))

    outcome = hunt.turn("up" if name == "bump" else "down")

    assert outcome.rewards.tolist() == [[2.5]]


@pytest.mark.parametrize(
    ("row", "column", "way"),
    [(1, 10, "up"), (10, 19, "right"), (19, 10, "down"), (10, 1, "left")],
    ids=["up", "right", "down", "left"],
)
def test_bumping_a_wall_costs_one_and_does_not_move(hunt, row, column, way):
    hunt.place(0, row, column)

    outcome = hunt.turn(way, "up")

    assert outcome.rewards[:, 0].tolist() == [-1, -1]
    assert hunt.spot(0) == (row, column)


def test_hunters_that_block_each_other_stay_and_pay_nothing(hunt):
    hunt.place(1, 9, 10)

    outcome = hunt.turn("up", "down")

    assert (outcome.rewards == 0).all()
    assert [hunt.spot(0), hunt.spot(1)] == [(10, 10), (9, 10)]


@pytest.mark.shows("H2")
def test_gem_between_two_hunters_goes_to_one_of_them(board):
    hunt = board(Treasurehunt, worlds=8, agents=2, spawn=0.0, turns=1000)

    wins = np.zeros(2)
    for _ in range(100):
        hunt.place(0, 10, 9)
        hunt.place(1, 10, 11)
        hunt.world.fill(hunt.rules.gem, hunt.mask((10, 10)))
        rewards = hunt.turn("right", "left").rewards
        assert rewards.sum(axis=1).tolist() == [10] * 8
        wins += rewards[0] > 0

    assert abs(wins[0] - 50) < 5 * np.sqrt(25)


def test_hunters_start_within_the_walls(board):
    hunt = board(Treasurehunt, worlds=50, agents=3)

    positions = hunt.engine.facts()["position"]
    assert positions.min() >= 1
    assert positions.max() <= 19


@pytest.mark.shows("H1")
@pytest.mark.parametrize("spawn", [0.005, 0.2])
def test_each_empty_cell_fills_with_the_set_probability_before_agents_act(board, spawn):
    hunt = board(Treasurehunt, worlds=64, agents=3, spawn=spawn)

    appeared, empty = np.zeros(3), 0
    kinds = [getattr(hunt.rules, name) for name in LOOT]
    for _ in range(40):
        counts = np.array([hunt.world.count(kind).sum() for kind in kinds])
        empty += 64 * (19 * 19 - 3) - counts.sum()
        (phase,) = hunt.engine.begin_turn()
        appeared += [hunt.world.count(kind).sum() for kind in kinds] - counts
        hunt.engine.act(phase, np.zeros((64, 3), np.int64))
        hunt.engine.end_turn()

    assert within(appeared.sum() / empty, spawn, empty)
    assert within(appeared / appeared.sum(), np.full(3, 1 / 3), appeared.sum()).all()


def test_nothing_appears_on_walls_hunters_or_loot(board):
    hunt = board(Treasurehunt, worlds=4, agents=3, spawn=1.0)

    hunt.engine.begin_turn()
    things = hunt.world.layer("loot").copy()
    hunt.engine.begin_turn()

    filled = (things > 0).sum(axis=1)
    assert filled.tolist() == [19 * 19 - 3] * 4
    assert np.array_equal(hunt.world.layer("loot"), things)


def test_field_is_empty_at_the_start(board):
    hunt = board(Treasurehunt, worlds=4)

    assert not hunt.world.layer("loot").any()


def test_episode_is_truncated_after_a_hundred_turns(board):
    hunt = board(Treasurehunt, worlds=2, agents=2)

    outcomes = [hunt.turn("up", "left") for _ in range(100)]

    assert not any(outcome.truncated.any() for outcome in outcomes[:-1])
    assert outcomes[-1].truncated.all()
    assert not any(outcome.terminated.any() for outcome in outcomes)


@pytest.mark.parametrize(("rules", "most"), [(Treasurehunt, 35), (Gathering, 55)])
def test_rules_are_short(rules, most):
    lines = [line for line in inspect.getsource(rules).splitlines() if line.strip()]

    assert len(lines) <= most


@SHORT
def test_game_does_not_mention_worlds(rules):
    assert not re.search(r"\bworlds\b", inspect.getsource(rules))


@SHORT
def test_game_has_no_index_over_worlds(rules):
    indexed = [
        n
        for n in ast.walk(ast.parse(inspect.getsource(rules)))
        if isinstance(n, ast.Subscript)
    ]

    assert indexed == []


# The forager.

HUNTER = AgentSpec(
    "0",
    "hunter",
    {
        "view": Part(
            (5, 5, 5), np.dtype(np.uint8), ("wall", "gem", "food", "bone", "hunter")
        )
    },
    ("up", "right", "down", "left"),
)


@pytest.fixture
def forage(act):
    """Return the action of a forager that sees {(row, column): name} around (2, 2)."""

    def forage(things, heading=UP):
        view = np.zeros((1, 5, 5, 5), np.uint8)
        view[0, HUNTER.parts["view"].labels.index("hunter"), 2, 2] = 1
        for (row, column), name in things.items():
            view[0, HUNTER.parts["view"].labels.index(name), row, column] = 1
        return act(Forager, HUNTER, Treasurehunt.Settings(), view, heading=heading)

    return forage


@pytest.mark.parametrize(
    ("spot", "way"),
    [((1, 2), UP), ((2, 3), RIGHT), ((3, 2), DOWN), ((2, 1), LEFT), ((2, 4), RIGHT)],
)
def test_forager_goes_for_a_gem(forage, spot, way):
    assert forage({spot: "gem"}, heading=(way + 2) % 4) == way


def test_forager_prefers_the_gem_to_the_food(forage):
    assert forage({(1, 2): "food", (3, 2): "gem"}) == DOWN


def test_forager_takes_the_nearer_of_two_gems_first(forage):
    assert forage({(2, 1): "gem", (2, 4): "gem"}) == LEFT


def test_forager_goes_around_a_bone(forage):
    action = forage({(1, 2): "bone", (0, 2): "gem"})

    assert action in (RIGHT, LEFT)


def test_forager_takes_a_bone_if_the_gems_behind_it_are_worth_it(forage):
    fenced = {(1, 1): "bone", (1, 3): "bone", (1, 2): "bone"}
    fenced |= {(0, 1): "gem", (0, 2): "gem", (0, 3): "gem"}

    assert forage(fenced) == UP


@pytest.mark.parametrize("way", [UP, RIGHT, DOWN, LEFT])
def test_forager_without_treasure_keeps_its_heading(forage, way):
    assert forage({}, heading=way) == way


def test_forager_turns_at_a_wall(forage):
    wall = {(1, column): "wall" for column in range(5)}

    assert forage(wall, heading=UP) != UP


def test_forager_does_not_count_on_treasure_behind_another_hunter(forage):
    shut_in = {(1, 2): "hunter", (0, 2): "gem"}
    shut_in |= {(1, 1): "wall", (1, 3): "wall"}

    assert forage(shut_in, heading=DOWN) == DOWN


@pytest.fixture(scope="module")
def foragers(play):
    return play(Treasurehunt, [Forager] * 3, worlds=32)[0]


@pytest.fixture(scope="module")
def randoms(play):
    return play(Treasurehunt, [RandomPlayer] * 3, worlds=32)[0]


def test_three_foragers_score_well(foragers):
    assert foragers.mean() > 140


def test_random_hunters_score_little(randoms):
    assert -10 < randoms.mean() < 30


def test_forager_beats_random_by_far(foragers, randoms):
    assert foragers.mean() > randoms.mean() + 100


def test_all_seats_of_foragers_do_equally_well(foragers):
    apart = foragers - foragers.mean(axis=1, keepdims=True)

    errors = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
    assert (np.abs(apart.mean(axis=0)) < 5 * errors).all()


def test_a_single_forager_finds_more_than_each_of_three(play, foragers):
    alone, _ = play(Treasurehunt, [Forager], worlds=32, agents=1)

    assert alone.mean() > foragers.mean() + 30


@pytest.mark.parametrize("vision", [1, 4])
def test_forager_plays_with_any_vision(play, vision):
    rewards, _ = play(Treasurehunt, [Forager] * 2, worlds=8, agents=2, vision=vision)

    assert rewards.mean() > 60

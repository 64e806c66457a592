"""Gathering: apples that grow back, beams, being off the map, and scripted players."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from rookery.games.builtin.gathering import Gathering, Greedy, Peaceful
from rookery.games.gridworld import GridEngine
from rookery.games.players import RandomPlayer

UP, RIGHT, DOWN, LEFT = range(4)
ORCHARD = 3 + 5 + 7 + 5 + 3


@pytest.fixture
def rivals(board):
    """Agent 0 looks at agent 1 from three cells away; agent 0 acts first."""
    rivals = board(Gathering, worlds=2, agents=2, order="fixed", regrow=0.0)
    rivals.place(0, 1, 4, facing=RIGHT)
    rivals.place(1, 1, 7, facing=UP)
    return rivals


def apples(game):
    return game.world.count(game.rules.apple).tolist()


def test_orchard_is_full_at_the_start(board):
    assert apples(board(Gathering, worlds=2)) == [ORCHARD] * 2


def test_gatherers_step_turn_zap_and_stay(board):
    assert board(Gathering).engine.agents[0].actions == (
        *("forward", "step_right", "backward", "step_left"),
        *("turn_right", "turn_left", "zap", "stay"),
    )


def test_window_looks_ahead(board):
    parts = board(Gathering).engine.agents[0].parts

    assert parts["view"].shape == (4, 11, 11)
    assert parts["view"].labels == ("wall", "apple", "beam", "gatherer")
    assert parts["self"].labels == ("marks",)


@pytest.mark.parametrize("facing", [UP, RIGHT, DOWN, LEFT])
def test_rival_ahead_is_at_the_top_of_the_view_for_every_facing(rivals, facing):
    down, right = [(-1, 0), (0, 1), (1, 0), (0, -1)][facing]
    rivals.place(0, 4, 6, facing)
    rivals.place(1, 4 + 2 * down, 6 + 2 * right)

    rivals.look((0, 1))

    gatherer = rivals.engine.agents[0].parts["view"].labels.index("gatherer")
    there = np.argwhere(rivals.seen[0]["view"][0, gatherer]).tolist()
    assert there == [[6, 5], [8, 5]]


def test_apple_gives_a_reward_of_one_and_is_counted(rivals):
    rivals.place(0, 3, 9, facing=RIGHT)

    outcome = rivals.turn("forward", "stay")

    assert outcome.rewards.tolist() == [[1, 0]] * 2
    assert outcome.counts["apples"].tolist() == [[1, 0]] * 2
    assert apples(rivals) == [ORCHARD - 1] * 2


def test_apples_do_not_grow_back_with_probability_zero(rivals):
    rivals.place(0, 3, 9, facing=RIGHT)
    rivals.turn("forward", "stay")
    rivals.turn("backward", "stay")

    for _ in range(20):
        rivals.turn()

    assert apples(rivals) == [ORCHARD - 1] * 2


def test_apples_grow_back_only_in_the_orchard(board):
    game = board(Gathering, worlds=2, agents=1, regrow=1.0)
    orchard = game.world.mask(game.rules.apple)
    game.world.layer("apples")[...] = 0

    game.turn()

    assert np.array_equal(game.world.mask(game.rules.apple), orchard)


@pytest.mark.shows("H1")
def test_apples_grow_back_with_the_set_probability_before_agents_act(board):
    game = board(Gathering, worlds=64, agents=1, turns=1000)

    grown, empty = 0, 0
    for _ in range(30):
        game.world.layer("apples")[...] = 0
        game.engine.begin_turn()
        grown += sum(apples(game))
        empty += 64 * ORCHARD
        game.engine.end_turn()

    assert abs(grown / empty - 0.05) < 5 * np.sqrt(0.05 * 0.95 / empty)


def test_beam_is_visible_until_the_next_turn_begins(rivals):
    rivals.turn("zap", "stay")
    left = rivals.world.count(rivals.rules.beam).tolist()

    rivals.engine.begin_turn()

    assert left == [2, 2]
    assert rivals.world.count(rivals.rules.beam).tolist() == [0, 0]


def test_zaps_and_hits_are_counted(rivals):
    outcome = rivals.turn("zap", "zap")

    assert outcome.counts["zaps"].tolist() == [[1, 1]] * 2
    assert outcome.counts["hits"].tolist() == [[1, 0]] * 2


def test_hit_costs_no_reward(rivals):
    assert not rivals.turn("zap", "stay").rewards.any()


def test_first_hit_leaves_a_mark(rivals):
    rivals.turn("zap", "stay")

    rivals.turn("stay", "stay")

    assert rivals.active[1].all()
    assert rivals.seen[1]["self"].tolist() == [[1], [1]]
    assert rivals.seen[0]["self"].tolist() == [[0], [0]]


def test_second_hit_takes_off_the_map_for_25_turns_and_clears_the_marks(rivals):
    rivals.turn("zap", "stay")
    rivals.turn("zap", "stay")

    active = []
    for _ in range(28):
        rivals.turn()
        active.append(bool(rivals.active[1].all()))

    assert active == [False] * 25 + [True] * 3
    assert rivals.seen[1]["self"].tolist() == [[0], [0]]


@pytest.mark.parametrize(("hits", "out"), [(1, 1), (1, 7), (3, 2)])
def test_hits_and_turns_out_are_settings(board, hits, out):
    game = board(Gathering, agents=2, order="fixed", regrow=0.0, hits=hits, out=out)
    game.place(0, 1, 4, facing=RIGHT)
    game.place(1, 1, 7)

    active = []
    for turn in range(hits + out + 2):
        game.turn("zap" if turn < hits else "stay", "stay")
        active.append(bool(game.active[1][0]))

    assert active == [True] * hits + [False] * out + [True] * 2


@pytest.mark.parametrize(("length", "hit"), [(2, 0), (3, 1), (8, 1)])
def test_beam_reaches_as_far_as_its_length(board, length, hit):
    game = board(Gathering, agents=2, order="fixed", length=length)
    game.place(0, 1, 4, facing=RIGHT)
    game.place(1, 1, 7)

    assert game.turn("zap", "stay").counts["hits"].tolist() == [[hit, 0]]


def test_agent_off_the_map_observes_and_does_nothing(rivals):
    rivals.turn("zap", "stay")
    rivals.turn("zap", "stay")

    outcome = rivals.turn("stay", "zap")

    assert not rivals.seen[1]["view"].any()
    assert outcome.counts["zaps"].tolist() == [[0, 0]] * 2


def test_agents_come_back_at_a_starting_spot(rivals):
    for _ in range(2):
        rivals.turn("zap", "stay")
    for _ in range(26):
        rivals.turn()

    spots = {(row, column) for row in (1, 4, 7) for column in (1, 23)}
    assert {rivals.spot(1, world) for world in range(2)} <= spots


def test_walls_stop_agents(rivals):
    rivals.place(0, 1, 4, facing=UP)

    rivals.turn("forward", "stay")

    assert rivals.spot(0) == (1, 4)


@pytest.mark.shows("D11")
def test_marks_and_apples_are_reset_in_a_new_episode(board):
    game = board(Gathering, agents=2, order="fixed", turns=2, regrow=0.0)
    game.place(0, 1, 4, facing=RIGHT)
    game.place(1, 1, 7)
    game.world.layer("apples")[...] = 0
    game.turn("zap", "stay")
    game.turn()
    game.turn()

    game.turn()

    assert game.seen[1]["self"].tolist() == [[0]]
    assert apples(game) == [ORCHARD]


def test_six_can_play(board):
    assert len(board(Gathering, agents=6).engine.agents) == 6


# Scripted players.


@pytest.fixture(scope="module")
def orchard(play):
    """What three players get in the orchard; each line-up plays once."""

    @cache
    def play_together(*players):
        return play(Gathering, players, worlds=64)

    return play_together


@pytest.fixture
def gatherer(act):
    """Return the action of a gatherer that sees {(ahead, right): name}."""

    def gatherer(kind, things):
        settings = Gathering.Settings()
        spec = GridEngine(Gathering(settings), 1, 0).agents[0]
        part = spec.parts["view"]
        view = np.zeros((1, *part.shape), np.uint8)
        for (ahead, right), name in {(0, 0): "gatherer", **things}.items():
            view[0, part.labels.index(name), 8 - ahead, 5 + right] = 1
        return spec.actions[act(kind, spec, settings, view)]

    return gatherer


@pytest.mark.parametrize("kind", [Peaceful, Greedy])
@pytest.mark.parametrize(
    ("spot", "action"),
    [
        ((3, 0), "forward"),
        ((-2, 0), "backward"),
        ((0, 2), "step_right"),
        ((0, -4), "step_left"),
        ((3, 1), "forward"),
        ((1, -3), "step_left"),
    ],
)
def test_gatherers_go_for_an_apple_along_the_longer_axis_first(
    gatherer, kind, spot, action
):
    assert gatherer(kind, {spot: "apple"}) == action


def test_gatherer_goes_for_the_nearest_apple(gatherer):
    assert gatherer(Peaceful, {(5, 0): "apple", (0, 2): "apple"}) == "step_right"


def test_greedy_zaps_an_agent_straight_ahead(gatherer):
    assert gatherer(Greedy, {(4, 0): "gatherer", (1, 0): "apple"}) == "zap"


def test_greedy_does_not_zap_beside_or_behind_itself(gatherer):
    assert gatherer(Greedy, {(4, 1): "gatherer", (2, 0): "apple"}) == "forward"
    assert gatherer(Greedy, {(-1, 0): "gatherer", (2, 0): "apple"}) == "forward"


def test_peaceful_never_zaps(orchard):
    _, counts = orchard(Peaceful, Peaceful, Peaceful)

    assert counts["zaps"].sum() == 0


def test_gatherer_turns_at_a_wall(gatherer):
    assert gatherer(Peaceful, {(1, 0): "wall"}) in ("turn_left", "turn_right")


def test_peaceful_gatherers_get_far_more_than_random_ones(orchard):
    peaceful, _ = orchard(Peaceful, Peaceful, Peaceful)
    random, _ = orchard(RandomPlayer, RandomPlayer, RandomPlayer)

    assert peaceful.mean() > 5 * random.mean()


def test_greedy_gets_more_than_the_peaceful_ones_beside_it(orchard):
    rewards, counts = orchard(Greedy, Peaceful, Peaceful)

    assert counts["zaps"][:, 0].mean() > 1
    assert rewards[:, 0].mean() > rewards[:, 1:].mean()


def test_greedy_gatherers_together_get_less_than_peaceful_ones(orchard):
    greedy, _ = orchard(Greedy, Greedy, Greedy)
    peaceful, _ = orchard(Peaceful, Peaceful, Peaceful)

    assert greedy.mean() < peaceful.mean()

"""Scripted players: what they choose, and how well they fare."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from rookery.games.builtin.gathering import Gathering
from rookery.games.builtin.gathering_players import Greedy, Peaceful
from rookery.games.builtin.treasurehunt import Treasurehunt
from rookery.games.builtin.treasurehunt_players import Forager
from rookery.games.gridworld import GridEngine
from rookery.games.loop import GameLoop
from rookery.games.players import Observation, Player, RandomPlayer, pick
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Part

UP, RIGHT, DOWN, LEFT = range(4)
BUTTONS = AgentSpec("0", "presser", {}, ("a", "b", "c", "d"), masked=True)


def observation(worlds, legal=None, **parts):
    return Observation(parts, np.ones(worlds, bool), legal)


def sit(kind, spec, settings=None, worlds=1, seat=0):
    return kind(spec, settings, worlds, Stream(0, Purpose.PLAYER, seat))


def play(rules, players, worlds, **settings):
    """Play an episode in each world; return rewards and counts, (worlds, agents)."""
    engine = GridEngine(rules(rules.Settings(**settings)), worlds, seed=0)
    seats = [
        sit(kind, spec, engine.settings, worlds, seat=i)
        for i, (kind, spec) in enumerate(zip(players, engine.agents, strict=True))
    ]
    rewards, counts = 0.0, {}
    for turn in GameLoop(engine, seats).turns():
        rewards = rewards + turn.outcome.rewards
        for name, count in turn.outcome.counts.items():
            counts[name] = counts.get(name, 0.0) + count
        if len(turn.ended) == worlds:
            return rewards, counts
    raise AssertionError


# Picking, and random players.


@pytest.mark.parametrize(
    ("draw", "chosen"), [(0.0, 1), (0.32, 1), (0.34, 2), (0.65, 2), (0.67, 4), (0.999, 4)]
)
def test_pick_gives_every_candidate_an_equal_stretch(draw, chosen):
    candidates = np.array([[False, True, True, False, True]])

    assert pick(candidates, np.array([draw])).tolist() == [chosen]


def test_pick_takes_the_only_candidate():
    candidates = np.eye(4, dtype=bool)

    assert pick(candidates, np.full(4, 0.999999)).tolist() == [0, 1, 2, 3]


def test_pick_works_row_by_row():
    candidates = np.array([[True, True], [False, True]])

    assert pick(candidates, np.array([0.4, 0.4])).tolist() == [0, 1]


def test_random_player_picks_only_legal_actions():
    legal = np.random.default_rng(0).random((500, 4)) < 0.5
    legal[~legal.any(axis=1), 0] = True
    player = sit(RandomPlayer, BUTTONS, worlds=500)

    for turn in range(20):
        chosen = player.act(observation(500, legal), turn)
        assert legal[np.arange(500), chosen].all()


@pytest.mark.parametrize(
    ("legal", "shares"),
    [
        (None, [0.25, 0.25, 0.25, 0.25]),
        ([True, False, True, True], [1 / 3, 0, 1 / 3, 1 / 3]),
    ],
    ids=["all", "three"],
)
def test_random_player_finds_every_legal_action_equally_likely(legal, shares):
    player = sit(RandomPlayer, BUTTONS, worlds=1000)
    mask = None if legal is None else np.tile(legal, (1000, 1))

    chosen = np.concatenate(
        [player.act(observation(1000, mask), turn) for turn in range(10)]
    )

    found = np.bincount(chosen, minlength=4) / 10_000
    assert np.abs(found - shares).max() < 5 * np.sqrt(0.25 / 10_000)


def test_random_player_repeats_itself_in_the_same_turn():
    one, other = (sit(RandomPlayer, BUTTONS, worlds=50) for _ in range(2))
    one.act(observation(50), 0)

    assert np.array_equal(one.act(observation(50), 7), other.act(observation(50), 7))


def test_random_players_in_different_seats_choose_differently():
    one, other = (sit(RandomPlayer, BUTTONS, worlds=50, seat=i) for i in range(2))

    assert not np.array_equal(one.act(observation(50), 0), other.act(observation(50), 0))


def test_random_player_chooses_differently_from_world_to_world_and_turn_to_turn():
    player = sit(RandomPlayer, BUTTONS, worlds=50)
    first, second = player.act(observation(50), 0), player.act(observation(50), 1)

    assert len(set(first)) == 4
    assert not np.array_equal(first, second)


def test_player_forgets_only_where_an_episode_starts():
    class Elephant(Player):
        def act(self, observation, turn):
            return np.zeros(self.worlds, np.int64)

    elephant = sit(Elephant, BUTTONS, worlds=3)
    elephant.memory["seen"] = np.array([[1, 2], [3, 4], [5, 6]])

    elephant.forget(np.array([True, False, True]))

    assert elephant.memory["seen"].tolist() == [[0, 0], [3, 4], [0, 0]]


# Treasurehunt.

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


def forage(things, heading=UP):
    """Return what a forager does when it sees {(row, column): name} around (2, 2)."""
    view = np.zeros((1, 5, 5, 5), np.uint8)
    view[0, HUNTER.parts["view"].labels.index("hunter"), 2, 2] = 1
    for (row, column), name in things.items():
        view[0, HUNTER.parts["view"].labels.index(name), row, column] = 1
    player = sit(Forager, HUNTER, Treasurehunt.Settings())
    player.memory["heading"][...] = heading
    return int(player.act(observation(1, view=view), 0)[0])


@pytest.mark.parametrize(
    ("spot", "way"),
    [((1, 2), UP), ((2, 3), RIGHT), ((3, 2), DOWN), ((2, 1), LEFT), ((2, 4), RIGHT)],
)
def test_forager_goes_for_a_gem(spot, way):
    assert forage({spot: "gem"}, heading=(way + 2) % 4) == way


def test_forager_prefers_the_gem_to_the_food():
    assert forage({(1, 2): "food", (3, 2): "gem"}) == DOWN


def test_forager_takes_the_nearer_of_two_gems_first():
    assert forage({(2, 1): "gem", (2, 4): "gem"}) == LEFT


def test_forager_goes_around_a_bone():
    chosen = forage({(1, 2): "bone", (0, 2): "gem"})

    assert chosen in (RIGHT, LEFT)


def test_forager_takes_a_bone_when_what_lies_behind_is_worth_it():
    fenced = {(1, 1): "bone", (1, 3): "bone", (1, 2): "bone"}
    fenced |= {(0, 1): "gem", (0, 2): "gem", (0, 3): "gem"}

    assert forage(fenced) == UP


@pytest.mark.parametrize("way", [UP, RIGHT, DOWN, LEFT])
def test_forager_without_treasure_goes_straight_on(way):
    assert forage({}, heading=way) == way


def test_forager_turns_at_a_wall():
    wall = {(1, column): "wall" for column in range(5)}

    assert forage(wall, heading=UP) != UP


def test_forager_does_not_count_on_treasure_behind_another_hunter():
    shut_in = {(1, 2): "hunter", (0, 2): "gem"}
    shut_in |= {(1, 1): "wall", (1, 3): "wall"}

    assert forage(shut_in, heading=DOWN) == DOWN


@pytest.fixture(scope="module")
def foragers():
    return play(Treasurehunt, [Forager] * 3, worlds=32)[0]


@pytest.fixture(scope="module")
def randoms():
    return play(Treasurehunt, [RandomPlayer] * 3, worlds=32)[0]


def test_three_foragers_score_as_promised(foragers):
    assert foragers.mean() > 140


def test_random_hunters_score_little(randoms):
    assert -10 < randoms.mean() < 30


def test_forager_beats_random_by_far(foragers, randoms):
    assert foragers.mean() > randoms.mean() + 100


def test_every_seat_of_foragers_fares_alike(foragers):
    apart = foragers - foragers.mean(axis=1, keepdims=True)

    errors = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
    assert (np.abs(apart.mean(axis=0)) < 5 * errors).all()


def test_forager_alone_finds_more_than_each_of_three(foragers):
    alone, _ = play(Treasurehunt, [Forager], worlds=32, agents=1)

    assert alone.mean() > foragers.mean() + 30


@pytest.mark.parametrize("vision", [1, 4])
def test_forager_plays_with_any_vision(vision):
    rewards, _ = play(Treasurehunt, [Forager] * 2, worlds=8, agents=2, vision=vision)

    assert rewards.mean() > 60


# Gathering.


@pytest.fixture(scope="module")
def orchard():
    """What three players get in the orchard; each line-up plays once."""

    @cache
    def play_together(*players):
        return play(Gathering, players, worlds=64)

    return play_together


def gatherer(kind, things):
    """Return what a gatherer does when it sees {(ahead, right): name}."""
    settings = Gathering.Settings()
    spec = GridEngine(Gathering(settings), 1, 0).agents[0]
    part = spec.parts["view"]
    view = np.zeros((1, *part.shape), np.uint8)
    for (ahead, right), name in {(0, 0): "gatherer", **things}.items():
        view[0, part.labels.index(name), 8 - ahead, 5 + right] = 1
    player = sit(kind, spec, settings)
    return spec.actions[int(player.act(observation(1, view=view), 0)[0])]


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
def test_gatherers_go_for_an_apple_along_the_longer_way(kind, spot, action):
    assert gatherer(kind, {spot: "apple"}) == action


def test_gatherer_goes_for_the_nearest_apple():
    assert gatherer(Peaceful, {(5, 0): "apple", (0, 2): "apple"}) == "step_right"


def test_greedy_zaps_whoever_stands_in_its_line():
    assert gatherer(Greedy, {(4, 0): "gatherer", (1, 0): "apple"}) == "zap"


def test_greedy_does_not_zap_beside_or_behind_itself():
    assert gatherer(Greedy, {(4, 1): "gatherer", (2, 0): "apple"}) == "forward"
    assert gatherer(Greedy, {(-1, 0): "gatherer", (2, 0): "apple"}) == "forward"


def test_peaceful_never_zaps(orchard):
    _, counts = orchard(Peaceful, Peaceful, Peaceful)

    assert counts["zaps"].sum() == 0


def test_gatherer_turns_at_a_wall():
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

"""Random numbers of worlds: addressed by world, episode, turn and draw."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.gridworld import Body, GridGame, Kind, Window
from rookery.games.gridworld.random import NUMBERS_PER_CALL, WorldRandom
from rookery.rng import Purpose, Stream

FEW, MANY = 3, NUMBERS_PER_CALL  # few are generated several turns ahead, many are not
COUNTS = pytest.mark.parametrize("count", [FEW, MANY], ids=["ahead", "at once"])


class Lottery(GridGame):
    """Draws twice before the agents act, and keeps the numbers for the test."""

    map = "P."

    def declare(self):
        self.ticket = Kind()
        self.gambler = Body(("stay", "finish"), sees={"view": Window(radius=1)})
        self.count = FEW
        self.drawn = []

    def before(self, world):
        draws = [world.random.bits(self.count).copy() for _ in range(2)]
        times = world.episode.copy(), world.turn.copy(), world.closing.copy()
        self.drawn.append((times, draws))

    def act(self, world, me):
        world.end(where=me.does("finish"))


class Crowded(WorldRandom):
    """In the first world every slot has an event, whatever its probability."""

    def bits_at(self, draw, count):
        bits = super().bits_at(draw, count).copy()
        bits[0] = 0
        return bits


def at(world, episode, turn, draw, count, seed=0):
    """Return the numbers of one address, straight from the stream."""
    return Stream(seed, Purpose.WORLD).bits((world, episode, turn), draw, count)[0]


def random_of(numbers=(0, 1, 2), make=WorldRandom):
    """Return the random numbers of some worlds, in their first turn."""
    worlds = len(numbers)
    episode, turn = np.zeros(worlds, np.int64), np.zeros(worlds, np.int64)
    return make(0, np.array(numbers), episode, turn)


def events(random, rate, slots, worlds):
    """Return where there was an event, (worlds, slots) bool."""
    rows, columns, _ = random.skips(rate, slots)
    counts = np.zeros((worlds, slots), np.int64)
    np.add.at(counts, (rows, columns), 1)
    assert counts.max() <= 1
    return counts.astype(bool)


@COUNTS
def test_numbers_are_those_of_world_episode_turn_and_draw(board, count):
    lottery = board(Lottery, worlds=2, seed=3, first_world=4, agents=1)
    lottery.rules.count = count

    for _ in range(5):
        lottery.turn()

    (episode, turn, _), draws = lottery.rules.drawn[-1]
    expected = [
        [at(4 + i, episode[i], turn[i], draw, count, seed=3) for i in range(2)]
        for draw in range(2)
    ]
    assert turn.tolist() == [5, 5]
    assert np.array_equal(draws, expected)


@COUNTS
def test_numbers_stay_right_while_worlds_end_at_different_turns(board, count):
    lottery = board(Lottery, worlds=3, agents=1, turns=7)
    lottery.rules.count = count

    for step in range(40):
        ends = [(step + i) % (4 + i) == 0 for i in range(3)]
        lottery.turn(["finish" if end else "stay" for end in ends])

    assert lottery.world.episode.min() > 3
    for (episode, turn, closing), draws in lottery.rules.drawn:
        for i in np.flatnonzero(~closing):
            assert np.array_equal(draws[1][i], at(i, episode[i], turn[i], 1, count))


@COUNTS
def test_restoring_a_snapshot_draws_the_same_numbers_again(board, count):
    lottery = board(Lottery, worlds=2, agents=1)
    lottery.rules.count = count
    for _ in range(3):
        lottery.turn()
    snapshot = lottery.engine.snapshot()
    for _ in range(4):
        lottery.turn()

    lottery.engine.restore(snapshot)
    for _ in range(4):
        lottery.turn()

    first, again = lottery.rules.drawn[3:7], lottery.rules.drawn[7:]
    assert np.array_equal([d for _, d in first], [d for _, d in again])


@COUNTS
def test_world_gets_the_same_numbers_alone_as_among_many(board, count):
    many = board(Lottery, worlds=8, agents=1)
    alone = board(Lottery, worlds=1, first_world=5, agents=1)
    many.rules.count = alone.rules.count = count

    for _ in range(6):
        many.turn()
        alone.turn()

    for (_, of_many), (_, of_one) in zip(many.rules.drawn, alone.rules.drawn, strict=True):
        assert np.array_equal(of_many[0][5], of_one[0][0])


def test_draws_of_one_turn_differ():
    random = random_of()

    assert not np.isin(random.bits(50), random.bits(50)).any()


def test_a_numbered_draw_does_not_change_the_others():
    random = random_of()
    random.bits(FEW)

    random.bits_at(4095, FEW)

    assert np.array_equal(random.bits(FEW)[0], at(0, 0, 0, 1, FEW))


@pytest.mark.parametrize("rate", [0.005, 0.05, 0.5, 0.95])
def test_events_are_as_frequent_as_their_probability_in_every_slot(rate):
    hits = events(random_of(range(4000)), rate, 50, worlds=4000).mean(axis=0)

    # Fifty slots: one of them leaves five standard errors once in 35,000 seeds.
    assert np.abs(hits - rate).max() < 5 * np.sqrt(rate * (1 - rate) / 4000)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_number_of_events_varies_as_for_independent_ones(rate):
    hits = events(random_of(range(4000)), rate, 100, worlds=4000).sum(axis=1)

    variance = 100 * rate * (1 - rate)
    assert abs(hits.var() / variance - 1) < 5 * np.sqrt(2 / 4000) + 0.02


@pytest.mark.parametrize(("rate", "hit"), [(0, False), (1, True)])
def test_probabilities_zero_and_one_are_exact(rate, hit):
    assert (events(random_of(range(100)), rate, 441, worlds=100) == hit).all()


def test_the_numbers_of_events_are_uniform_over_the_unit_interval():
    _, _, shares = random_of(range(500)).skips(0.3, 100)

    filled, _ = np.histogram(shares, bins=10, range=(0, 1))
    expected = len(shares) / 10
    assert np.abs(filled - expected).max() < 5 * np.sqrt(expected)


def test_events_of_a_world_are_the_same_alone_as_among_many():
    many = events(random_of(range(16)), 0.05, 441, worlds=16)
    alone = events(random_of([5]), 0.05, 441, worlds=1)

    assert np.array_equal(many[5], alone[0])


def test_a_crowded_world_does_not_change_the_events_of_another():
    crowded = events(random_of([4, 5], Crowded), 0.001, 100, worlds=2)
    alone = events(random_of([5]), 0.001, 100, worlds=1)

    assert crowded[0].all()
    assert np.array_equal(crowded[1], alone[0])


def test_a_crowded_world_does_not_change_the_next_draw_of_another():
    crowded, alone = random_of([4, 5], Crowded), random_of([5])

    crowded.skips(0.001, 100)
    alone.skips(0.001, 100)

    assert np.array_equal(crowded.bits(FEW)[1], alone.bits(FEW)[0])

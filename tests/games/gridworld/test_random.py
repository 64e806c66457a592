"""Random numbers of worlds: addressed by world, episode, turn and draw."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.gridworld import Body, GridGame, Kind, Window
from rookery.games.gridworld import random as world_random
from rookery.games.gridworld.random import WorldRandom
from rookery.rng import Purpose, Stream

FEW, MANY = 3, 8192  # fewer than a block of four, and many blocks
COUNTS = pytest.mark.parametrize("count", [FEW, MANY], ids=["few", "many"])


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


def at(world, episode, turn, draw, count, seed=0):
    """Return the numbers of one address, straight from the stream."""
    return Stream(seed, Purpose.WORLD).bits((world, episode, turn), draw, count)[0]


def random_of(numbers=(0, 1, 2), slots=1):
    """Return the random numbers of some worlds with some slots, in their first turn."""
    times = np.zeros((2, len(numbers)), np.int64)
    return WorldRandom(0, np.array(numbers), *times, np.arange(slots), slots)


def events(random, rate, slots, worlds):
    """Return where there was an event, (worlds, slots) bool."""
    spots, _ = random.events(rate)
    counts = np.bincount(spots, minlength=worlds * slots).reshape(worlds, slots)
    assert counts.max() <= 1
    return counts.astype(bool)


@pytest.fixture
def few_skips(monkeypatch):
    """Draw two skips at a time, so that most worlds have to draw again."""
    monkeypatch.setattr(world_random, "_number_of_skips", lambda probability, slots: 2)


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
    hits = events(random_of(range(4000), 50), rate, 50, worlds=4000).mean(axis=0)

    # Fifty slots: one of them leaves five standard errors once in 35,000 seeds.
    assert np.abs(hits - rate).max() < 5 * np.sqrt(rate * (1 - rate) / 4000)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_number_of_events_varies_as_for_independent_ones(rate):
    hits = events(random_of(range(4000), 100), rate, 100, worlds=4000).sum(axis=1)

    variance = 100 * rate * (1 - rate)
    assert abs(hits.var() / variance - 1) < 5 * np.sqrt(2 / 4000) + 0.02


@pytest.mark.parametrize(("rate", "hit"), [(0, False), (1, True)])
def test_probabilities_zero_and_one_are_exact(rate, hit):
    assert (events(random_of(range(100), 441), rate, 441, worlds=100) == hit).all()


def test_the_numbers_of_events_are_uniform_over_the_unit_interval():
    _, shares = random_of(range(500), 100).events(0.3)

    filled, _ = np.histogram(shares, bins=10, range=(0, 1))
    expected = len(shares) / 10
    assert np.abs(filled - expected).max() < 5 * np.sqrt(expected)


def test_events_of_a_world_are_the_same_alone_as_among_many():
    many = events(random_of(range(16), 441), 0.05, 441, worlds=16)
    alone = events(random_of([5], 441), 0.05, 441, worlds=1)

    assert np.array_equal(many[5], alone[0])


@pytest.mark.usefixtures("few_skips")
def test_a_world_that_draws_skips_again_has_the_same_events_alone_as_among_many():
    many = events(random_of(range(16), 441), 0.05, 441, worlds=16)
    alone = events(random_of([5], 441), 0.05, 441, worlds=1)

    assert len(set(many.sum(axis=1) // 2)) > 3  # worlds draw differently often
    assert np.array_equal(many[5], alone[0])


@pytest.mark.usefixtures("few_skips")
def test_drawing_skips_again_does_not_change_the_next_draw():
    random = random_of([4, 5], 441)

    random.events(0.05)

    assert np.array_equal(random.bits(FEW)[1], at(5, 0, 0, 1, FEW))


@pytest.mark.parametrize("skips", [2, None], ids=["drawn again", "drawn once"])
@pytest.mark.parametrize("rate", [0.0, 0.02, 0.4, 1.0])
def test_events_are_found_by_skipping_slots(monkeypatch, skips, rate):
    if skips:
        monkeypatch.setattr(world_random, "_number_of_skips", lambda p, slots: skips)
    spots, shares = random_of([7, 9], 60).events(rate)

    expected = [
        event for i, world in enumerate([7, 9]) for event in skipped(i, world, rate)
    ]
    assert spots.tolist() == [spot for spot, _ in expected]
    assert shares.tolist() == [share for _, share in expected]


def skipped(position, world, rate, slots=60):
    """Yield the spots and shares of a world's events, with the numbers of the stream."""
    skips = world_random._number_of_skips(rate, slots)
    bits = at(world, 0, 0, 0, 2 * skips * slots).reshape(-1, 2, skips)
    table = [round((1 - (1 - rate) ** n) * 2**32) for n in range(1, slots + 1)]
    reached = -1
    for jump, share in zip(bits[:, 0].ravel(), bits[:, 1].ravel(), strict=True):
        reached += 1 + sum(int(jump) >= limit for limit in table)
        if reached >= slots:
            return
        yield position * slots + reached, share * 2.0**-32


@pytest.mark.parametrize("shape", [(2, 60), (1, 60), (2, 1), (1, 1)])
def test_events_with_a_probability_per_cell_use_one_number_per_slot(shape):
    chance = np.linspace(0, 1, int(np.prod(shape))).reshape(shape)
    mask = np.arange(60)[None] % 3 > 0

    spots, shares = random_of([7, 9], 60).events_by_cell(chance, mask)

    bits = np.stack([at(world, 0, 0, 0, 60) for world in (7, 9)])
    limits = np.broadcast_to(chance, (2, 60)) * 2.0**32
    hit = (bits < limits) & mask
    assert np.array_equal(spots, np.flatnonzero(hit))
    assert np.array_equal(shares, bits[hit] / limits[hit])

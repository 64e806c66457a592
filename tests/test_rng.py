"""Counter-based random numbers: the generator, and the independence of addresses."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.rng import Purpose, Stream, keyed_seed, order, philox, round_keys

# Published with Random123 (Salmon and others, 2011), kat_vectors: philox4x32-10.
PUBLISHED = {
    "zeros": (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    "ones": (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    "pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}
ADDRESSES = (np.arange(5), np.arange(5) % 2, np.arange(5) * 7)


def stream(seed=0, purpose=Purpose.WORLD, *path):
    return Stream(seed, purpose, *path)


def uint32(numbers):
    return np.array(numbers, np.uint32)


def plain_philox(counter, key):
    """Return Philox4x32-10 of four numbers under two, as published, with Python's own."""
    a, b, c, d = counter
    for i in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        k0, k1 = (key[0] + i * 0x9E3779B9) % 2**32, (key[1] + i * 0xBB67AE85) % 2**32
        a, c = second >> 32 ^ b ^ k0, first >> 32 ^ d ^ k1
        b, d = second % 2**32, first % 2**32
    return [a, b, c, d]


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED.values(), ids=PUBLISHED)
def test_philox_gives_the_published_numbers(counter, key, expected):
    numbers = philox(*np.array(counter, np.uint64), round_keys(uint32(key)))

    assert list(numbers) == list(expected) == plain_philox(counter, key)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 9])
def test_the_numbers_of_many_addresses_are_those_of_philox_one_by_one(count):
    addresses = np.random.default_rng(count).integers(2**32, size=(3, 50), dtype=np.uint64)

    drawn = stream().bits(tuple(addresses), draw=5, count=count)

    key = np.random.SeedSequence(0, spawn_key=(1,)).generate_state(2, np.uint32).tolist()
    assert drawn.dtype == np.uint32
    for numbers, address in zip(drawn, addresses.T.tolist(), strict=True):
        blocks = (plain_philox(((5 << 20) + k, *address), key) for k in range(3))
        assert numbers.tolist() == [number for block in blocks for number in block][:count]


def test_address_and_draw_are_the_counter_of_philox():
    drawn = stream().bits((7, 3, 11), draw=2, count=4)[0]

    key = np.random.SeedSequence(0, spawn_key=(1,)).generate_state(2, np.uint32)
    assert drawn.tolist() == plain_philox((2 << 20, 7, 3, 11), key.tolist())


@pytest.mark.parametrize(
    "other",
    [
        stream(1),
        stream(0, Purpose.ORDER),
        stream(0, Purpose.PLAYER),
        stream(0, Purpose.RESET),
        stream(0, Purpose.WORLD, 0),
        stream(0, Purpose.WORLD, 1),
        stream(0, Purpose.WORLD, 0, 0),
    ],
    ids=["seed", "order", "player", "reset", "path 0", "path 1", "path 0 0"],
)
def test_different_streams_share_no_number(other):
    mine = stream().bits((np.arange(50),), 0, 20)
    theirs = other.bits((np.arange(50),), 0, 20)

    # Of a million pairs two can be equal by chance; whole streams are not.
    assert len(np.intersect1d(mine, theirs)) < 3


@pytest.mark.parametrize(
    ("address", "draw"),
    [((1, 0, 0), 0), ((0, 1, 0), 0), ((0, 0, 1), 0), ((0, 0, 0), 1)],
    ids=["world", "episode", "turn", "draw"],
)
def test_different_addresses_have_different_numbers(address, draw):
    first = stream().bits((0, 0, 0), 0, 100)
    other = stream().bits(address, draw, 100)

    assert not np.isin(first, other).any()


def test_an_address_has_the_same_numbers_each_time():
    source = stream()
    first = source.bits(ADDRESSES, 0, 9)

    source.bits(ADDRESSES, 1, 3)

    assert np.array_equal(source.bits(ADDRESSES, 0, 9), first)


def test_an_address_has_the_same_numbers_in_another_stream_of_the_same_key():
    assert np.array_equal(
        stream(12, Purpose.PLAYER, 3).bits(ADDRESSES, 0, 9),
        stream(12, Purpose.PLAYER, 3).bits(ADDRESSES, 0, 9),
    )


@pytest.mark.parametrize("i", range(5))
def test_an_address_has_the_same_numbers_alone_as_in_a_batch(i):
    together = stream().bits(ADDRESSES, 4, 10)

    alone = stream().bits(tuple(int(column[i]) for column in ADDRESSES), 4, 10)

    assert np.array_equal(together[i], alone[0])


def test_addresses_have_the_same_numbers_in_any_order():
    forwards = stream().bits(ADDRESSES, 0, 6)

    backwards = stream().bits(tuple(column[::-1] for column in ADDRESSES), 0, 6)

    assert np.array_equal(forwards, backwards[::-1])


def test_a_coordinate_can_be_one_number_for_all_addresses():
    spread = stream().bits((np.arange(5), np.full(5, 8)), 0, 3)

    assert np.array_equal(stream().bits((np.arange(5), 8), 0, 3), spread)


def test_missing_coordinates_are_zero():
    assert np.array_equal(
        stream().bits((np.arange(3),), 0, 3), stream().bits((np.arange(3), 0, 0), 0, 3)
    )


@pytest.mark.parametrize("count", [1, 3, 4, 5, 441])
def test_any_count_of_numbers_can_be_drawn(count):
    drawn = stream().bits(ADDRESSES, 0, count)

    assert drawn.shape == (5, count)
    assert drawn.dtype == np.uint32


def test_the_largest_draws_do_not_overlap():
    last_of_first = stream().bits((0,), draw=0, count=4_194_304)[0, -4:]
    first_of_next = stream().bits((0,), draw=1, count=4)[0]

    assert not np.isin(last_of_first, first_of_next).any()


def test_turn_numbers_can_be_large():
    late = stream().bits((3, 0, np.array([2**31, 2**31 + 1])), 0, 8)

    assert not np.isin(late[0], late[1]).any()


def test_uniform_numbers_are_even_over_the_unit_interval():
    numbers = stream(5).uniform((np.arange(100),), 0, 1000).ravel()

    filled, _ = np.histogram(numbers, bins=50, range=(0, 1))
    chi_squared = ((filled - 2000) ** 2 / 2000).sum()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert chi_squared < 100  # 49 expected; beyond 100 once in 40,000 seeds


def test_uniform_numbers_are_multiples_of_two_to_the_minus_32():
    numbers = stream().uniform(ADDRESSES, 0, 10)

    assert np.array_equal(numbers, stream().bits(ADDRESSES, 0, 10) / 2**32)


@pytest.mark.parametrize("axis", [0, 1], ids=["addresses", "numbers of an address"])
def test_neighbouring_numbers_are_not_correlated(axis):
    numbers = stream(9).uniform((np.arange(400),), 0, 400) - 0.5

    ahead = np.moveaxis(numbers, axis, 0)
    correlation = (ahead[1:] * ahead[:-1]).mean() * 12
    assert abs(correlation) < 5 / np.sqrt(400 * 399)


@pytest.mark.parametrize("below", [1, 2, 6, 1000])
def test_integers_cover_their_range_evenly(below):
    drawn = stream(2).integers((np.arange(60),), 0, 1000, below).ravel()

    filled = np.bincount(drawn, minlength=below)
    expected = 60_000 / below
    assert len(filled) == below
    assert np.abs(filled - expected).max() <= 6 * np.sqrt(expected)


def test_integers_below_two_to_the_32_are_the_bits_themselves():
    drawn = stream().integers(ADDRESSES, 0, 7, 2**32)

    assert np.array_equal(drawn, stream().bits(ADDRESSES, 0, 7))


def test_order_sorts_each_row():
    rows = uint32([(30, 10, 20), (1, 2, 3)])

    assert order(rows).tolist() == [[1, 2, 0], [0, 1, 2]]


def test_order_breaks_ties_by_position():
    assert order(uint32([(5, 1, 5, 1)])).tolist() == [[1, 3, 0, 2]]


def test_every_order_of_three_is_equally_likely():
    orders = order(stream(4, Purpose.ORDER).bits((np.arange(6000),), 0, 3))

    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_seeds_for_a_purpose_do_not_overlap_between_neighbouring_seeds_and_rounds() -> None:
    seeds = [
        keyed_seed(seed, purpose, *path)
        for seed in range(50)
        for purpose in (Purpose.EVALUATION, Purpose.PROBE)
        for path in [(number,) for number in range(50)]
    ]
    seeds += [keyed_seed(seed, Purpose.AFTER_TRAINING) for seed in range(50)]

    assert len(set(seeds)) == len(seeds)
    assert all(50 <= seed < 2**63 for seed in seeds)
    assert keyed_seed(2**63 - 1, Purpose.EVALUATION, 7) == keyed_seed(
        2**63 - 1, Purpose.EVALUATION, 7
    )

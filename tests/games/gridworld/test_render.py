"""The picture of a world: stamps over a floor."""

from __future__ import annotations

import time

import numpy as np
import pytest

from rookery.games.gridworld.render import Stamp, background, picture
from rookery.games.gridworld.tiles import AGENT_COLOURS, tile

BLUE = AGENT_COLOURS[0]


def square(pixels, row, column, size=32):
    top, left = row * size, column * size
    return pixels[top : top + size, left : left + size]


def crowded_world():
    rng = np.random.default_rng(0)
    names = ("wall", "gem", "food", "bone")
    return [
        Stamp(int(row), int(column), str(rng.choice(names)))
        for row, column in rng.integers(21, size=(150, 2))
    ]


@pytest.mark.parametrize("size", [8, 16, 32])
def test_picture_is_rgb_with_one_square_per_cell(size):
    pixels = picture((3, 5), [], size)

    assert pixels.shape == (3 * size, 5 * size, 3)
    assert pixels.dtype == np.uint8


def test_neighbouring_squares_of_the_floor_have_two_shades():
    floor = background((3, 3), 32)

    assert np.array_equal(square(floor, 0, 0), square(floor, 1, 1))
    assert not np.array_equal(square(floor, 0, 0), square(floor, 0, 1))


def test_stamp_changes_its_own_square_only():
    changed = picture((3, 4), [Stamp(1, 2, "gem")]) != picture((3, 4), [])

    assert square(changed, 1, 2).any()
    assert changed.sum() == square(changed, 1, 2).sum()


def test_later_stamp_is_painted_over_an_earlier_one():
    pixels = picture((1, 1), [Stamp(0, 0, "gem"), Stamp(0, 0, "wall")])

    assert np.array_equal(pixels, tile("wall", None, None, 32)[..., :3])


def test_lower_stamp_shows_around_a_transparent_one():
    pixels = picture((1, 1), [Stamp(0, 0, "water"), Stamp(0, 0, "bird", BLUE, 1)])

    assert np.array_equal(pixels[0, 0], tile("water", None, None, 32)[0, 0, :3])


def test_bird_is_drawn_with_its_facing():
    views = [picture((1, 1), [Stamp(0, 0, "bird", BLUE, facing)]) for facing in range(4)]

    assert len({view.tobytes() for view in views}) == 4


def test_alpha_blends_with_the_floor():
    floor = picture((1, 1), []).astype(float)
    half = picture((1, 1), [Stamp(0, 0, "wall", alpha=0.5)])

    wall = tile("wall", None, None, 32)[..., :3]
    assert np.abs(half - (floor + wall) / 2).max() <= 1


def test_stamp_of_alpha_zero_is_invisible():
    pixels = picture((1, 1), [Stamp(0, 0, "wall", alpha=0.0)])

    assert np.array_equal(pixels, picture((1, 1), []))


@pytest.mark.parametrize(("row", "column"), [(-1, 0), (0, -1), (2, 0), (0, 2)])
def test_stamps_outside_the_map_are_left_out(row, column):
    pixels = picture((2, 2), [Stamp(row, column, "wall")])

    assert np.array_equal(pixels, picture((2, 2), []))


def test_positions_can_be_small_numpy_integers():
    small = picture((21, 21), [Stamp(np.int8(20), np.uint8(20), "gem")])

    assert np.array_equal(small, picture((21, 21), [Stamp(20, 20, "gem")]))


def test_drawing_on_a_picture_does_not_spoil_the_next():
    stamps = [Stamp(0, 0, "gem")]
    before = picture((2, 2), stamps)

    picture((2, 2), stamps)[:] = 0

    assert np.array_equal(picture((2, 2), stamps), before)


def test_background_is_painted_once_and_cannot_be_written_to():
    floor = background((4, 4), 16)

    assert background((4, 4), 16) is floor
    with pytest.raises(ValueError, match="read-only"):
        floor[0, 0] = 0


def test_crowded_world_is_drawn_in_under_ten_milliseconds():
    stamps = crowded_world()
    picture((21, 21), stamps)

    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        picture((21, 21), stamps)
        seconds.append(time.perf_counter() - start)

    assert min(seconds) < 0.010

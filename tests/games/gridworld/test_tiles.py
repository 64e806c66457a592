"""Tiles: their shapes, colours and facings, as far as numbers can tell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rookery.games.gridworld.tiles import (
    AGENT_COLOURS,
    FLOOR_SHADES,
    NAMES,
    TINTED,
    tile,
)

UP, RIGHT, DOWN, LEFT = range(4)
BLUE, ORANGE = AGENT_COLOURS[:2]
PROMISED = (
    *("floor", "wall", "gem", "food", "bone", "apple", "berry", "tree", "water"),
    *("dirt", "stag", "hare", "beam", "flag", "door", "bird", "block", "deck"),
)
WHOLE_SQUARE = ("floor", "wall", "water")
# What a viewer without one kind of cone sees (Machado and others, 2009), linear RGB.
COLOUR_BLIND = {
    "protanopia": ((0.15, 1.05, -0.20), (0.11, 0.79, 0.10), (0.0, -0.05, 1.05)),
    "deuteranopia": ((0.37, 0.86, -0.23), (0.28, 0.67, 0.05), (-0.01, 0.04, 0.97)),
    "tritanopia": ((1.26, -0.08, -0.18), (-0.08, 0.93, 0.15), (0.0, 0.69, 0.30)),
}
TO_XYZ = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728))


def on_floor(name, size=32):
    pixels = tile(name, None, None, size).astype(float)
    share = pixels[..., 3:] / 255
    return pixels[..., :3] * share + np.array(FLOOR_SHADES[0]) * (1 - share)


def lab(colour, seen_as):
    levels = np.array(colour) / 255
    linear = np.where(levels <= 0.04, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(np.array(TO_XYZ) @ np.clip(np.array(seen_as) @ linear, 0, 1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def beak_centre(facing):
    """Return where the beak is, from the middle of the square, as (down, right)."""
    pixels = tile("bird", BLUE, facing, 64).astype(int)[:48]  # above the feet
    pale = (np.abs(pixels - (248, 222, 170, 255)) < 12).all(axis=-1)
    return np.argwhere(pale).mean(axis=0) - 31.5


def test_every_promised_name_has_a_tile():
    assert set(PROMISED) == NAMES


@pytest.mark.parametrize("size", [8, 16, 32, 64])
@pytest.mark.parametrize("name", PROMISED)
def test_tile_is_rgba_of_the_size_asked_for(name, size):
    pixels = tile(name, None, None, size)

    assert pixels.shape == (size, size, 4)
    assert pixels.dtype == np.uint8
    assert pixels[..., 3].max() > 100


@pytest.mark.parametrize("name", WHOLE_SQUARE)
def test_ground_fills_its_whole_square(name):
    assert (tile(name, None, None, 32)[..., 3] == 255).all()


def test_beam_lets_through_what_is_beneath():
    assert 60 < tile("beam", None, RIGHT, 32)[..., 3].max() < 250


@pytest.mark.parametrize("name", PROMISED)
def test_no_two_things_look_alike_on_the_floor(name):
    others = np.stack([on_floor(other) for other in PROMISED if other != name])

    different = np.abs(others - on_floor(name)).max(axis=-1) > 40
    assert different.mean(axis=(1, 2)).min() > 0.05


@pytest.mark.parametrize("size", [8, 16, 32])
def test_every_facing_of_the_bird_looks_different(size):
    views = [tile("bird", BLUE, facing, size).astype(int) for facing in range(4)]

    different = [np.abs(a - b).max(axis=-1) > 40 for a, b in combinations(views, 2)]
    assert np.mean(different, axis=(1, 2)).min() > 0.1


def test_beak_is_where_the_bird_faces():
    assert beak_centre(UP)[0] < -10
    assert beak_centre(RIGHT)[1] > 8
    assert beak_centre(LEFT)[1] < -8
    assert np.abs(beak_centre(DOWN)).max() < 3


def test_bird_looking_left_mirrors_the_one_looking_right():
    left, right = (tile("bird", BLUE, facing, 32) for facing in (LEFT, RIGHT))

    assert np.abs(left[:, ::-1].astype(int) - right).max() <= 2


@pytest.mark.parametrize("facing", [None, UP, RIGHT, DOWN, LEFT])
@pytest.mark.parametrize("colour", AGENT_COLOURS)
def test_bird_wears_the_colour_of_its_agent(colour, facing):
    pixels = tile("bird", colour, facing, 32).astype(int)

    near = np.abs(pixels - (*colour, 255)).max(axis=-1) < 24
    assert near.mean() > 0.1


def test_unknown_name_is_drawn_as_a_block_of_its_colour():
    pixels = tile("unheard of", ORANGE, None, 32)

    assert np.array_equal(pixels, tile("block", ORANGE, None, 32))
    assert tuple(pixels[16, 16]) == (*ORANGE, 255)


def test_a_block_shows_its_facing():
    views = [tile("block", ORANGE, facing, 32) for facing in range(4)]

    assert len({view.tobytes() for view in views}) == 4


@pytest.mark.parametrize("name", PROMISED)
def test_only_tinted_things_take_the_colour_given(name):
    same = np.array_equal(tile(name, BLUE, None, 32), tile(name, ORANGE, None, 32))

    assert same == (name not in TINTED)


def test_facing_can_be_a_small_numpy_integer():
    small = tile("beam", BLUE, np.int8(3), 24)

    assert np.array_equal(small, tile("beam", BLUE, 3, 24))
    assert not np.array_equal(small, tile("beam", BLUE, 0, 24))


def test_tile_is_painted_once_and_cannot_be_written_to():
    pixels = tile("gem", None, None, 32)

    assert tile("gem", None, None, 32) is pixels
    with pytest.raises(ValueError, match="read-only"):
        pixels[0, 0] = 0


def test_there_are_twelve_colours_for_agents():
    assert len(set(AGENT_COLOURS)) == 12


@pytest.mark.parametrize("seen_as", COLOUR_BLIND.values(), ids=COLOUR_BLIND)
def test_the_first_eight_colours_can_be_told_apart_by_the_colour_blind(seen_as):
    colours = [lab(colour, seen_as) for colour in AGENT_COLOURS[:8]]

    # A difference of 2.3 is just noticeable.
    assert min(np.linalg.norm(a - b) for a, b in combinations(colours, 2)) > 15

"""What agents observe and can do, as plain data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rookery.specs import AgentSpec, Part

MOVES = ("left", "right")
WORDS = ("quiet", "call", "warn")


def agent(actions):
    part = Part((3,), np.dtype(np.float32))
    return AgentSpec("0", "hunter", {"self": part}, actions)


def test_plain_actions_are_one_factor():
    assert agent(MOVES).factors == (MOVES,)


def test_plain_actions_keep_their_names():
    assert agent(MOVES).action_names == MOVES
    assert agent(MOVES).num_actions == 2


def test_product_has_the_factors_it_was_given():
    assert agent((MOVES, WORDS)).factors == (MOVES, WORDS)


@pytest.mark.parametrize(
    ("actions", "count"),
    [((MOVES, WORDS), 6), ((MOVES, WORDS, MOVES), 12), ((MOVES,), 2)],
    ids=["two factors", "three factors", "one factor"],
)
def test_product_has_every_combination(actions, count):
    spec = agent(actions)

    assert spec.num_actions == count
    assert len(set(spec.action_names)) == count


def test_names_of_a_product_are_joined_with_the_last_factor_running_fastest():
    assert agent((MOVES, WORDS)).action_names == (
        "left+quiet",
        "left+call",
        "left+warn",
        "right+quiet",
        "right+call",
        "right+warn",
    )


def test_actions_are_not_masked_by_default():
    assert not agent(MOVES).masked


def test_the_text_of_a_part_is_its_shape_and_type():
    assert str(Part((6, 5, 5), np.dtype(np.uint8))) == "(6, 5, 5) uint8"


def test_a_part_has_no_labels_by_default():
    assert Part((2,), np.dtype(np.float32)).labels == ()


@pytest.mark.parametrize(
    ("spec", "name"),
    [(agent(MOVES), "id"), (Part((), np.dtype(np.int8)), "shape")],
    ids=["agent", "part"],
)
def test_specs_cannot_be_changed(spec, name):
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
        setattr(spec, name, "other")


@pytest.mark.parametrize(
    ("part", "description"),
    [
        (
            Part((2, 5, 5), np.dtype(np.uint8), ("wall", "gem")),
            "(2, 5, 5) uint8 of wall, gem",
        ),
        (
            Part((3, 7, 7), np.dtype(np.uint8), scale=1 / 255),
            "(3, 7, 7) uint8, divided by 255, as a picture",
        ),
        (Part((4,), np.dtype(np.int16), scale=0.1), "(4,) int16, multiplied by 0.1"),
    ],
)
def test_the_description_of_a_part_says_how_it_is_scaled(part, description):
    assert part.description == description

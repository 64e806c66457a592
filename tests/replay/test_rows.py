"""Rows: the columns of a slot, when it is whole, and stacks of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.replay.frames import stack
from rookery.replay.rows import PART, Rows, row_dtype
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part
from tests.replay.histories import (
    SPEC,
    Replay,
    Row,
    endless,
    episode,
    histories,
    many_episodes,
    observation,
    stacked,
)

PLAIN = AgentSpec("p", "bird", {"view": Part((), np.dtype(np.uint8))}, ("x", "y"))


def rows_of(spec=SPEC, worlds=2, slots=4):
    return Rows(Block.create(Rows.layout(spec, worlds, slots)))


def views(replay, turn, world=0, frames=3):
    """Return the numbers of the rows stacked at a turn; 0 for rows before the first."""
    stack_of_views = stack(replay.rows, "view", np.array([turn]), np.array([world]), frames)
    return stack_of_views[0, :, 0, 0].tolist()


def numbers(*turns, world=0, worlds=1):
    return [int(observation(turn, world, worlds)["view"][0, 0]) for turn in turns]


# The columns of a slot.


def test_a_slot_has_a_column_for_everything_in_a_row():
    names = row_dtype(SPEC, 2).names

    assert set(names) == {
        "sequence",
        "checksum",
        "age",
        "version",
        "reward",
        "probability",
        "action",
        "active",
        "terminated",
        "truncated",
        "part.view",
        "part.self",
        "legal",
    }


def test_only_a_masked_agent_has_legal_actions():
    assert "legal" in row_dtype(SPEC, 2).names
    assert "legal" not in row_dtype(PLAIN, 2).names


def test_parts_keep_their_own_type_and_shape():
    rows = rows_of(worlds=5, slots=7)

    assert rows.parts["view"].shape == (7, 5, 2, 2)
    assert rows.parts["view"].dtype == np.uint16
    assert rows.parts["self"].shape == (7, 5, 1)
    assert rows.parts["self"].dtype == np.float32
    assert rows.columns["legal"].shape == (7, 5, 3)


def test_a_part_of_a_single_number_is_a_column_like_any_other():
    rows = rows_of(PLAIN)

    assert rows.parts["view"].shape == (4, 2)


def test_there_are_no_gaps_between_columns():
    dtype = row_dtype(SPEC, 3)

    assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)


def test_two_views_of_a_block_are_the_same_rows():
    block = Block.create(Rows.layout(SPEC, 2, 4))
    first, second = Rows(block), Rows(block)

    first.columns["reward"][2, 1] = 3.0

    assert second.columns["reward"][2, 1] == 3.0


# Whole or damaged.


@pytest.fixture
def replay():
    replay = Replay(many_episodes(10, worlds=2), slots=4)
    replay.write(6)
    return replay


@pytest.mark.parametrize("turn", [2, 3, 4, 5])
def test_a_sealed_row_is_whole(replay, turn):
    assert replay.rows.is_whole(turn)


@pytest.mark.parametrize("turn", [0, 1, 6, 7, 10])
def test_a_slot_that_holds_another_turn_is_not_that_row(replay, turn):
    assert not replay.rows.is_whole(turn)


def test_a_slot_that_was_never_written_is_not_whole():
    assert not any(rows_of(slots=4).is_whole(turn) for turn in range(8))


@pytest.mark.shows("B12")
def test_a_flipped_bit_in_any_byte_is_detected(replay):
    size = replay.rows.records.dtype.itemsize
    slot = replay.rows.records[1:2].view(np.uint8)

    missed = []
    for byte in range(size):
        slot[byte] ^= 1 << byte % 8
        if replay.rows.is_whole(5):
            missed.append(byte)
        slot[byte] ^= 1 << byte % 8

    assert missed == []
    assert replay.rows.is_whole(5)


@pytest.mark.parametrize("column", ["reward", PART + "view", "age", "legal"])
def test_a_row_written_again_half_way_is_not_whole(replay, column):
    replay.rows.columns[column][5 % 4] = replay.rows.columns[column][4 % 4]

    assert not replay.rows.is_whole(5)


def test_bytes_for_hashing_are_all_but_the_header(replay):
    record = replay.rows.records[5 % 4]
    columns = [name for name in record.dtype.names if name not in ("sequence", "checksum")]

    expected = b"".join(np.ascontiguousarray(record[name]).tobytes() for name in columns)

    assert replay.rows.bytes_of(5).tobytes() == expected


# Stacking.


@pytest.mark.shows("B4", "B5")
@settings(max_examples=100, deadline=None)
@given(histories(), st.integers(1, 6), st.integers(0, 7))
def test_stacks_are_those_of_plain_lists_however_small_the_ring(worlds, frames, spare):
    replay = Replay(worlds, frames=frames, slots=frames + spare)
    count = len(worlds)

    for turn in range(replay.turns):
        replay.write(turn + 1)
        turns, all_worlds = np.full(count, turn), np.arange(count)
        for name in SPEC.parts:
            stacks = stack(replay.rows, name, turns, all_worlds, frames)
            for world, rows in enumerate(worlds):
                expected = stacked(rows, turn, world, count, frames)[name]
                assert stacks[world].dtype == expected.dtype
                np.testing.assert_array_equal(stacks[world], expected)


def test_rows_before_the_first_are_zeros():
    replay = Replay(endless(3))
    replay.write(3)

    assert views(replay, 0) == [0, 0, *numbers(0)]
    assert views(replay, 1) == [0, *numbers(0, 1)]
    assert views(replay, 2) == numbers(0, 1, 2)


@pytest.mark.shows("B5")
def test_a_stack_never_crosses_the_start_of_an_episode():
    rows = episode([(True, 0.0)] * 3, (True, False)) + episode([(True, 0.0)], (True, False))
    replay = Replay([rows])
    replay.write(len(rows))

    assert views(replay, 3) == numbers(1, 2, 3)  # the closing row belongs to the episode
    assert views(replay, 4) == [0, 0, *numbers(4)]
    assert views(replay, 5) == [0, *numbers(4, 5)]


def test_rows_in_which_the_agent_is_out_are_stacked_too():
    replay = Replay([[Row(0, True), Row(1, False), Row(2, False), Row(3, True)]])
    replay.write(4)

    assert views(replay, 3) == numbers(1, 2, 3)


@pytest.mark.shows("B4")
@pytest.mark.parametrize("turn", range(8, 12))
def test_a_stack_is_right_across_the_end_of_the_ring(turn):
    replay = Replay(endless(12), slots=7)
    replay.write(12)

    assert views(replay, turn, frames=3) == numbers(turn - 2, turn - 1, turn)


def test_rows_of_different_turns_and_worlds_are_stacked_in_one_call():
    replay = Replay(many_episodes(12, worlds=2), slots=12)
    replay.write(12)
    turns, worlds = np.array([11, 3, 3, 0]), np.array([1, 0, 1, 0])

    stacks = stack(replay.rows, "self", turns, worlds, 4)

    for i, (turn, world) in enumerate(zip(turns, worlds, strict=True)):
        expected = stacked(replay.worlds[world], turn, world, 2, 4)["self"]
        np.testing.assert_array_equal(stacks[i], expected)


def test_stacking_gives_a_copy():
    replay = Replay(endless(3))
    replay.write(3)

    stack(replay.rows, "view", np.array([2]), np.array([0]), 1)[...] = 0

    assert replay.rows.is_whole(2)


def test_no_rows_give_an_empty_stack():
    replay = Replay(endless(3))
    replay.write(3)
    none = np.empty(0, np.int64)

    assert stack(replay.rows, "view", none, none, 3).shape == (0, 3, 2, 2)

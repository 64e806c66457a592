"""Drawing: compiled loops give bit for bit what stacking and scaling by numpy give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.replay.buffer import ReplayReader
from rookery.replay.drawing import COMPILED, FRAMES, Paths, addresses_of, fill
from rookery.replay.frames import scale_into, stack
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.specs import AgentSpec, Part
from tests.replay.histories import Replay, histories

KINDS = [
    "?",
    "u1",
    "i1",
    "u2",
    "i2",
    "u4",
    "i4",
    "u8",
    "i8",
    "f2",
    "f4",
    "f8",
    ">f4",
    ">i8",
]
SLOTS, WORLDS, AGE_LIMIT = 7, 3, 4


def random_numbers(kind, shape, rng):
    """Return numbers of a type, with the largest and the oddest that it has."""
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1 / 3, np.finfo(dtype).max, 1e-40]
        numbers = np.where(
            rng.random(shape) < 0.3, rng.choice(odd, shape), rng.normal(size=shape)
        )
        with np.errstate(over="ignore"):
            return numbers.astype(dtype)
    data = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    numbers = data.view(dtype.newbyteorder("=")).reshape(shape)
    return (data[..., 0] % 2 == 0) if kind == "?" else numbers.astype(dtype)


def rows_of(kind, shape, rng, flag=False):
    """Return full rows of an agent that observes one part at random, or also a flag."""
    parts = {"part": Part(shape, np.dtype(kind))}
    if flag:  # moves the part off its alignment
        parts = {"flag": Part((), np.dtype(np.bool_)), **parts}
    spec = AgentSpec("agent", "agent", parts, ("act",))
    rows = Rows(Block.create(Rows.layout(spec, WORLDS, SLOTS)))
    rows.columns["part.part"][...] = random_numbers(kind, (SLOTS, WORLDS, *shape), rng)
    rows.columns["age"][...] = rng.integers(0, AGE_LIMIT, (SLOTS, WORLDS))
    return rows


def plain_inputs(rows, turns, worlds, frames, scale, start, width):
    """Return inputs as agents act on them."""
    inputs = np.full((len(turns), width), 7, np.float32)
    stacked = stack(rows, "part", turns, worlds, frames).reshape(len(turns), -1)
    with np.errstate(all="ignore"):
        scale_into(inputs[:, start : start + stacked.shape[1]], stacked, scale)
    return inputs


@pytest.mark.shows("B6")
@pytest.mark.parametrize("flag", [False, True], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("scale", [1.0, 1 / 255, -2.5], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_those_that_agents_act_on_whatever_their_type(kind, scale, flag):
    rng = np.random.default_rng(len(kind))
    for shape, frames in [((), 1), ((3,), 2), ((2, 5), 4), ((0,), 2)]:
        rows = rows_of(kind, shape, rng, flag)
        turns, worlds = rng.integers(-9, 99, 40), rng.integers(0, WORLDS, 40)
        size, start = frames * int(np.prod(shape)), 2
        expected = plain_inputs(rows, turns, worlds, frames, scale, start, size + 5)
        inputs = np.full_like(expected, 7)

        with np.errstate(all="ignore"):
            addresses = addresses_of(rows, turns, worlds)
            fill(inputs, start, rows, "part", addresses, frames, scale)

        assert inputs.tobytes() == expected.tobytes()


def test_the_usual_types_are_compiled():
    assert {np.dtype(kind) for kind in KINDS} - COMPILED == {
        np.dtype(kind) for kind in ("?", "f2", ">f4", ">i8")
    }
    assert rows_of("?", (2,), np.random.default_rng(0)).flat_parts["part"].dtype == np.uint8


def test_a_frame_too_many_would_be_noticed():
    rng = np.random.default_rng(0)
    rows = rows_of("u1", (4,), rng)
    turns, worlds = np.arange(SLOTS), np.zeros(SLOTS, np.int64)
    expected = plain_inputs(rows, turns, worlds, 3, 1.0, 0, 12)
    addresses, inputs = addresses_of(rows, turns, worlds), np.zeros((SLOTS, 12), np.float32)
    addresses[:, FRAMES] += 1

    fill(inputs, 0, rows, "part", addresses, 3, 1.0)

    assert inputs.tobytes() != expected.tobytes()


# Paths.


def plain_path(reader: ReplayReader, transition: int, ends: int, factor: np.float32):
    """Yield each end of a path: turn, return, discount, and whether it continues."""
    usable = set(reader.usable.tolist())
    total, discount = None, np.float32(1)
    for end in range(ends):
        turn, world = divmod(transition, reader.worlds)
        at = (np.array([turn]), np.array([world]))
        (gain,), (decay,) = reader.outcomes(*at)
        total = gain if total is None else np.float32(total + discount * gain)
        discount = np.float32(discount * decay)
        (closes,) = reader.closes(np.array([transition])).tolist()
        following = closes * reader.worlds + world
        continues = following in usable and end + 1 < ends
        yield closes, np.float32(total * factor), discount, continues
        transition = following if following in usable else transition


@settings(max_examples=60, deadline=None)
@given(
    histories(),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(6, 200),
    st.sampled_from([1.0, 0.3, 7.1]),
)
def test_paths_are_those_of_following_transitions_one_by_one(
    worlds, ends, n_step, capacity, factor
):
    replay = Replay(worlds, capacity=capacity, n_step=n_step, discount=0.9)
    reader = replay.reader(0)
    for boundary in range(0, replay.turns + 1, replay.turns_per_round):
        replay.write(boundary)
        reader.advance(boundary)
    count = len(reader.usable)
    passes = 2 if count % 2 == 0 else 1
    paths = Paths.empty(passes, 2, count // passes, ends, 3)

    reader.follow(reader.usable, factor, paths, 1)

    opened, in_worlds = reader.opening(reader.usable)
    plain = [
        plain_path(reader, transition, ends, np.float32(factor))
        for transition in reader.usable.tolist()
    ]
    rows = np.array(list(map(list, plain)), object).reshape(count * ends, 4)
    closes = rows[:, 0].astype(np.int64)
    end_worlds = np.repeat(in_worlds, ends)
    own = {name: getattr(paths, name)[:, 1] for name in vars(paths)}
    assert own["returns"].ravel().tobytes() == rows[:, 1].astype(np.float32).tobytes()
    assert own["discounts"].ravel().tobytes() == rows[:, 2].astype(np.float32).tobytes()
    assert own["continues"].ravel().tolist() == rows[:, 3].tolist()
    assert (
        own["actions"].ravel().tolist() == reader.at("action", opened, in_worlds).tolist()
    )
    assert own["taken"].ravel().tolist() == reader.at("action", closes, end_worlds).tolist()
    assert np.array_equal(
        own["legal"].reshape(count, 3), reader.at("legal", opened, in_worlds)
    )
    assert np.array_equal(
        own["next_legal"].reshape(count * ends, 3), reader.at("legal", closes, end_worlds)
    )
    batch = count // passes
    for addresses, turns, at in (
        (own["addresses"][:, :batch], opened, in_worlds),
        (own["addresses"][:, batch:], closes, end_worlds),
    ):
        assert np.array_equal(
            addresses.reshape(-1, 3), addresses_of(replay.rows, turns, at)
        )
    assert not paths.addresses[:, 0].any()
    assert paths.legal[:, 0].all()

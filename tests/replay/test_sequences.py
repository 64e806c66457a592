"""Sequences from the replay, compared with rows looked at one by one."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.replay.sequences import Chain, Timeline
from tests.algorithms.conftest import WORLDS, Life, agent_of

LENGTH, BURN_IN = 6, 2


@pytest.fixture(params=[1, 3], ids=["a round", "three rounds"])
def life(request) -> Life:
    """A life of deaths and returns; after three rounds the window has moved on."""
    life = Life(agent_of(replay={"capacity": 60}), luck=3, hidden=16)
    for _ in range(request.param):
        life.live()
    return life


def followers(reader, turn, world):
    """Return the turns that count from a step on: active rows and closing rows."""
    usable = reader.usable[reader.usable % WORLDS == world]
    closes = set(reader.closes(usable).tolist())
    columns, slots = reader.rows.columns, reader.rows.slots
    return [
        later
        for later in range(turn, reader.boundary)
        if columns["active"][later % slots, world] or later in closes
    ][:LENGTH]


def first_turn(reader, turn, world):
    """Return the first turn of the episode that a row belongs to."""
    return turn - int(reader.at("age", np.array([turn]), np.array([world]))[0])


def test_a_sequence_is_the_rows_that_count_from_its_step_on(life):
    reader = life.reader

    found = Timeline(reader).read(reader.usable, LENGTH, BURN_IN)

    for i, step in enumerate(reader.usable.tolist()):
        turn, world = divmod(step, WORLDS)
        turns = np.array(followers(reader, turn, world))
        worlds = np.full(len(turns), world)
        seen = reader.observations(turns, worlds)
        for name, part in seen.items():
            np.testing.assert_array_equal(found.seen[name][i, : len(turns)], part)
        actions = reader.at("action", turns, worlds)
        np.testing.assert_array_equal(found.actions[i, : len(turns)], actions)
        assert not found.trained[i, len(turns) :].any()


def test_it_starts_with_the_hidden_state_of_its_first_row(life):
    reader = life.reader
    turns, worlds = reader.opening(reader.usable)

    found = Timeline(reader).read(reader.usable, LENGTH, BURN_IN)

    np.testing.assert_array_equal(found.hidden, reader.at("hidden", turns, worlds))
    assert np.abs(found.hidden).max() > 0.5


def test_nothing_is_carried_into_another_episode_and_everything_within_one(life):
    reader = life.reader

    found = Timeline(reader).read(reader.usable, LENGTH, BURN_IN)

    for i, step in enumerate(reader.usable.tolist()):
        turn, world = divmod(step, WORLDS)
        turns = followers(reader, turn, world)
        for row in range(1, len(turns)):
            other = first_turn(reader, turns[row], world) > turns[row - 1]
            assert found.starts[i, row] == other


def test_a_step_is_learned_from_if_it_closes_within_and_its_hidden_state_is_fresh(life):
    reader, timeline = life.reader, Timeline(life.reader)
    usable = set(reader.usable.tolist())

    found = timeline.read(reader.usable, LENGTH, BURN_IN)

    assert 0 < found.trained.sum() < found.trained.size
    for i, step in enumerate(reader.usable.tolist()):
        turn, world = divmod(step, WORLDS)
        turns = followers(reader, turn, world)
        fresh = False
        for row, later in enumerate(turns):
            fresh |= bool(found.starts[i, row]) or row >= BURN_IN
            number = later * WORLDS + world
            closes = int(reader.closes(np.array([number]))[0]) if number in usable else None
            expected = fresh and closes in turns
            assert found.trained[i, row] == expected
            if expected:
                assert turns[found.closes[i, row]] == closes
                place = (np.array([later]), np.array([world]))
                wanted = [each[0] for each in reader.outcomes(*place)]
                assert [found.returns[i, row], found.discounts[i, row]] == wanted


def test_a_part_of_sequences_is_those_sequences(life):
    found = Timeline(life.reader).read(life.reader.usable, LENGTH, BURN_IN)

    part = found.part(3, 5)

    for name, array in vars(part).items():
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(array, getattr(found, name)[3:5])
    assert part.rows()["view"].shape == (2 * LENGTH, 2, 2, 3)


def test_without_rows_there_is_a_timeline_without_rows():
    life = Life(agent_of(), hidden=16)
    life.reader.advance(0)

    assert len(Timeline(life.reader).turns) == 0


def test_a_rounds_steps_are_cut_into_sequences_world_by_world():
    life = Life(agent_of(), luck=5, hidden=16, n_step=1)
    life.live()
    life.live()
    reader, steps = life.reader, np.sort(life.reader.closed_since(life.first))

    chain = Chain.cut(reader, steps, life.turns, 5)

    there = chain.indices >= 0
    assert np.sort(chain.indices[there]).tolist() == list(range(len(steps)))
    by_world = {world: [] for world in range(WORLDS)}
    for sequence, row in zip(*np.nonzero(there), strict=True):
        turn, world = divmod(int(steps[chain.indices[sequence, row]]), WORLDS)
        assert sequence // 3 == world
        before = by_world[world][-1] if by_world[world] else None
        began = first_turn(reader, turn, world)
        assert chain.starts[sequence, row] == (before is not None and began > before)
        if row == 0:
            own = reader.at("hidden", np.array([turn]), np.array([world]))[0]
            np.testing.assert_array_equal(chain.hidden[sequence], own)
        assert before is None or turn > before
        by_world[world].append(turn)

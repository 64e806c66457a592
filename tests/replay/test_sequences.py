"""Sequences from the replay, compared with rows read one by one."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.replay.sequences import Chain, Timeline
from tests.algorithms.conftest import WORLDS, Experience, agent_of

LENGTH, BURN_IN = 6, 2


@pytest.fixture(params=[1, 3], ids=["a round", "three rounds"])
def experience(request) -> Experience:
    """Episodes with absences; after three rounds the window has moved."""
    experience = Experience(agent_of(replay={"capacity": 60}), data_seed=3, hidden=16)
    for _ in range(request.param):
        experience.play_round()
    return experience


def included_turns(reader, turn, world):
    """Return the turns of a sequence: those of active and of closing rows."""
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


def test_a_sequence_holds_the_active_and_closing_rows_from_its_transition_on(experience):
    reader = experience.reader

    sequences = Timeline(reader).read(reader.usable, LENGTH, BURN_IN)

    for i, number in enumerate(reader.usable.tolist()):
        turn, world = divmod(number, WORLDS)
        turns = np.array(included_turns(reader, turn, world))
        worlds = np.full(len(turns), world)
        np.testing.assert_array_equal(sequences.turns[i, : len(turns)], turns)
        assert (sequences.worlds[i] == world).all()
        actions = reader.at("action", turns, worlds)
        np.testing.assert_array_equal(sequences.actions[i, : len(turns)], actions)
        assert not sequences.trained[i, len(turns) :].any()


def test_it_starts_with_the_hidden_state_of_its_first_row(experience):
    reader = experience.reader
    turns, worlds = reader.opening(reader.usable)

    sequences = Timeline(reader).read(reader.usable, LENGTH, BURN_IN)

    np.testing.assert_array_equal(sequences.hidden, reader.at("hidden", turns, worlds))
    assert np.abs(sequences.hidden).max() > 0.5


def test_the_hidden_state_is_reset_where_an_episode_starts_and_nowhere_else(experience):
    reader = experience.reader

    sequences = Timeline(reader).read(reader.usable, LENGTH, BURN_IN)

    for i, number in enumerate(reader.usable.tolist()):
        turn, world = divmod(number, WORLDS)
        turns = included_turns(reader, turn, world)
        for row in range(1, len(turns)):
            is_start = first_turn(reader, turns[row], world) > turns[row - 1]
            assert sequences.starts[i, row] == is_start


def test_a_transition_is_trained_if_it_closes_within_and_its_hidden_state_is_fresh(
    experience,
):
    reader, timeline = experience.reader, Timeline(experience.reader)
    usable = set(reader.usable.tolist())

    sequences = timeline.read(reader.usable, LENGTH, BURN_IN)

    assert 0 < sequences.trained.sum() < sequences.trained.size
    for i, number in enumerate(reader.usable.tolist()):
        turn, world = divmod(number, WORLDS)
        turns = included_turns(reader, turn, world)
        fresh = False
        for row, later in enumerate(turns):
            fresh |= bool(sequences.starts[i, row]) or row >= BURN_IN
            opened = later * WORLDS + world
            closes = int(reader.closes(np.array([opened]))[0]) if opened in usable else None
            expected = fresh and closes in turns
            assert sequences.trained[i, row] == expected
            if expected:
                assert turns[sequences.closes[i, row]] == closes
                outcomes = reader.outcomes(np.array([later]), np.array([world]))
                assert sequences.returns[i, row] == outcomes[0][0]
                assert sequences.discounts[i, row] == outcomes[1][0]


def test_without_rows_the_timeline_is_empty():
    experience = Experience(agent_of(), hidden=16)
    experience.reader.advance(0)

    assert len(Timeline(experience.reader).turns) == 0


def test_a_rounds_transitions_are_cut_into_sequences_world_by_world():
    experience = Experience(agent_of(), data_seed=5, hidden=16, n_step=1)
    experience.play_round()
    experience.play_round()
    reader = experience.reader
    transitions = np.sort(reader.closed_since(experience.first))

    chain = Chain.cut(reader, transitions, experience.turns, 5)

    exists = chain.indices >= 0
    assert np.sort(chain.indices[exists]).tolist() == list(range(len(transitions)))
    by_world = {world: [] for world in range(WORLDS)}
    for sequence, row in zip(*np.nonzero(exists), strict=True):
        turn, world = divmod(int(transitions[chain.indices[sequence, row]]), WORLDS)
        assert sequence // 3 == world
        before = by_world[world][-1] if by_world[world] else None
        began = first_turn(reader, turn, world)
        assert chain.starts[sequence, row] == (before is not None and began > before)
        if row == 0:
            own = reader.at("hidden", np.array([turn]), np.array([world]))[0]
            np.testing.assert_array_equal(chain.hidden[sequence], own)
        assert before is None or turn > before
        by_world[world].append(turn)

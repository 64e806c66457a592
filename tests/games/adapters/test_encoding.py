"""A foreign game's own observations are encoded, without the game, to the bytes in rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rookery.config.resolve import resolve
from rookery.evaluation.inputs import Batch, InputReader
from rookery.games.adapters.game import ForeignGame
from rookery.games.players import random_actions
from rookery.games.registry import find
from rookery.replay.buffer import ReplayWriter
from rookery.replay.rows import Rows
from rookery.shm.block import Block
from rookery.specs import spec_from_json, spec_to_json
from tests.paths import GAME_FILES

WORLDS, TURNS = 2, 12
GAMES: dict[str, dict[str, Any]] = {
    "pettingzoo:pettingzoo.classic.rps_v2": {},
    "pettingzoo:pettingzoo.classic.tictactoe_v3": {},
    "pettingzoo:pettingzoo.classic.connect_four_v3": {},
    "pettingzoo:pettingzoo.classic.go_v5": {"board_size": 5},
    "pettingzoo:mpe2.simple_spread_v3": {},
    "pettingzoo:mpe2.simple_tag_v3": {},
    "pettingzoo:mpe2.simple_speaker_listener_v4": {},
    "gymnasium:FrozenLake-v1": {"copies": 2},
    "gymnasium:Taxi-v4": {},
    "gymnasium:CliffWalking-v1": {},
    "gymnasium:Blackjack-v1": {},
    "gymnasium:CartPole-v1": {},
    "gymnasium:MountainCar-v0": {},
    "gymnasium:Acrobot-v1": {},
    f"gymnasium:{GAME_FILES / 'gym.py'}:lights": {},
    f"pettingzoo:{GAME_FILES / 'zoo.py'}:mortal": {},
    f"pettingzoo:{GAME_FILES / 'spaces.py'}:every_space": {"shrink": 2},
}


def stacked(observations: list[Any]) -> Any:
    """Return observations as one batch."""
    first = observations[0]
    if isinstance(first, dict):
        return {key: stacked([each[key] for each in observations]) for key in first}
    if isinstance(first, tuple):
        return tuple(stacked(list(pieces)) for pieces in zip(*observations, strict=True))
    return np.stack(observations)


def assert_same(batch: Batch, index: int, rows: Rows, world: int) -> None:
    """Assert that an observation of a batch is, byte for byte, the one in a row."""
    for part, arrays in batch.parts.items():
        row = rows.parts[part][0, world]
        assert arrays.dtype == row.dtype
        assert arrays[index].tobytes() == row.tobytes()
    if batch.legal is not None:
        assert batch.legal[index].tobytes() == rows.columns["legal"][0, world].tobytes()


@pytest.mark.shows("B8")
@pytest.mark.parametrize("name", GAMES)
def test_own_observations_are_encoded_to_the_bytes_in_rows(name: str) -> None:
    entry = find(name)
    config = resolve({"game": {"name": name, **GAMES[name]}}, entry.settings)
    game = entry.build_guarded(config.game.settings, WORLDS, seed=1)
    foreign = game.game
    assert isinstance(foreign, ForeignGame)
    # As the folder of a run holds them.
    specs = [spec_from_json(json.loads(json.dumps(spec_to_json(s)))) for s in game.agents]
    assert tuple(specs) == game.agents
    readers = [InputReader(spec, spec.id) for spec in specs]
    rows = [Rows(Block.private(Rows.layout(spec, WORLDS, 1))) for spec in specs]
    random, compared = np.random.default_rng(0), 0
    for turn in range(TURNS):
        for phase in game.begin_turn():
            observations = game.observe(phase)
            actions = []
            for index, i in enumerate(phase):
                parts, active = observations.parts[index], observations.active[index]
                legal = observations.legal[index]
                age = np.full(WORLDS, turn, np.int32)
                ReplayWriter(rows[i]).write_observation(0, parts, active, legal, age)
                own = [
                    foreign._worlds[world].observations[foreign._spaces[i].name]
                    for world in np.flatnonzero(active)
                ]
                for world, observation in zip(np.flatnonzero(active), own, strict=True):
                    batch = readers[i].read(observation)
                    assert batch.is_single
                    assert_same(batch, 0, rows[i], world)
                    compared += 1
                if own:
                    batch = readers[i].read(stacked(own))
                    assert not batch.is_single
                    for k, world in enumerate(np.flatnonzero(active)):
                        assert_same(batch, k, rows[i], world)
                draws = random.random(WORLDS)
                actions.append(random_actions(specs[i].num_actions, legal, draws))
            game.act(phase, np.stack(actions, axis=1))
        game.end_turn()
    game.close()
    assert compared >= TURNS

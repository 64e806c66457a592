"""The game that docs/your-first-game.md leads to: a stag hunt for two."""

import numpy as np
import pytest

from rookery.games.conformance.checks import check_game
from rookery.games.gridworld import GridEngine
from rookery.games.registry import find
from tests.paths import GAME_FILES

PATH = f"{GAME_FILES / 'staghunt.py'}:StagHunt"
UP, RIGHT, DOWN, LEFT = range(4)


@pytest.fixture
def game() -> GridEngine:
    entry = find(PATH)
    built = entry.build(entry.settings(regrow=0.0), 1, 0)
    assert isinstance(built, GridEngine)
    return built


def put(game: GridEngine, agent: int, row: int, column: int) -> None:
    layout = game.layout
    cell = layout.inside.reshape(layout.height, layout.width)[row, column]
    game.world.agents[agent].place(np.array([cell]))


def turn(game: GridEngine, *actions: int) -> list[float]:
    (phase,) = game.begin_turn()
    game.observe(phase)
    game.act(phase, np.array([[actions[i] for i in phase]]))
    return game.end_turn().rewards[0].tolist()


@pytest.mark.shows("H4")
def test_a_game_written_by_following_the_page_passes_every_check() -> None:
    entry = find(PATH)

    failed = [f for f in check_game(entry, entry.settings()) if f.result == "failed"]

    assert failed == []


def test_a_single_hunter_gets_no_stag(game: GridEngine) -> None:
    put(game, 0, 2, 4)
    put(game, 1, 1, 1)

    assert turn(game, DOWN, DOWN) == [0.0, 0.0]


def test_two_hunters_in_the_same_turn_both_get_the_stag(game: GridEngine) -> None:
    put(game, 0, 2, 4)
    put(game, 1, 4, 4)

    assert turn(game, DOWN, UP) == [5.0, 5.0]
    assert "S" not in game.show()


def test_a_hare_goes_to_only_one_hunter(game: GridEngine) -> None:
    put(game, 0, 2, 3)
    put(game, 1, 4, 3)

    rewards = turn(game, DOWN, UP)

    assert sorted(rewards) == [0.0, 1.0]

"""Games by name and by the path of a user's file, and their players."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import rookery.games.builtin
from rookery.errors import ConfigError, PlayerError
from rookery.games import registry
from rookery.games.base import Game
from rookery.games.gridworld import GridEngine
from rookery.games.players import Player, RandomPlayer

SHIPPED = {
    "cleanup",
    "climbing",
    "gambling",
    "gathering",
    "harvest",
    "iterated_chicken",
    "iterated_prisoners_dilemma",
    "iterated_stag_hunt",
    "penalty",
    "staghunt",
    "tag",
    "treasurehunt",
}

GRID_GAME = '''
"""A user's own file."""
from rookery.games import gridworld as grid


class Chase(grid.GridGame):
    """Run after each other.

    This line is not for the list.
    """

    class Settings(grid.GridSettings):
        pace: int = 1

    map = """
    #####
    #...#
    #####"""

    def declare(self):
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.runner = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def act(self, world, me):
        me.reward += me.move()


def helper():
    return Chase


SCORE = 7
TABLE = __import__("numpy").zeros((3, 3))
'''

BARE_GAME = '''
"""A game that needs no settings of its own."""
from rookery.games import gridworld as grid


class Stroll(grid.GridGame):
    """Walk about."""

    map = "..."

    def declare(self):
        self.walker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})
'''


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "chase.py"
    path.write_text(GRID_GAME)
    return path


@pytest.fixture
def new_game_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Add files to a folder that is part of `rookery.games.builtin`."""
    known = set(sys.modules)
    package = rookery.games.builtin
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])

    def add(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        importlib.invalidate_caches()
        registry.entries_by_name.cache_clear()

    yield add

    registry.entries_by_name.cache_clear()
    for name in set(sys.modules) - known:
        parent, _, child = name.rpartition(".")
        if parent == package.__name__:
            del sys.modules[name]
            delattr(package, child)


# Built-in games.


@pytest.mark.shows("H3")
def test_every_shipped_game_is_found():
    assert set(registry.entries_by_name()) >= SHIPPED


def test_only_games_are_found():
    names = set(registry.entries_by_name())

    assert names.isdisjoint({"game", "matrix_game", "grid_game", "guarded"})


def test_games_are_listed_by_name_in_order():
    names = list(registry.entries_by_name())

    assert names == sorted(names)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_game_found_by_name_can_be_built(name):
    entry = registry.find(name)

    game = entry.build(entry.settings(), 2, 0, 0)

    assert entry.name == name
    assert isinstance(game, Game)
    assert game.worlds == 2


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_game_has_a_summary_of_one_line(name):
    summary = registry.find(name).summary

    assert summary
    assert "\n" not in summary


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_setting_of_a_game_is_described(name):
    fields = registry.find(name).settings.model_fields

    assert [key for key, field in fields.items() if not field.description] == []


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_random_is_among_the_players_of_every_game(name):
    players = registry.find(name).players

    assert players["random"] is RandomPlayer
    assert all(issubclass(player, Player) for player in players.values())


@pytest.mark.shows("H4")
def test_new_game_is_one_new_file(new_game_files):
    new_game_files("chase.py", GRID_GAME)

    entry = registry.find("chase")

    assert entry.name == "chase"
    assert entry.summary == "Run after each other."


def test_new_game_without_its_own_settings_is_found(new_game_files):
    new_game_files("stroll.py", BARE_GAME)

    assert registry.find("stroll").name == "stroll"


# Unknown names.


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("treasurhunt", "did you mean 'treasurehunt'?"),
        ("Gathering", "did you mean 'gathering'?"),
        ("iterated_staghunt", "did you mean 'iterated_stag_hunt'?"),
    ],
)
def test_unknown_game_suggests_the_nearest_name(name, advice):
    with pytest.raises(ConfigError) as raised:
        registry.find(name)

    assert str(raised.value) == f"unknown game '{name}': {advice}"


def test_unknown_game_without_a_near_name_lists_all():
    with pytest.raises(ConfigError) as raised:
        registry.find("xyzzy")

    listed = ", ".join(registry.entries_by_name())
    assert str(raised.value) == f"unknown game 'xyzzy': known are {listed}."


@pytest.mark.parametrize("name", ["", " "], ids=repr)
def test_blank_name_is_refused_in_one_line(name):
    with pytest.raises(ConfigError) as raised:
        registry.find(name)

    assert "\n" not in str(raised.value)


# A user's file.


def test_grid_game_in_a_file_is_found_by_path(own_file):
    path = f"{own_file}:Chase"

    entry = registry.find(path)

    assert entry.name == path
    assert entry.summary == "Run after each other."
    assert entry.settings().pace == 1
    assert list(entry.players) == ["random"]


def test_grid_game_in_a_file_plays(own_file):
    entry = registry.find(f"{own_file}:Chase")
    game = entry.build(entry.settings(agents=1), 2, 0)

    game.begin_turn()
    game.act((0,), np.array([[1], [1]]))
    rewards = game.end_turn().rewards

    assert isinstance(game, GridEngine)
    assert rewards.shape == (2, 1)


def test_path_without_a_name_shows_the_expected_form(own_file):
    with pytest.raises(ConfigError, match=r"write it as \./file\.py:name"):
        registry.find(str(own_file))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"There is no file .*nowhere\.py"):
        registry.find(f"{tmp_path}/nowhere.py:Chase")


def test_misspelt_class_suggests_the_nearest_name(own_file):
    with pytest.raises(ConfigError, match=r"has no 'Chasee': did you mean 'Chase'\?"):
        registry.find(f"{own_file}:Chasee")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("helper", "<function helper"),
        ("SCORE", "7,"),
        ("grid", "<module 'rookery.games.gridworld'"),
    ],
)
def test_object_that_is_not_a_game_is_refused(own_file, name, text):
    with pytest.raises(ConfigError) as raised:
        registry.find(f"{own_file}:{name}")

    message = str(raised.value)
    assert message.startswith(f"'{own_file}:{name}' is {text}")
    assert message.endswith("not a game: name a subclass of GridGame or Game.")


def test_object_that_prints_on_many_lines_is_refused_in_one(own_file):
    with pytest.raises(ConfigError) as raised:
        registry.find(f"{own_file}:TABLE")

    assert "\n" not in str(raised.value)


# Players.


class Clumsy(Player):
    """Raises when it is built."""

    def __init__(self, *args):
        super().__init__(*args)
        self.spec.parts["view"].labels.index("gme")

    def act(self, observation, turn):
        return np.zeros(self.worlds, np.int64)


def test_players_are_seated_by_name_or_class_and_agents_without_one_are_left_out():
    entry = registry.find("treasurehunt")
    game = entry.build_guarded(entry.settings(), 2, 0)

    players = entry.seat_players(game, ["forager", None, RandomPlayer], seed=0)

    assert {i: type(player).__name__ for i, player in players.items()} == {
        0: "Forager",
        2: "RandomPlayer",
    }
    assert [player.spec.id for player in players.values()] == ["0", "2"]


def test_what_a_users_player_raises_while_it_is_built_is_one_line_with_file_and_line():
    entry = registry.find("treasurehunt")
    game = entry.build_guarded(entry.settings(agents=1), 2, 0)

    message = (
        r"^the player of agent '0' raised in __init__\(\): ValueError: .* "
        r"\(test_registry.py, line \d+\): 'gme' is not there: did you mean 'gem'\?$"
    )
    with pytest.raises(PlayerError, match=message):
        entry.seat_players(game, [Clumsy], seed=0)

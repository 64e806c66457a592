"""Games by name, and by the path of a user's own file."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import rookery.games.builtin
from rookery.errors import ConfigError
from rookery.games import registry as catalog
from rookery.games.base import Game
from rookery.games.gridworld import GridEngine
from rookery.games.players import Player, RandomPlayer

SHIPPED = {
    "cleanup",
    "gambling",
    "gathering",
    "harvest",
    "iterated_chicken",
    "iterated_prisoners_dilemma",
    "iterated_stag_hunt",
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
    """Put files into a folder that counts as part of `rookery.games.builtin`."""
    known = set(sys.modules)
    package = rookery.games.builtin
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])

    def add(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        importlib.invalidate_caches()
        catalog.entries_by_name.cache_clear()

    yield add

    catalog.entries_by_name.cache_clear()
    for name in set(sys.modules) - known:
        parent, _, child = name.rpartition(".")
        if parent == package.__name__:
            del sys.modules[name]
            delattr(package, child)


# Our own games.


@pytest.mark.shows("H3")
def test_every_shipped_game_is_found():
    assert set(catalog.entries_by_name()) >= SHIPPED


def test_nothing_but_games_is_found():
    names = set(catalog.entries_by_name())

    assert names.isdisjoint({"game", "matrix_game", "grid_game", "guarded"})


def test_games_are_listed_by_name_in_order():
    names = list(catalog.entries_by_name())

    assert names == sorted(names)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_game_found_by_name_can_be_built(name):
    entry = catalog.find(name)

    game = entry.build(entry.settings(), 2, 0, 0)

    assert entry.name == name
    assert isinstance(game, Game)
    assert game.worlds == 2


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_game_has_one_line_about_itself(name):
    summary = catalog.find(name).summary

    assert summary
    assert "\n" not in summary


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_setting_of_a_game_is_described(name):
    fields = catalog.find(name).settings.model_fields

    assert [key for key, field in fields.items() if not field.description] == []


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_random_is_among_the_players_of_every_game(name):
    players = catalog.find(name).players

    assert players["random"] is RandomPlayer
    assert all(issubclass(player, Player) for player in players.values())


@pytest.mark.shows("H4")
def test_new_game_is_one_new_file(new_game_files):
    new_game_files("chase.py", GRID_GAME)

    entry = catalog.find("chase")

    assert entry.name == "chase"
    assert entry.summary == "Run after each other."


def test_new_game_without_settings_of_its_own_is_found(new_game_files):
    new_game_files("stroll.py", BARE_GAME)

    assert catalog.find("stroll").name == "stroll"


# Names that are not there.


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("treasurhunt", "did you mean 'treasurehunt'?"),
        ("Gathering", "did you mean 'gathering'?"),
        ("iterated_staghunt", "did you mean 'iterated_stag_hunt'?"),
    ],
)
def test_unknown_game_is_answered_with_the_nearest(name, advice):
    with pytest.raises(ConfigError) as raised:
        catalog.find(name)

    assert str(raised.value) == f"unknown game '{name}': {advice}"


def test_game_unlike_any_other_is_answered_with_the_list():
    with pytest.raises(ConfigError) as raised:
        catalog.find("xyzzy")

    listed = ", ".join(catalog.entries_by_name())
    assert str(raised.value) == f"unknown game 'xyzzy': known are {listed}."


@pytest.mark.parametrize("name", ["", " "], ids=repr)
def test_odd_name_is_answered_in_one_line(name):
    with pytest.raises(ConfigError) as raised:
        catalog.find(name)

    assert "\n" not in str(raised.value)


# A user's own file.


def test_grid_game_in_a_file_is_found_by_path(own_file):
    path = f"{own_file}:Chase"

    entry = catalog.find(path)

    assert entry.name == path
    assert entry.summary == "Run after each other."
    assert entry.settings().pace == 1
    assert list(entry.players) == ["random"]


def test_grid_game_in_a_file_plays(own_file):
    entry = catalog.find(f"{own_file}:Chase")
    game = entry.build(entry.settings(agents=1), 2, 0)

    game.begin_turn()
    game.act((0,), np.array([[1], [1]]))
    rewards = game.end_turn().rewards

    assert isinstance(game, GridEngine)
    assert rewards.shape == (2, 1)


def test_path_without_a_name_says_how_to_write_it(own_file):
    with pytest.raises(ConfigError, match=r"write it as \./file\.py:name"):
        catalog.find(str(own_file))


def test_missing_file_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"There is no file .*nowhere\.py"):
        catalog.find(f"{tmp_path}/nowhere.py:Chase")


def test_misspelt_class_is_answered_with_the_nearest(own_file):
    with pytest.raises(ConfigError, match=r"has no 'Chasee': did you mean 'Chase'\?"):
        catalog.find(f"{own_file}:Chasee")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("helper", "<function helper"),
        ("SCORE", "7,"),
        ("grid", "<module 'rookery.games.gridworld'"),
    ],
)
def test_thing_that_is_no_game_is_told(own_file, name, found):
    with pytest.raises(ConfigError) as raised:
        catalog.find(f"{own_file}:{name}")

    message = str(raised.value)
    assert message.startswith(f"'{own_file}:{name}' is {found}")
    assert message.endswith("not a game: name a class that extends GridGame or Game.")


def test_thing_that_prints_on_many_lines_is_told_in_one(own_file):
    with pytest.raises(ConfigError) as raised:
        catalog.find(f"{own_file}:TABLE")

    assert "\n" not in str(raised.value)

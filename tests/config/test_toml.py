"""Configurations as TOML: reading, writing, and that both agree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ConfigDict, Field

from rookery.config.base import Settings
from rookery.config.parse import parse_overrides
from rookery.config.resolve import resolve
from rookery.config.toml import read_toml, to_toml, write_config
from rookery.errors import ConfigError
from tests.config.mazes import Maze, answer_of, resolve_overrides, values


class Anything(Settings):
    """Like the keyword arguments of a foreign game."""

    model_config = ConfigDict(extra="allow")


def write(folder: Path, data: bytes) -> Path:
    path = folder / "run.toml"
    path.write_bytes(data)
    return path


# Reading


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"seed = 3\nworlds 4\n", "is not TOML, line 2, column 8: Expected '='"),
        (b"seed = ", "is not TOML, end of document: Invalid value"),
        (b"[a]\n[a]\n", "is not TOML, line 2, column 3: Cannot declare"),
        (b"seed = \xff", "is not UTF-8 text (at byte 7): save it as UTF-8"),
        (b"#" * (2**20 + 1), "is larger than 1 MiB"),
        (b"a = " + b"[" * 9999, "is nested deeper than 32 levels: make it flatter"),
        (b".".join([b"a"] * 99) + b" = 1", "is nested deeper than 32 levels"),
        (b"a = " + b"9" * 5000, "is not TOML: Exceeds the limit"),
        (b"a = 1\x00", "is not TOML, line 1, column 6"),
    ],
    ids=["key", "end", "twice", "bytes", "large", "lists", "keys", "digits", "nul"],
)
def test_an_unreadable_file_is_one_line_with_the_position(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    path = write(tmp_path, data)

    with pytest.raises(ConfigError) as caught:
        read_toml(path)

    assert str(caught.value).startswith(f"'{path}' is ")
    assert problem in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file '.*/no.toml': check the"):
        read_toml(tmp_path / "no.toml")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder: give a TOML file"):
        read_toml(tmp_path)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "run.toml/\n/a"])
def test_an_impossible_path_is_one_line(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(path)

    assert str(caught.value).isprintable()


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfseed = 3\r\nworlds = 4\r\n")

    assert read_toml(path) == {"seed": 3, "worlds": 4}


@given(data=st.binary() | st.text(alphabet="[]{}\"'=.,#\\\n0123e+-_abc ").map(str.encode))
@settings(max_examples=500, deadline=None)
def test_whatever_a_file_holds_the_answer_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp(), data)

    answer = answer_of(lambda: resolve(read_toml(path), Maze))

    assert answer.isprintable()


# Writing


def test_the_written_configuration_is_complete_and_readable() -> None:
    class Small(Settings):
        agents: int = Field(default=3, description="Who plays.")

    overrides = ["game.name=small", 'agents."h*".player=random', "agents.1={}"]

    text = to_toml(resolve(parse_overrides(overrides), Small))

    pieces = (
        "# Random seed. The same seed and settings give the same run.\nseed = 0\n\n",
        "# Copies of the game that are played in parallel. More give more steps per second "
        "and\n# take more memory.\n"
        "worlds = 16\n\n",
        "# The game and its settings.\n"
        "[game]\n"
        "# Name of a game that `rookery games` lists, or the path of your own.\n"
        'name = "small"\n\n'
        "# Who plays.\n"
        "agents = 3\n\n",
        "# Settings of one agent by its id, or of several by a pattern such as "
        "'hunter*'.\n"
        "# Patterns apply in order, and an agent's own id last.\n"
        '[agents."h*"]\n'
        "# Scripted player that acts for this agent: 'random', or a player of the game.\n"
        'player = "random"\n\n'
        "[agents.1]\n",
    )
    assert [piece for piece in pieces if piece not in text] == []


def numbers() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False)


def mazes() -> st.SearchStrategy[dict[str, Any]]:
    beams = st.fixed_dictionaries({}, optional={"length": st.integers(1, 2**40)})
    return st.fixed_dictionaries(
        {},
        optional={
            "agents": st.integers(1, 50),
            "acting": st.sampled_from(["simultaneous", "in_turn"]),
            "regrowth": st.floats(0, 1, exclude_min=True, exclude_max=True),
            "walls": st.booleans(),
            "size": st.tuples(st.integers(8, 99), st.integers(8, 99)),
            "gems": st.lists(numbers(), max_size=9),
            "tags": st.sets(st.text()),
            "plan": st.text(),
            "colour": st.sampled_from(["red", "blue"]),
            "start": st.dates(),
            "folder": st.just("a b/ä.txt"),
            "sight": st.just("all") | st.integers(0, 2**62),
            "prices": st.dictionaries(st.text(), numbers()),
            "beam": beams,
            "kinds": st.dictionaries(st.text(), beams),
            "from": st.text(),
        },
    )


def trees() -> st.SearchStrategy[dict[str, Any]]:
    agents = st.fixed_dictionaries({}, optional={"player": st.text()})
    return st.fixed_dictionaries(
        {"game": mazes().map(lambda maze: maze | {"name": "maze"})},
        optional={
            "seed": st.integers(0, 2**63 - 1),
            "worlds": st.integers(1, 4096),
            "evaluate": st.fixed_dictionaries({"episodes": st.integers(1, 1000)}),
            "agents": st.dictionaries(st.text() | st.sampled_from("a*?[b]"), agents),
        },
    )


@given(raw=trees())
@settings(max_examples=200, deadline=None)
def test_what_is_written_resolves_to_the_same_configuration(
    tmp_path_factory: pytest.TempPathFactory, raw: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "config.toml"
    config = resolve(raw, Maze)

    write_config(config, path)
    again = resolve(read_toml(path), Maze)

    assert again == config
    assert list(again.agents) == list(config.agents)
    assert to_toml(again) == to_toml(config)


@given(
    options=st.dictionaries(
        st.text().filter(lambda key: key != "name"), values(), max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_options_that_a_game_does_not_declare_are_written_and_read_exactly(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "options.toml"
    config = resolve({"game": {"name": "x", **options}}, Anything)

    write_config(config, path)

    assert resolve(read_toml(path), Anything) == config
    assert config.game.settings.model_extra == options


def test_an_option_that_toml_cannot_hold_is_named() -> None:
    config = resolve({"game": {"name": "x", "make": print}}, Anything)

    with pytest.raises(ConfigError, match=r"game.make cannot be written to a TOML file"):
        to_toml(config)


def test_a_configuration_is_replaced_atomically_and_leaves_no_other_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.toml"
    write_config(resolve_overrides("seed=1"), path)

    write_config(resolve_overrides("seed=2"), path)

    assert read_toml(path)["seed"] == 2
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_failed_write_leaves_the_old_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    write_config(resolve_overrides("seed=1"), path)

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(ConfigError, match=r"cannot write '.*config.toml': No space left"):
        write_config(resolve_overrides("seed=2"), path)

    assert read_toml(path)["seed"] == 1
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write '.*': No such file or direct"):
        write_config(resolve_overrides(), tmp_path / "no" / "config.toml")

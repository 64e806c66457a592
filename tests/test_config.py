"""Settings: what is read, what is refused and in which words, and what is written."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, field_validator, model_validator

from rookery.config import (
    AgentConfig,
    Config,
    Settings,
    describe_settings,
    resolve,
    to_toml,
    write_config,
)
from rookery.errors import ConfigError
from rookery.words import merge, parse_words, read_toml, shown


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Beam(Settings):
    length: int = Field(default=3, ge=1, description="Cells that a beam reaches.")


class Maze(Settings):
    """A game's settings, with every kind of value that a game may ask for."""

    agents: int = Field(default=3, ge=1, le=50, description="Who plays.")
    acting: Literal["simultaneous", "in_turn"] = Field(
        default="simultaneous", description="When agents act."
    )
    regrowth: float = Field(default=0.005, gt=0, lt=1, description="Chance per turn.")
    walls: bool = Field(default=True, description="Whether there are walls.")
    size: tuple[int, int] = Field(default=(21, 21), description="Rows and columns.")
    gems: tuple[float, ...] = Field(default=(), max_length=9, description="Values.")
    tags: frozenset[str] = Field(default=frozenset(), description="Names.")
    plan: str | None = Field(default=None, description="The map.\nA line per row.")
    colour: Colour = Field(default=Colour.RED, description="Of the agents.")
    start: datetime.date | None = Field(default=None, description="A day.")
    folder: Path = Field(default=Path("."), description="Where pictures lie.")
    sight: Literal["all"] | Annotated[int, Field(ge=0)] = Field(
        default="all", description="How far agents see."
    )
    prices: dict[str, float] = Field(default={}, description="By kind.")
    beam: Beam = Field(default=Beam(), description="The beam.")
    kinds: dict[str, Beam] = Field(default={}, description="Beams by name.")
    source: str = Field(default="", alias="from", description="A name of Python's.")

    @field_validator("size", mode="before")
    @classmethod
    def _check_before(cls, value: Any) -> Any:
        return value  # that there is such a check must not make lists unfit for tuples

    @model_validator(mode="after")
    def _room_for_all(self) -> Maze:
        if self.agents > self.size[0] * self.size[1]:
            raise ValueError(f"{self.agents} agents are more\nthan there are cells")
        return self


class Anything(Settings):
    """Like the keyword arguments of a foreign game."""

    model_config = ConfigDict(extra="allow")


def resolve_words(*words: str) -> Config:
    return resolve(parse_words(["game.name=maze", *words]), Maze)


def problems_of(*words: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        resolve_words(*words)
    return caught.value.problems


def write(folder: Path, data: bytes) -> Path:
    path = folder / "run.toml"
    path.write_bytes(data)
    return path


# Words


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("key=3", 3),
        ("key=-3", -3),
        ("key=1e-3", 1e-3),
        ("key=true", True),
        ('key="3"', "3"),
        ("key='a b'", "a b"),
        ("key=[1, 2]", [1, 2]),
        ("key={a = 1}", {"a": 1}),
        ("key=in_turn", "in_turn"),
        ("key=0..9", "0..9"),
        ("key=./mine.py:Zap", "./mine.py:Zap"),
        ("key=runs/a:0@200", "runs/a:0@200"),
        ("key=a=b", "a=b"),
        ("key=[1, 2", "[1, 2"),
        ("key=2024-01-01", "2024-01-01"),
        ("key=3\nother = 4", "3\nother = 4"),
        ("key=" + "9" * 5000, "9" * 5000),
        ("key=" + "[" * 5000, "[" * 5000),
        (" key = 3 ", 3),
        ("key=", ""),
    ],
)
def test_a_words_value_is_toml_where_it_can_be_and_else_text(
    word: str, value: object
) -> None:
    assert parse_words([word]) == {"key": value}


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("agents.0.player=x", ["agents", "0", "player"]),
        ('agents."hunter*".player=x', ["agents", "hunter*", "player"]),
        ("agents.hunter*.player=x", ["agents", "hunter*", "player"]),
        ("agents.'a.b=c'.player=x", ["agents", "a.b=c", "player"]),
        (r'agents."a\"\u00e4".player=x', ["agents", 'a"ä', "player"]),
        ("agents . 0 . player = x", ["agents", "0", "player"]),
        ('agents."".player=x', ["agents", "", "player"]),
    ],
)
def test_a_words_key_is_dotted_and_odd_names_may_be_quoted(
    word: str, parts: list[str]
) -> None:
    expected: Any = "x"
    for part in reversed(parts):
        expected = {part: expected}

    assert parse_words([word]) == expected


def test_the_last_of_two_equal_keys_wins() -> None:
    assert parse_words(["a.b=1", "a.c=2", "a.b=3"]) == {"a": {"b": 3, "c": 2}}


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("seed", "'seed' has no '=': write a setting as key=value"),
        ("", "'' has no '=': write a setting as key=value"),
        ("=3", "'=3' has no key before '=': write a setting as key=value"),
        ("a..b=3", "the key of 'a..b=3' cannot be read: write names with a dot"),
        ("a.=3", "the key of 'a.=3' cannot be read"),
        (r'"\q"=3', r"""the key of '"\\q"=3' cannot be read"""),
        ('a."b=3', """the key of 'a."b=3' cannot be read"""),
        ("a\nb", r"'a\nb' has no '='"),
        (".".join("a" * 99) + "=1", "is nested deeper than 32 levels"),
        ("a=" + "[" * 40 + "]" * 40, "is nested deeper than 32 levels"),
    ],
)
def test_a_word_that_cannot_be_understood_is_named(word: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_words([word])

    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [["a=3", "a.b=2"], ["a.b=2", "a=3"]])
def test_a_key_is_not_both_a_value_and_a_group(words: list[str]) -> None:
    problem = "'a' is given both as a value and as a group of settings: give only one"

    with pytest.raises(ConfigError, match=problem):
        parse_words(words)


def test_all_bad_words_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_words(["seed", "worlds=3", "=1"])

    assert len(caught.value.problems) == 2


def test_what_is_merged_over_wins_and_keeps_its_place() -> None:
    base = {"agents": {1: {"player": "a"}, "b*": {"player": "b"}}, "seed": 1}
    over = {"agents": {"1": {"player": "c"}}, "seed": None, "worlds": 2}

    merged = merge(base, over)

    assert merged == {
        "agents": {"1": {"player": "c"}, "b*": {"player": "b"}},
        "seed": 1,
        "worlds": 2,
    }
    assert list(merged["agents"]) == ["1", "b*"]


# Files


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
def test_an_unreadable_file_is_one_line_with_the_place(
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


# What fits


def test_defaults_are_filled_in() -> None:
    config = resolve_words()

    assert (config.seed, config.worlds, config.evaluate.episodes) == (0, 16, 100)
    assert config.game.name == "maze"
    assert config.game.settings == Maze()
    assert config.agents == {}


def test_a_games_settings_stand_beside_its_name() -> None:
    config = resolve_words("game.agents=4", "game.beam.length=7", "game.size=[3, 4]")

    assert config.game.settings == Maze(agents=4, beam=Beam(length=7), size=(3, 4))


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("game.regrowth=0.5", "regrowth", 0.5),
        ("game.gems=[1, 2.5]", "gems", (1.0, 2.5)),
        ("game.colour=blue", "colour", Colour.BLUE),
        ("game.folder=/tmp", "folder", Path("/tmp")),
        ("game.start=2024-02-29", "start", datetime.date(2024, 2, 29)),
        ("game.sight=3", "sight", 3),
        ("game.prices={gem = 1}", "prices", {"gem": 1.0}),
        ("game.from=home", "source", "home"),
    ],
)
def test_values_take_the_type_of_their_setting(word: str, name: str, value: object) -> None:
    assert getattr(resolve_words(word).game.settings, name) == value


def test_from_python_ids_may_be_numbers_and_none_is_the_default() -> None:
    raw = {
        "seed": np.int64(3),
        "worlds": None,
        "game": {"name": "maze", "size": (3, 4), "colour": Colour.BLUE},
        "agents": {0: {"player": "random"}, 1: AgentConfig(player="forager")},
    }

    config = resolve(raw, Maze)

    assert (config.seed, config.worlds) == (3, 16)
    assert config.game.settings == Maze(size=(3, 4), colour=Colour.BLUE)
    assert config.agent(0) == config.agent("0") == AgentConfig(player="random")
    assert config.agent("1").player == "forager"


def test_patterns_apply_in_order_and_an_agents_own_id_last() -> None:
    config = resolve_words(
        "agents.hunter1.player=own",
        'agents."*".player=all',
        'agents."hunter*".player=hunters',
        "agents.hunter3={}",
    )

    assert config.agent("hunter1").player == "own"
    assert config.agent("hunter2").player == "hunters"
    assert config.agent("hunter3").player == "hunters"
    assert config.agent("prey").player == "all"


def test_an_id_that_looks_like_a_pattern_is_still_an_id() -> None:
    config = resolve_words('agents."a[0]".player=own', 'agents."a*".player=all')

    config.check_agents(["a[0]"])

    assert config.agent("a[0]").player == "own"


def test_agents_without_settings_have_the_defaults() -> None:
    assert resolve_words().agent("0") == AgentConfig()


def test_settings_that_fit_no_agent_are_named() -> None:
    config = resolve_words("agents.hunter.player=x", 'agents."wolf*".player=x')

    with pytest.raises(ConfigError) as caught:
        config.check_agents(["hunter1", "prey"])

    assert caught.value.problems == (
        "'agents.hunter' fits no agent of 'maze': did you mean 'hunter1'?",
        "'agents.\"wolf*\"' fits no agent of 'maze': known are hunter1, prey.",
    )


def test_settings_that_fit_agents_pass() -> None:
    config = resolve_words("agents.0.player=x", 'agents."*".player=x')

    config.check_agents(["0", "1"])


# What does not fit


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("worlds=many", "worlds must be a whole number, got 'many'"),
        ("worlds=-3", "worlds must be at least 1, got -3"),
        ("worlds=5000", "worlds must be at most 4096, got 5000"),
        ("worlds=3.5", "worlds must be a whole number, got 3.5"),
        ("worlds=3.0", "worlds must be a whole number, got 3.0"),
        ("worlds=true", "worlds must be a whole number, got true"),
        ('worlds="3"', "worlds must be a whole number, got '3'"),
        ("worlds=[3]", "worlds must be a whole number, got [3]"),
        ("worlds.x=3", "worlds must be a whole number, got a group of settings"),
        ("seed=-1", "seed must be at least 0, got -1"),
        (f"seed={2**63}", f"seed must fit into 64 bits, got {2**63}"),
        (
            "seed=0x" + "f" * 5000,
            "seed must fit into 64 bits, got a value of type 'int'",
        ),
        ("evaluate=3", "evaluate must be a group of settings, got 3"),
        ("evaluate.episodes=0", "evaluate.episodes must be at least 1, got 0"),
        (
            "agents=3",
            "agents must be a group of settings, got 3: did you mean 'game.agents'?",
        ),
        ("agents.0=random", "agents.0 must be a group of settings, got 'random'"),
        ("agents.0.player=3", "agents.0.player must be text (in quotes), got 3"),
        (
            "game.acting=both",
            "game.acting must be 'simultaneous' or 'in_turn', got 'both'",
        ),
        ("game.colour=green", "game.colour must be 'red' or 'blue', got 'green'"),
        ("game.regrowth=0", "game.regrowth must be above 0, got 0"),
        ("game.regrowth=1", "game.regrowth must be below 1, got 1"),
        ("game.regrowth=nan", "game.regrowth must be a finite number, got nan"),
        ("game.regrowth=true", "game.regrowth must be a number, got true"),
        ("game.regrowth=often", "game.regrowth must be a number, got 'often'"),
        ("game.walls=1", "game.walls must be true or false, got 1"),
        ("game.walls=yes", "game.walls must be true or false, got 'yes'"),
        ("game.size=3", "game.size must be a list, got 3"),
        ("game.size=[3]", "game.size[1] is missing: it has no default"),
        ("game.size=[1, 2, 3]", "game.size must be at most 2 long, got [1, 2, 3]"),
        ("game.size=[3, x]", "game.size must be a list, got '[3, x]'"),
        ("game.size=[3, true]", "game.size[1] must be a whole number, got true"),
        ("game.gems=" + str([1] * 10), "game.gems must be at most 9 long, got [1, 1, "),
        ("game.tags=[1]", "game.tags[0] must be text (in quotes), got 1"),
        ("game.sight=far", "game.sight must be 'all' or a whole number, got 'far'"),
        ("game.sight=-1", "game.sight must be 'all' or at least 0, got -1"),
        ("game.prices.gem=x", "game.prices.gem must be a number, got 'x'"),
        ("game.beam=3", "game.beam must be a group of settings, got 3"),
        ("game.kinds.a.length=0", "game.kinds.a.length must be at least 1, got 0"),
        ("game.start=soon", "game.start must be a date such as 2024-12-31, got"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(word: str, problem: str) -> None:
    (found,) = problems_of(word)

    assert found.startswith(problem)
    assert found.isprintable()


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("sed=1", "unknown setting 'sed': did you mean 'seed'?"),
        ("game.agnets=4", "unknown setting 'game.agnets': did you mean 'game.agents'?"),
        ("game.nme=x", "unknown setting 'game.nme': did you mean 'game.name'?"),
        ("game.form=x", "unknown setting 'game.form': did you mean 'game.from'?"),
        (
            "evaluate.episode=1",
            "unknown setting 'evaluate.episode': did you mean 'evaluate.episodes'?",
        ),
        ("episodes=1", "unknown setting 'episodes': did you mean 'evaluate.episodes'?"),
        ("acting=x", "unknown setting 'acting': did you mean 'game.acting'?"),
        ("player=x", "unknown setting 'player': did you mean 'agents.<id>.player'?"),
        (
            'agents."h*".plyer=x',
            "unknown setting 'agents.\"h*\".plyer': did you mean 'agents.\"h*\".player'?",
        ),
        (
            "game.beam.lngth=1",
            "unknown setting 'game.beam.lngth': did you mean 'game.beam.length'?",
        ),
        (
            "game.kinds.a.lngth=1",
            "unknown setting 'game.kinds.a.lngth': did you mean 'game.kinds.a.length'?",
        ),
        (
            "qqq.x=1",
            "unknown setting 'qqq': known are agents, evaluate, game, seed, worlds.",
        ),
        (
            "evaluate.qqq=1",
            "unknown setting 'evaluate.qqq': known are evaluate.episodes.",
        ),
        ('"a\nb"=1', "the key of"),
    ],
)
def test_an_unknown_setting_is_answered_by_the_nearest(word: str, problem: str) -> None:
    (found,) = problems_of(word)

    assert found.startswith(problem)


def test_a_game_without_settings_says_so() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'game.x': known are game.n"):
        resolve({"game": {"name": "bare", "x": 1}}, Settings)


def test_all_problems_are_listed_at_once() -> None:
    found = problems_of("worlds=many", "seed=-1", "game.agnets=4", f"game.agents={2**70}")

    assert found == (
        f"game.agents must fit into 64 bits, got {2**70}",
        "seed must be at least 0, got -1",
        "worlds must be a whole number, got 'many'",
        "unknown setting 'game.agnets': did you mean 'game.agents'?",
    )


def test_of_very_many_problems_the_first_are_listed() -> None:
    found = problems_of(*(f"key{i}=1" for i in range(100)))

    assert len(found) == 21
    assert found[-1] == "and 80 more"


def test_a_missing_game_is_named() -> None:
    with pytest.raises(ConfigError, match=r"game.name is missing: it has no default"):
        resolve({}, Maze)


def test_a_game_that_is_no_group_is_one_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"game": "maze"}, Maze)

    assert str(caught.value) == "game must be a group of settings, got 'maze'"


def test_a_games_own_check_is_told_on_one_line() -> None:
    (found,) = problems_of("game.agents=5", "game.size=[2, 2]")

    assert found == "game: 5 agents are more than there are cells"


def test_a_game_cannot_declare_a_setting_called_name() -> None:
    class Named(Settings):
        name: str = Field(default="", description="Taken.")

    with pytest.raises(ConfigError, match="declares a setting called 'name': rename"):
        resolve({"game": {"name": "x"}}, Named)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"seed": "a\udc80"}, r"seed must be Unicode text, got 'a\\udc80'"),
        ({"a\udc80": 1}, r'"a\\U0000dc80" must have a name in Unicode'),
        ({"seed": object()}, "seed must be a whole number, got a value of type 'obj"),
        ({"seed": [None]}, "seed must be a whole number, got a value of type 'list'"),
    ],
)
def test_what_no_file_can_hold_is_refused(raw: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        resolve(raw | {"game": {"name": "maze"}}, Maze)


def test_a_tree_without_end_is_refused() -> None:
    raw: dict[str, Any] = {"game": {"name": "maze"}}
    raw["seed"] = raw

    with pytest.raises(ConfigError, match="is nested deeper than 32 levels"):
        resolve(raw, Maze)


def test_long_values_and_keys_are_cut() -> None:
    found = problems_of("worlds=" + "x" * 10_000, "k" * 10_000 + "=1")

    assert found[0] == f"worlds must be a whole number, got '{'x' * 60}…'"
    assert all(len(problem) < 300 for problem in found)


def test_control_characters_are_quoted() -> None:
    assert shown("a\n\x1b[31m\u2028\u202e") == r"'a\n\x1b[31m\u2028\u202e'"


# What is described and written


@pytest.mark.parametrize("row", describe_settings(Config), ids=lambda row: row.key)
def test_every_setting_is_documented(row: Any) -> None:
    assert row.description.endswith(".")


def test_settings_are_described_by_dotted_key_type_and_default() -> None:
    rows = {row.key: row for row in describe_settings(Maze, "game")}

    assert rows["game.agents"] == (
        "game.agents",
        "whole number, at least 1, at most 50",
        "3",
        "Who plays.",
    )
    assert {key: row.type for key, row in rows.items() if key != "game.agents"} == {
        "game.acting": "'simultaneous' or 'in_turn'",
        "game.regrowth": "number, above 0, below 1",
        "game.walls": "true or false",
        "game.size": "[whole number, whole number]",
        "game.gems": "[number, …], at most 9 long",
        "game.tags": "[text]",
        "game.plan": "text",
        "game.colour": "'red' or 'blue'",
        "game.start": "date",
        "game.folder": "path",
        "game.sight": "'all' or whole number, at least 0",
        "game.prices": "group of settings",
        "game.beam.length": "whole number, at least 1",
        "game.kinds.<id>.length": "whole number, at least 1",
        "game.from": "text",
    }
    assert rows["game.plan"].default == "unset"
    assert rows["game.plan"].description == "The map. A line per row."
    assert rows["game.acting"].default == '"simultaneous"'


def test_a_setting_without_default_is_described_as_required() -> None:
    rows = {row.key: row.default for row in describe_settings(Config)}

    assert rows["game.name"] == "required"
    assert rows["agents.<id>.player"] == "unset"


def test_the_written_configuration_is_complete_and_readable() -> None:
    class Small(Settings):
        agents: int = Field(default=3, description="Who plays.")

    words = ["game.name=small", 'agents."h*".player=random', "agents.1={}"]

    text = to_toml(resolve(parse_words(words), Small))

    assert text == (
        "# Where all random numbers come from. The same seed and settings give the "
        "same run.\n"
        "seed = 0\n\n"
        "# Copies of the game played side by side. More give more steps per second and "
        "take more\n# memory.\n"
        "worlds = 16\n\n"
        "# The game, and how it is set up.\n"
        "[game]\n"
        "# The game: a name from `rookery games`, or the path of one's own.\n"
        'name = "small"\n\n'
        "# Who plays.\n"
        "agents = 3\n\n"
        "# How the agents are judged.\n"
        "[evaluate]\n"
        "# Episodes to play in an evaluation, all worlds together. More take longer "
        "and make the\n# mean more certain.\n"
        "episodes = 100\n\n"
        "# Settings of one agent by its id, or of several by a pattern such as "
        "'hunter*'.\n"
        "# Patterns apply in the order given, and an agent's own id last.\n"
        '[agents."h*"]\n'
        "# The scripted player that plays this agent: 'random', or one that the game "
        "offers.\n"
        'player = "random"\n\n'
        "[agents.1]\n"
    )


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


def values() -> st.SearchStrategy[Any]:
    scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    short = st.text(max_size=5)
    leaves = scalars | short | st.datetimes() | st.dates() | st.times()
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3)
        ),
        max_leaves=8,
    )


@given(
    options=st.dictionaries(
        st.text().filter(lambda key: key != "name"), values(), max_size=4
    )
)
@settings(max_examples=100, deadline=None)
def test_options_that_a_game_did_not_declare_are_written_and_read_exactly(
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


def test_a_configuration_is_replaced_whole_and_leaves_nothing_beside(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.toml"
    write_config(resolve_words("seed=1"), path)

    write_config(resolve_words("seed=2"), path)

    assert read_toml(path)["seed"] == 2
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_failed_write_leaves_the_old_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config.toml"
    write_config(resolve_words("seed=1"), path)

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(ConfigError, match=r"cannot write '.*config.toml': No space left"):
        write_config(resolve_words("seed=2"), path)

    assert read_toml(path)["seed"] == 1
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write '.*': No such file or direct"):
        write_config(resolve_words(), tmp_path / "no" / "config.toml")


# Anything at all


def answer_of(attempt: Callable[[], Config]) -> str:
    try:
        attempt()
    except ConfigError as error:
        return str(error)
    return ""


def odd_words() -> st.SearchStrategy[str]:
    known = [row.key for row in describe_settings(Config)]
    known += [row.key for row in describe_settings(Maze, "game")]
    keys = st.sampled_from([key.replace("<id>", "0") for key in known]) | st.text()
    odd_texts = st.text(alphabet="[]{}\"'=.,#\\\n0123e+-_xtrue ")
    return st.builds("{}={}".format, keys, odd_texts | st.text()) | st.text()


@given(words=st.lists(odd_words(), max_size=5))
@settings(max_examples=500, deadline=None)
def test_whatever_words_are_given_the_answer_is_one_line(words: list[str]) -> None:
    answer = answer_of(lambda: resolve_words(*words))

    assert answer.isprintable()


@given(data=st.binary() | st.text(alphabet="[]{}\"'=.,#\\\n0123e+-_abc ").map(str.encode))
@settings(max_examples=500, deadline=None)
def test_whatever_a_file_holds_the_answer_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp(), data)

    answer = answer_of(lambda: resolve(read_toml(path), Maze))

    assert answer.isprintable()


@given(raw=st.dictionaries(st.text(), values(), max_size=4), game=values())
@settings(max_examples=100, deadline=None)
def test_whatever_tree_is_resolved_the_answer_is_one_line(
    raw: dict[str, Any], game: Any
) -> None:
    names = ["seed", "worlds", "evaluate", "agents"]
    tree = dict(zip(names, raw.values(), strict=False)) | raw | {"game": game}

    answer = answer_of(lambda: resolve(tree, Maze))

    assert answer.isprintable()

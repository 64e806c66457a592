"""Overrides and trees of settings: how they are read, merged and refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.config.parse import merge, parse_overrides
from rookery.config.resolve import describe_settings
from rookery.config.run import Config
from rookery.errors import ConfigError
from tests.config.mazes import Maze, answer_of, resolve_overrides


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("key=3", 3),
        ("key=-3", -3),
        ("key=1e-3", 1e-3),
        ("key=.5", 0.5),
        ("key=-.5e-3", -0.5e-3),
        ("key=.", "."),
        ("key=.5.5", ".5.5"),
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
        ("key=" + "[" * 4000, "[" * 4000),
        (" key = 3 ", 3),
        ("key=", ""),
    ],
)
def test_the_value_of_an_override_is_toml_if_it_is_valid_and_otherwise_text(
    override: str, value: object
) -> None:
    assert parse_overrides([override]) == {"key": value}


@pytest.mark.parametrize(
    ("override", "parts"),
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
def test_the_key_of_an_override_is_dotted_and_its_names_can_be_quoted(
    override: str, parts: list[str]
) -> None:
    expected: Any = "x"
    for part in reversed(parts):
        expected = {part: expected}

    assert parse_overrides([override]) == expected


def test_the_last_of_two_equal_keys_wins() -> None:
    assert parse_overrides(["a.b=1", "a.c=2", "a.b=3"]) == {"a": {"b": 3, "c": 2}}


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("seed", "'seed' has no '=': write a setting as key=value"),
        ("", "'' has no '=': write a setting as key=value"),
        ("=3", "'=3' has no key before '=': write a setting as key=value"),
        ("a..b=3", "the key of 'a..b=3' cannot be read: separate names by dots"),
        ("a.=3", "the key of 'a.=3' cannot be read"),
        (r'"\q"=3', r"""the key of '"\\q"=3' cannot be read"""),
        ('a."b=3', """the key of 'a."b=3' cannot be read"""),
        ("a\nb", r"'a\nb' has no '='"),
        ("a=" + "9" * 4095, "has 4097 characters, expected at most 4096: put it into a"),
    ],
)
def test_an_override_that_cannot_be_parsed_is_named(override: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides([override])

    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        ".".join("a" * 99) + "=1",
        "a=" + "[" * 40 + "]" * 40,
        "a={" + ".".join("a" * 1500) + "=1}",
        ".".join("a" * 2000) + "=1",
    ],
)
def test_an_override_that_is_nested_too_deep_is_refused(override: str) -> None:
    for overrides in ([override], [override, override]):
        answer = answer_of(lambda given=overrides: resolve_overrides(*given))

        assert "is nested deeper than 32 levels" in answer
        assert answer.isprintable()


@pytest.mark.parametrize("overrides", [["a=3", "a.b=2"], ["a.b=2", "a=3"]])
def test_a_key_is_not_both_a_value_and_a_group(overrides: list[str]) -> None:
    problem = "'a' is given both as a value and as a group of settings: give only one"

    with pytest.raises(ConfigError, match=problem):
        parse_overrides(overrides)


def test_all_invalid_overrides_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["seed", "worlds=3", "=1"])

    assert len(caught.value.problems) == 2


def test_the_later_value_wins_and_keys_keep_their_position() -> None:
    base = {"agents": {1: {"player": "a"}, "b*": {"player": "b"}}, "seed": 1}
    over = {"agents": {"1": {"player": "c"}}, "seed": None, "worlds": 2}

    merged = merge(base, over)

    assert merged == {
        "agents": {"1": {"player": "c"}, "b*": {"player": "b"}},
        "seed": 1,
        "worlds": 2,
    }
    assert list(merged["agents"]) == ["1", "b*"]


def odd_overrides() -> st.SearchStrategy[str]:
    known = [row.key for row in describe_settings(Config)]
    known += [row.key for row in describe_settings(Maze, "game")]
    keys = st.sampled_from([key.replace("<id>", "0") for key in known]) | st.text()
    odd_texts = st.text(alphabet="[]{}\"'=.,#\\\n0123e+-_xtrue ")
    return st.builds("{}={}".format, keys, odd_texts | st.text()) | st.text()


@given(overrides=st.lists(odd_overrides(), max_size=5))
@settings(max_examples=500, deadline=None)
def test_whatever_overrides_are_given_the_answer_is_one_line(overrides: list[str]) -> None:
    answer = answer_of(lambda: resolve_overrides(*overrides))

    assert answer.isprintable()

"""Words and trees of settings: how they are read, merged, and refused."""

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
    ("word", "value"),
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
        ("key=" + "9" * 5000, "9" * 5000),
        ("key=" + "[" * 5000, "[" * 5000),
        (" key = 3 ", 3),
        ("key=", ""),
    ],
)
def test_a_words_value_is_toml_where_it_can_be_and_else_text(
    override: str, value: object
) -> None:
    assert parse_overrides([override]) == {"key": value}


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
    override: str, parts: list[str]
) -> None:
    expected: Any = "x"
    for part in reversed(parts):
        expected = {part: expected}

    assert parse_overrides([override]) == expected


def test_the_last_of_two_equal_keys_wins() -> None:
    assert parse_overrides(["a.b=1", "a.c=2", "a.b=3"]) == {"a": {"b": 3, "c": 2}}


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
def test_a_word_that_cannot_be_understood_is_named(override: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides([override])

    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [["a=3", "a.b=2"], ["a.b=2", "a=3"]])
def test_a_key_is_not_both_a_value_and_a_group(overrides: list[str]) -> None:
    problem = "'a' is given both as a value and as a group of settings: give only one"

    with pytest.raises(ConfigError, match=problem):
        parse_overrides(overrides)


def test_all_bad_words_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_overrides(["seed", "worlds=3", "=1"])

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


def odd_words() -> st.SearchStrategy[str]:
    known = [row.key for row in describe_settings(Config)]
    known += [row.key for row in describe_settings(Maze, "game")]
    keys = st.sampled_from([key.replace("<id>", "0") for key in known]) | st.text()
    odd_texts = st.text(alphabet="[]{}\"'=.,#\\\n0123e+-_xtrue ")
    return st.builds("{}={}".format, keys, odd_texts | st.text()) | st.text()


@given(overrides=st.lists(odd_words(), max_size=5))
@settings(max_examples=500, deadline=None)
def test_whatever_words_are_given_the_answer_is_one_line(overrides: list[str]) -> None:
    answer = answer_of(lambda: resolve_overrides(*overrides))

    assert answer.isprintable()

"""Trees of settings from words and from Python, as plain as a file would give them.

`key=value` words and trees come in; one tree of plain values goes out, which
`config.resolve` checks. The one rule: reading words raises nothing but `ConfigError`.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from rookery.config.messages import Place, dotted, shown
from rookery.errors import ConfigError

Tree = dict[str, Any]

LIMIT_DEPTH = 32

_DATES = (datetime.date, datetime.time)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NO_ZERO = re.compile(r"\s*[+-]?\.[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
# A shell takes the quotes of agents."hunter*".player away, so a bare part may hold more
# here than in TOML: anything that is not a dot, an equals sign, a quote or a space.
_PART = r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^.="'\s]+)\s*"""
_WORD = re.compile(rf"(?P<key>{_PART}(?:\.{_PART})*)=(?P<value>.*)", re.DOTALL)
# tomllib takes memory with the square of a key's parts: 20 kB of dots take 400 MB. What
# is matched is never given back, and no match starts inside of a part: time is linear.
_TOML_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(
    rf"(?<![\w.\\-])(?:{_TOML_PART}[ \t]*+\.[ \t]*+){{{2 * LIMIT_DEPTH}}}+"
)


def parse_overrides(overrides: Iterable[str]) -> Tree:
    """Return the tree that `key=value` words describe; the last of equal keys wins.

    A value is read as TOML where it can be (3, 1e-3, true, "text", [1, 2]), and else
    taken as plain text; .5 is the number that it is everywhere but in TOML.

    Raises:
        ConfigError: naming every word that cannot be understood.
    """
    tree: Tree = {}
    problems: list[str] = []
    for override in overrides:
        try:
            tree = merge(tree, _parse_word(override))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return tree


def merge(base: Mapping[Any, Any], over: Mapping[Any, Any], place: Place = ()) -> Tree:
    """Return `base` overlaid by `over`, group by group; None in `over` changes nothing.

    A key keeps the position where it first appeared, which is the order in which the
    patterns of `agents` apply.

    Raises:
        ConfigError: if a key is a value in one and a group in the other.
    """
    merged = {str(key): value for key, value in base.items()}
    for key, value in over.items():
        inner, old = (*place, str(key)), merged.get(str(key))
        if value is None:
            continue
        if old is not None and isinstance(old, Mapping) != isinstance(value, Mapping):
            raise ConfigError(
                f"'{dotted(inner)}' is given both as a value and as a group of "
                "settings: give only one of the two"
            )
        merged[str(key)] = merge(old, value, inner) if isinstance(old, Mapping) else value
    return merged


def plain(value: object, place: Place, problems: dict[Place, str]) -> Any:
    """Return a value as a file would have given it: string keys, lists, no None.

    None means "not set". TOML cannot say it, and a configuration must be the same when
    it is read back. What no file can hold is put into `problems`, and left out.
    """
    if len(place) >= LIMIT_DEPTH:
        problems[place] = too_deep(f"'{dotted(place)}'")
        return None
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return _plain_group(value, place, problems)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, (*place, i), problems) for i, item in enumerate(value)]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), place, problems)
    if lack := _lack(value):
        problems[place] = f"{dotted(place)} must {lack}, got {shown(value)}"
        return None
    return value


def is_deep(value: object, levels: int = LIMIT_DEPTH) -> bool:
    """Whether groups and lists lie inside of each other for more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_deep(item, levels - 1) for item in items)


def has_deep_key(text: str) -> bool:
    """Whether TOML has a key of so many parts that it should not even be parsed."""
    return _DEEP_KEY.search(text) is not None


def too_deep(name: str) -> str:
    """Return the problem with something that `is_deep`."""
    return f"{name} is nested deeper than {LIMIT_DEPTH} levels: make it flatter"


def _parse_word(override: str) -> Tree:
    match = _WORD.fullmatch(override)
    if match is None:
        raise ConfigError(_bad_word(override))
    parts = [_unquoted(part, override) for part in re.findall(_PART, match["key"])]
    if has_deep_key(match["value"]):
        raise ConfigError(too_deep(shown(override)))
    tree = _parse_value(match["value"].strip())
    if len(parts) > LIMIT_DEPTH or is_deep(tree):
        raise ConfigError(too_deep(shown(override)))
    for part in reversed(parts):
        tree = {part: tree}
    return dict(tree)


def _bad_word(override: str) -> str:
    if "=" not in override:
        return f"{shown(override)} has no '=': write a setting as key=value"
    if not override.partition("=")[0].strip():
        return f"{shown(override)} has no key before '=': write a setting as key=value"
    return (
        f"the key of {shown(override)} cannot be read: write names with a dot between "
        "them, in quotes if they have dots, spaces or quotes in them"
    )


def _unquoted(part: str, override: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"part = {part}")["part"])
    except ValueError as error:
        raise ConfigError(_bad_word(override)) from error


def _parse_value(text: str) -> Any:
    if number := _NO_ZERO.fullmatch(text):
        return float(number[0])
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = table.pop("value")
    # A line break in the text can start a second key: then it was not one TOML value.
    # A date is more often part of a name.
    return text if table or isinstance(value, _DATES) else value


def _plain_group(
    group: Mapping[Any, Any], place: Place, problems: dict[Place, str]
) -> Tree:
    tree: Tree = {}
    for key, value in group.items():
        inner = (*place, str(key))
        if _SURROGATE.search(str(key)):
            problems[inner] = f"{dotted(inner)} must have a name in Unicode"
        elif (found := plain(value, inner, problems)) is not None:
            tree[str(key)] = found
    return tree


def _lack(value: object) -> str:
    """Return what a value would have to do to go into a file, if it cannot."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "fit into 64 bits"
    if isinstance(value, str) and _SURROGATE.search(value):
        return "be Unicode text"
    return ""

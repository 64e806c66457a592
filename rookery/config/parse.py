"""Trees of settings from `key=value` overrides and from Python, as a file would give them.

`config.resolve` validates them. Reading overrides raises nothing but `ConfigError`.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from rookery.config.messages import KeyPath, dotted, shown
from rookery.errors import ConfigError

Tree = dict[str, Any]

LIMIT_DEPTH = 32
LIMIT_OVERRIDE = 4096
"""Characters. tomllib takes memory with the square of the parts of a key."""

_DATES = (datetime.date, datetime.time)
_NO_LEADING_ZERO = re.compile(r"\s*[+-]?\.[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
# A shell removes the quotes of agents."hunter*".player, so an unquoted part can contain
# more than in TOML: anything except a dot, an equals sign, a quote or a space.
_PART = r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^.="'\s]+)\s*"""
_OVERRIDE = re.compile(rf"(?P<key>{_PART}(?:\.{_PART})*)=(?P<value>.*)", re.DOTALL)


def parse_overrides(overrides: Iterable[str]) -> Tree:
    """Return the tree that `key=value` overrides describe; the last of equal keys wins.

    A value is read as TOML if it is valid (3, 1e-3, true, "text", [1, 2]), and otherwise
    taken as text. Unlike in TOML, .5 is a number.

    Raises:
        ConfigError: naming every override that cannot be parsed.
    """
    tree: Tree = {}
    problems: list[str] = []
    for override in overrides:
        try:
            tree = merge(tree, _parse_override(override))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return tree


def merge(base: Mapping[Any, Any], over: Mapping[Any, Any], path: KeyPath = ()) -> Tree:
    """Return `base` overlaid by `over`, group by group; None in `over` changes nothing.

    A key keeps its first position, since the patterns of `agents` apply in order.

    Raises:
        ConfigError: if a key is a value in one and a group in the other.
    """
    if len(path) > LIMIT_DEPTH:
        raise ConfigError(too_deep(f"'{dotted(path)}'"))
    merged = {str(key): value for key, value in base.items()}
    for key, value in over.items():
        inner, old = (*path, str(key)), merged.get(str(key))
        if value is None:
            continue
        if old is not None and isinstance(old, Mapping) != isinstance(value, Mapping):
            raise ConfigError(
                f"'{dotted(inner)}' is given both as a value and as a group of "
                "settings: give only one of the two"
            )
        merged[str(key)] = merge(old, value, inner) if isinstance(old, Mapping) else value
    return merged


def nested(settings: Mapping[Any, Any]) -> Tree:
    """Return the tree of settings from Python, whose keys can be dotted."""
    tree: Tree = {}
    for key, value in settings.items():
        branch: Any = value
        for part in reversed(str(key).split(".")):
            branch = {part: branch}
        tree = merge(tree, branch)
    return tree


def plain(value: object, path: KeyPath, problems: dict[KeyPath, str]) -> Any:
    """Return a value as a TOML file would give it: string keys, lists, no None.

    None means "not set", which TOML cannot express. A configuration must be the same after
    it is written and read back, so what a file cannot hold is left out and reported in
    `problems`.
    """
    if len(path) >= LIMIT_DEPTH:
        problems[path] = too_deep(f"'{dotted(path)}'")
        return None
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return _plain_group(value, path, problems)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, (*path, i), problems) for i, item in enumerate(value)]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), path, problems)
    return value if _is_storable(value, path, problems) else None


def too_deep(name: str) -> str:
    """Return the problem with a tree of more than LIMIT_DEPTH levels."""
    return f"{name} is nested deeper than {LIMIT_DEPTH} levels: make it flatter"


def _parse_override(override: str) -> Tree:
    if len(override) > LIMIT_OVERRIDE:
        raise ConfigError(
            f"{shown(override)} has {len(override)} characters, expected at most "
            f"{LIMIT_OVERRIDE}: put it into a file and use --config"
        )
    match = _OVERRIDE.fullmatch(override)
    if match is None:
        raise ConfigError(_syntax_problem(override))
    tree = _parse_value(match["value"].strip())
    for part in reversed(re.findall(_PART, match["key"])):
        tree = {_unquoted(part, override): tree}
    return dict(tree)


def _syntax_problem(override: str) -> str:
    if "=" not in override:
        return f"{shown(override)} has no '=': write a setting as key=value"
    if not override.partition("=")[0].strip():
        return f"{shown(override)} has no key before '=': write a setting as key=value"
    return (
        f"the key of {shown(override)} cannot be read: separate names by dots, and quote "
        "names that contain dots, spaces or quotes"
    )


def _unquoted(part: str, override: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"part = {part}")["part"])
    except ValueError as error:
        raise ConfigError(_syntax_problem(override)) from error


def _parse_value(text: str) -> Any:
    if number := _NO_LEADING_ZERO.fullmatch(text):
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
    group: Mapping[Any, Any], path: KeyPath, problems: dict[KeyPath, str]
) -> Tree:
    tree: Tree = {}
    for key, value in group.items():
        inner = (*path, str(key))
        if _is_storable(str(key), inner, problems):
            tree[str(key)] = plain(value, inner, problems)
    return {key: value for key, value in tree.items() if value is not None}


def _is_storable(value: object, path: KeyPath, problems: dict[KeyPath, str]) -> bool:
    """Whether a file can hold a value or a key; if not, add a problem."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        expected = "fit into 64 bits"
    elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        expected = "be Unicode text"  # an argument with bytes that are not UTF-8
    else:
        return True
    problems[path] = f"{dotted(path)} must {expected}, got {shown(value)}"
    return False

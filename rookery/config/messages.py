"""Settings in words: values, names and types, and what is wrong with them.

Values and pydantic's findings come in; text for messages, tables and TOML goes out. The
one rule: whatever a user typed, a message about it stays on one line.
"""

from __future__ import annotations

import datetime
import difflib
import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python

from rookery.errors import nearest

Place = tuple[str | int, ...]
"""Where a value stands: keys, and positions in lists."""

LIMIT_SHOWN = 60
LIMIT_LINE = 400

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "text (in quotes)",
    "string_pattern_mismatch": "text that fits {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "multiple_of": "a multiple of {multiple_of}",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "iterable": "a list",
    "date": "a date such as 2024-12-31",
    "datetime": "a date and time such as 2024-12-31T23:59:00",
    "dict": "a group of settings",
    "mapping": "a group of settings",
    "model": "a group of settings",
    "none_required": "left out",
}
"""What pydantic's kinds of error expect; 'int_parsing' and the like are one family."""
_FAMILY = re.compile(r"_(attributes|type|parsing|from|unicode)(_.*)?$")
_BOUNDS = {
    "ge": "at least {}",
    "gt": "above {}",
    "le": "at most {}",
    "lt": "below {}",
    "min_length": "at least {} long",
    "max_length": "at most {} long",
}
_TYPES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    dict: "group of settings",
    list: "list",
    tuple: "list",
    Any: "anything",
}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def problems_by_place(
    error: ValidationError, tree: Mapping[str, Any]
) -> dict[Place, list[ErrorDetails]]:
    """Return what pydantic found wrong with `tree`, by the place of the value."""
    found: dict[Place, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_place_of(detail, tree), []).append(detail)
    return found


def problem_words(
    place: Place, details: Sequence[ErrorDetails], known: Sequence[str]
) -> str:
    """Return one sentence about one value.

    Args:
        place: where it was found.
        details: what pydantic says; several if the members of a union all refuse it.
        known: the dotted names of all settings, with '<id>' for any name.
    """
    name = dotted(place) or "the configuration"
    first = details[0]
    if first["type"] == "extra_forbidden":
        return _unknown_words(place, known)
    if first["type"] == "missing":
        return f"{name} is missing: it has no default"
    if first["type"] in ("value_error", "assertion_error"):
        return f"{name}: {cut(one_line(str(first['ctx']['error'])))}"
    expected = _either(list(dict.fromkeys(_expected(detail) for detail in details)))
    near = _elsewhere(place, known) if expected == "a group of settings" else []
    advice = f": did you mean '{near[0]}'?" if near else ""
    return f"{name} must be {expected}, got {shown(first['input'])}{advice}"


def type_words(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Return a field's type in words, with its bounds: 'whole number, at least 1'."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        words = type_words(args[0], args[1:])
    elif origin is Literal:
        words = _either([shown(choice) for choice in args])
    elif origin in (Union, types.UnionType):
        words = _either([type_words(a) for a in args if a is not type(None)])
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        words = _either([shown(member.value) for member in annotation])
    elif origin in (dict, Mapping):
        words = "group of settings"
    elif origin in (list, tuple, set, frozenset, Sequence):
        words = f"[{', '.join('…' if a is ... else type_words(a) for a in args)}]"
    else:
        words = _TYPES.get(annotation, getattr(annotation, "__name__", "value").lower())
    return ", ".join([words, *_bounds_words(metadata)])


def dotted(place: Sequence[str | int]) -> str:
    """Return a setting's name for a message, as a user would write it."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + toml_key(cut(part, LIMIT_SHOWN))
    return cut(text)


def shown(value: object, limit: int = LIMIT_SHOWN) -> str:
    """Return a value as a message quotes it: on one line, and cut if it is long."""
    if isinstance(value, Mapping):
        return "a group of settings"
    if isinstance(value, str) and not isinstance(value, Enum):
        return repr(cut(value, limit))
    try:
        return cut(toml_value(value), limit)
    except (TypeError, ValueError):  # ValueError: an int with too many digits to print
        return f"a value of type '{type(value).__name__}'"


def one_line(text: str) -> str:
    """Return text on one printable line."""
    return _printable(" ".join(text.split()))


def cut(text: str, limit: int = LIMIT_LINE) -> str:
    """Return text, or its beginning if it is long."""
    return text if len(text) <= limit else text[:limit] + "…"


def toml_key(part: str) -> str:
    """Return one part of a key, in quotes if it needs them."""
    return part if _BARE_KEY.fullmatch(part) else _toml_text(part)


def toml_value(value: object) -> str:
    """Return a value as TOML on one line; a set is sorted, so that it stays the same.

    Raises:
        TypeError: if TOML has nothing like it.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case Enum():
            return toml_value(value.value)
        case int():
            return str(int(value))
        case float():
            return repr(float(value))
        case str():
            return _toml_text(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case set() | frozenset():
            return f"[{', '.join(sorted(toml_value(item) for item in value))}]"
        case Mapping():
            return _toml_table(value)
    return _toml_other(value)


def _place_of(detail: ErrorDetails, tree: Any) -> Place:
    # Pydantic's location also names members of unions and the like: those are no keys.
    place: list[str | int] = []
    for part in detail["loc"]:
        keys: Any = range(len(tree)) if isinstance(tree, list) else tree
        if isinstance(keys, dict | range) and part in keys:
            place.append(part)
            tree = tree[part]
    if detail["type"] == "missing":
        place.append(detail["loc"][-1])
    return tuple(place)


def _unknown_words(place: Place, known: Sequence[str]) -> str:
    *parents, key = (str(part) for part in place)
    siblings = {
        parts[len(parents)]
        for parts in (name.split(".") for name in known)
        if len(parts) > len(parents)
        and all(a in (b, "<id>") for a, b in zip(parts, parents, strict=False))
    }
    close = difflib.get_close_matches(key, sorted(siblings), n=1)
    near = [dotted((*parents, name)) for name in close] or _elsewhere(place, known)
    if near:
        advice = f"did you mean '{near[0]}'?"
    else:
        advice = nearest("", {dotted((*parents, name)) for name in siblings})
    return f"unknown setting '{dotted(place)}': {advice}"


def _elsewhere(place: Place, known: Sequence[str]) -> list[str]:
    """Return the settings of the same name in other groups."""
    return [name for name in known if name.rpartition(".")[2] == str(place[-1])]


def _expected(detail: ErrorDetails) -> str:
    limits = {
        name: repr(limit).removesuffix(".0") if isinstance(limit, float) else limit
        for name, limit in detail.get("ctx", {}).items()
    }
    bounds = [text.format(limits[name]) for name, text in _BOUNDS.items() if name in limits]
    if bounds:
        return bounds[0]
    family = _FAMILY.sub("", detail["type"])
    if words := _EXPECTED.get(detail["type"]) or _EXPECTED.get(family):
        return words.format_map(limits)
    message = detail["msg"].removeprefix("Input should be ").replace("a valid ", "a ")
    return one_line(message)


def _either(choices: Sequence[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _bounds_words(metadata: Iterable[Any]) -> Iterator[str]:
    for item in metadata:
        # Field(ge=1) inside Annotated carries its bounds in metadata of its own.
        yield from _bounds_words(getattr(item, "metadata", ()))
        for name, text in _BOUNDS.items():
            if (limit := getattr(item, name, None)) is not None:
                yield text.format(limit)


def _toml_table(table: Mapping[Any, Any]) -> str:
    pairs = [
        f"{toml_key(str(key))} = {toml_value(value)}"
        for key, value in table.items()
        if value is not None
    ]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"


def _toml_other(value: object) -> str:
    try:
        simple = to_jsonable_python(value, by_alias=True, exclude_none=True)
    except PydanticSerializationError as error:
        raise TypeError(f"TOML has no {type(value).__name__}") from error
    if simple is None:
        raise TypeError("TOML has no None")
    return toml_value(simple)


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's too, but JSON leaves a few control characters alone.
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)

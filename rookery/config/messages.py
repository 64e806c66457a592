"""Settings in text: values, names, types, and what is wrong with them.

Used for messages, tables and TOML. Whatever a user typed, a message about it is one line.
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

from rookery.config.synonyms import find_synonym
from rookery.errors import nearest

KeyPath = tuple[str | int, ...]
"""Where a value is in a tree: keys, and positions in lists."""

LIMIT_SHOWN = 60
LIMIT_LINE = 400

_GROUP = "a group of settings"
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text (in quotes)",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": _GROUP,
    "model_type": _GROUP,
    "model_attributes_type": _GROUP,
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "below {lt}",
}
"""What pydantic's common kinds of error expect; for all others its own message is used."""
_SHOULD_BE = "Input should be "
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


def errors_by_path(
    error: ValidationError, tree: Mapping[str, Any]
) -> dict[KeyPath, list[ErrorDetails]]:
    """Return pydantic's errors about `tree`, by the path of the value."""
    errors: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        errors.setdefault(_path_of(detail, tree), []).append(detail)
    return errors


def describe_problem(
    path: KeyPath, errors: Sequence[ErrorDetails], known: Sequence[str]
) -> str:
    """Return one sentence about a value that is wrong.

    Args:
        path: where the value is.
        errors: pydantic's errors; several if all members of a union refuse the value.
        known: the dotted names of all settings, with '<id>' for any name.
    """
    name = dotted(path) or "the configuration"
    first = errors[0]
    if first["type"] == "extra_forbidden":
        return _describe_unknown(path, known)
    if first["type"] == "missing":
        return f"{name} is missing: it has no default"
    if first["type"] in ("value_error", "assertion_error"):
        return f"{name}: {cut(single_line(str(first['ctx']['error'])))}"
    for detail in errors:
        if detail["type"] not in _EXPECTED and not detail["msg"].startswith(_SHOULD_BE):
            return f"{name}: {single_line(detail['msg'])}, got {shown(detail['input'])}"
    expected = _alternatives(list(dict.fromkeys(map(_expected, errors))))
    near = _namesakes(path, known) if expected == _GROUP else []
    advice = f": did you mean '{near[0]}'?" if near else ""
    return f"{name} must be {expected}, got {shown(first['input'])}{advice}"


def describe_type(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Return a field's type and bounds in text: 'whole number, at least 1'."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        text = describe_type(args[0], args[1:])
    elif origin is Literal:
        text = _alternatives([shown(choice) for choice in args])
    elif origin in (Union, types.UnionType):
        text = _alternatives([describe_type(a) for a in args if a is not type(None)])
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        text = _alternatives([shown(member.value) for member in annotation])
    elif origin in (dict, Mapping):
        text = "group of settings"
    elif origin in (list, tuple, set, frozenset, Sequence):
        text = f"[{', '.join('…' if a is ... else describe_type(a) for a in args)}]"
    else:
        text = _TYPES.get(annotation, getattr(annotation, "__name__", "value").lower())
    return ", ".join([text, *_describe_bounds(metadata)])


def dotted(path: Sequence[str | int]) -> str:
    """Return a setting's name for a message, as a user would write it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + toml_key(cut(part, LIMIT_SHOWN))
    return cut(text)


def shown(value: object, limit: int = LIMIT_SHOWN) -> str:
    """Return a value as quoted in messages: on one line, and cut if it is long."""
    if isinstance(value, Mapping):
        return "a group of settings"
    if isinstance(value, str) and not isinstance(value, Enum):
        return repr(cut(value, limit))
    try:
        return cut(toml_value(value), limit)
    except (TypeError, ValueError):  # ValueError: an int with too many digits to print
        return f"a value of type '{type(value).__name__}'"


def single_line(text: str) -> str:
    """Return text on one printable line."""
    return _printable(" ".join(text.split()))


def cut(text: str, limit: int = LIMIT_LINE) -> str:
    """Return text, cut after `limit` characters."""
    return text if len(text) <= limit else text[:limit] + "…"


def toml_key(part: str) -> str:
    """Return one part of a TOML key, in quotes if it needs them."""
    return part if _BARE_KEY.fullmatch(part) else _toml_text(part)


def toml_value(value: object) -> str:
    """Return a value as TOML on one line; sets are sorted to be reproducible.

    Raises:
        TypeError: if TOML cannot express it.
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


def _path_of(detail: ErrorDetails, tree: Any) -> KeyPath:
    # Pydantic's location also contains the members of unions and the like, not only keys.
    path: list[str | int] = []
    for part in detail["loc"]:
        keys: Any = range(len(tree)) if isinstance(tree, list) else tree
        if isinstance(keys, dict | range) and part in keys:
            path.append(part)
            tree = tree[part]
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return tuple(path)


def _describe_unknown(path: KeyPath, known: Sequence[str]) -> str:
    *parents, key = (str(part) for part in path)
    siblings = {
        parts[len(parents)]
        for parts in (name.split(".") for name in known)
        if len(parts) > len(parents)
        and all(a in (b, "<id>") for a, b in zip(parts, parents, strict=False))
    }
    close = [dotted((*parents, name)) for name in _similar(key, siblings)]
    answer = describe_synonym(path, known) if known else ""
    if close and (parents[:1] == ["game"] or not answer):
        answer = f"did you mean '{close[0]}'?"
    elif not answer and (namesakes := _namesakes(path, known)):
        answer = f"did you mean '{namesakes[0]}'?"
    elif not answer:
        listing = "rookery describe GAME" if parents[:1] == ["game"] else "rookery settings"
        answer = nearest("", {dotted((*parents, name)) for name in siblings}, listing)
    return f"unknown setting '{dotted(path)}': {answer}"


def _similar(key: str, siblings: Iterable[str]) -> list[str]:
    """Return the most similar name, if any; upper and lower case count as equal."""
    by_lower_case = {name.lower(): name for name in sorted(siblings)}
    close = difflib.get_close_matches(key.lower(), by_lower_case, n=1)
    return [by_lower_case[name] for name in close]


def describe_synonym(path: KeyPath, known: Sequence[str]) -> str:
    """Return Rookery's names for a setting that is named as elsewhere; '' if it is not.

    Args:
        path: where the setting is; an agent's is answered with the agent's.
        known: the dotted names of all settings, with '<id>' for any name.
    """
    synonym = find_synonym(str(path[-1]))
    if synonym is None:
        return ""
    names = [name for name in synonym.settings if name in known]
    if len(path) > 2 and path[0] == "agents":
        names = [
            f"{dotted(path[:2])}.{name}" if f"agents.<id>.{name}" in known else name
            for name in names
        ]
    if not names:
        return "" if synonym.settings else synonym.note
    note = f" ({synonym.note})" if synonym.note else ""
    return f"here it is called {_alternatives([repr(name) for name in names])}{note}"


def _namesakes(path: KeyPath, known: Sequence[str]) -> list[str]:
    """Return the settings of the same name in other groups."""
    return [name for name in known if name.rpartition(".")[2] == str(path[-1])]


def _expected(detail: ErrorDetails) -> str:
    if detail["type"] not in _EXPECTED:
        return single_line(detail["msg"].removeprefix(_SHOULD_BE))
    limits = {
        name: repr(limit).removesuffix(".0") if isinstance(limit, float) else limit
        for name, limit in detail.get("ctx", {}).items()
    }
    return _EXPECTED[detail["type"]].format_map(limits)


def _alternatives(choices: Sequence[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _describe_bounds(metadata: Iterable[Any]) -> Iterator[str]:
    for item in metadata:
        # Field(ge=1) inside Annotated has its bounds in its own metadata.
        yield from _describe_bounds(getattr(item, "metadata", ()))
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
    # TOML has the same escapes as JSON, which leaves a few control characters alone.
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)

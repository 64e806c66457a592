"""Settings in words: `key=value` words and TOML in, TOML and messages out.

What is read becomes one tree of plain values, which `config.resolve` checks. The one
rule: whatever a user typed, a message about it stays on one line, and reading it raises
nothing but `ConfigError`.
"""

from __future__ import annotations

import datetime
import difflib
import json
import os
import re
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python

from rookery.errors import ConfigError, nearest

Tree = dict[str, Any]
Place = tuple[str | int, ...]
"""Where a value stands: keys, and positions in lists."""

LIMIT_BYTES = 2**20
LIMIT_DEPTH = 32
LIMIT_SHOWN = 60
LIMIT_LINE = 400

_DATES = (datetime.date, datetime.time)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# A shell takes the quotes of agents."hunter*".player away, so a bare part may hold more
# here than in TOML: anything that is not a dot, an equals sign, a quote or a space.
_PART = r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^.="'\s]+)\s*"""
_WORD = re.compile(rf"(?P<key>{_PART}(?:\.{_PART})*)=(?P<value>.*)", re.DOTALL)
_TOML_PLACE = re.compile(r"(.*) \(at (line \d+, column \d+|end of document)\)", re.DOTALL)

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a finite number",
    "bool": "true or false",
    "string": "text (in quotes)",
    "string_too_short": "at least {min_length} long",
    "string_too_long": "at most {max_length} long",
    "string_pattern_mismatch": "text that fits {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "too_short": "at least {min_length} long",
    "too_long": "at most {max_length} long",
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
_BOUNDS = (
    ("ge", "at least {}"),
    ("gt", "above {}"),
    ("le", "at most {}"),
    ("lt", "below {}"),
    ("min_length", "at least {} long"),
    ("max_length", "at most {} long"),
)
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


def parse_words(words: Iterable[str]) -> Tree:
    """Return the tree that `key=value` words describe; the last of equal keys wins.

    A value is read as TOML where it can be (3, 1e-3, true, "text", [1, 2]), and else
    taken as plain text.

    Raises:
        ConfigError: naming every word that cannot be understood.
    """
    tree: Tree = {}
    problems: list[str] = []
    for word in words:
        try:
            tree = merge(tree, _parse_word(word))
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
        inner = (*place, str(key))
        old = merged.get(str(key))
        if value is None:
            continue
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[str(key)] = merge(old, value, inner)
        elif old is not None and isinstance(old, Mapping) != isinstance(value, Mapping):
            raise ConfigError(
                f"'{dotted(inner)}' is given both as a value and as a group of "
                "settings: give only one of the two"
            )
        else:
            merged[str(key)] = value
    return merged


def read_toml(path: str | os.PathLike[str]) -> Tree:
    """Return the contents of a TOML file.

    Raises:
        ConfigError: if it is missing, cannot be read, or is not TOML, and where.
    """
    name = shown(os.fspath(path), LIMIT_LINE)
    text = _read_text(path, name)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _TOML_PLACE.fullmatch(str(error))
        what, where = match.groups() if match else (str(error), "somewhere")
        what = _cut(one_line(what), LIMIT_LINE)
        raise ConfigError(f"{name} is not TOML, {where}: {what}") from error
    except RecursionError as error:
        raise ConfigError(_too_deep(name)) from error
    except ValueError as error:  # a number with more digits than Python will read
        raise ConfigError(f"{name} is not TOML: {one_line(str(error))}") from error
    if _is_deep(tree, LIMIT_DEPTH):
        raise ConfigError(_too_deep(name))
    return tree


def plain(value: object, place: Place, problems: dict[Place, str]) -> Any:
    """Return a value as a file would have given it: string keys, lists, no None.

    None means "not set". TOML cannot say it, and a configuration must be the same when
    it is read back. What no file can hold is put into `problems`, and left out.
    """
    if len(place) >= LIMIT_DEPTH:
        problems[place] = _too_deep(f"'{dotted(place)}'")
        return None
    if isinstance(value, BaseModel):
        value = value.model_dump(by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return _plain_group(value, place, problems)
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, (*place, i), problems) for i, item in enumerate(value)]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), place, problems)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        problems[place] = f"{dotted(place)} must fit into 64 bits, got {shown(value)}"
        return None
    if isinstance(value, str) and not _is_unicode(value):
        problems[place] = f"{dotted(place)} must be Unicode text, got {shown(value)}"
        return None
    return value


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


def toml_key(part: str) -> str:
    """Return one part of a key, in quotes if it needs them."""
    return part if _BARE_KEY.fullmatch(part) else _toml_text(part)


def dotted(place: Sequence[str | int]) -> str:
    """Return a setting's name for a message, as a user would write it."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + toml_key(_cut(part, LIMIT_SHOWN))
    return _cut(text, LIMIT_LINE)


def shown(value: object, limit: int = LIMIT_SHOWN) -> str:
    """Return a value as a message quotes it: on one line, and cut if it is long."""
    if isinstance(value, Mapping):
        return "a group of settings"
    if isinstance(value, str) and not isinstance(value, Enum):
        return repr(_cut(value, limit))
    try:
        return _cut(toml_value(value), limit)
    except (TypeError, ValueError):  # ValueError: an int with too many digits to print
        return f"a value of type '{type(value).__name__}'"


def one_line(text: str) -> str:
    """Return text on one printable line."""
    return _printable(" ".join(text.split()))


def problems_by_place(
    error: ValidationError, tree: Mapping[str, Any]
) -> dict[Place, list[ErrorDetails]]:
    """Return what pydantic found wrong with `tree`, by the place of the value."""
    found: dict[Place, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_place_of(detail, tree), []).append(detail)
    return found


def problem_words(
    place: Place, details: Sequence[ErrorDetails], known: Iterable[str]
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
        return f"{name}: {_cut(one_line(str(first['ctx']['error'])), LIMIT_LINE)}"
    expected = _either(list(dict.fromkeys(_expected(detail) for detail in details)))
    sentence = f"{name} must be {expected}, got {shown(first['input'])}"
    elsewhere = _elsewhere(str(place[-1]), known) if place else []
    if expected == "a group of settings" and elsewhere:
        sentence += f": did you mean '{elsewhere[0]}'?"
    return sentence


def _unknown_words(place: Place, known: Iterable[str]) -> str:
    *parents, key = (str(part) for part in place)
    known_parts = [name.split(".") for name in known]
    siblings = {
        parts[len(parents)]
        for parts in known_parts
        if len(parts) > len(parents)
        and all(a in (b, "<id>") for a, b in zip(parts, parents, strict=False))
    }
    advice = nearest("", {dotted((*parents, name)) for name in siblings})
    if close := difflib.get_close_matches(key, sorted(siblings), n=1):
        advice = f"did you mean '{dotted((*parents, close[0]))}'?"
    elif elsewhere := _elsewhere(key, known):
        advice = f"did you mean '{elsewhere[0]}'?"
    return f"unknown setting '{dotted(place)}': {advice}"


def _elsewhere(key: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if name.rpartition(".")[2] == key]


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


def _bounds_words(metadata: Iterable[Any]) -> Iterator[str]:
    for item in metadata:
        # Field(ge=1) inside Annotated carries its bounds in metadata of its own.
        yield from _bounds_words(getattr(item, "metadata", ()))
        for name, text in _BOUNDS:
            if (limit := getattr(item, name, None)) is not None:
                yield text.format(limit)


def _place_of(detail: ErrorDetails, tree: Any) -> Place:
    # Pydantic's location also names members of unions and the like: those are no keys.
    place: list[str | int] = []
    for i, part in enumerate(detail["loc"]):
        is_last = i == len(detail["loc"]) - 1
        keys: Any = range(len(tree)) if isinstance(tree, list) else tree
        if isinstance(keys, dict | range) and part in keys:
            place.append(part)
            tree = tree[part]
        elif is_last and detail["type"] == "missing":
            place.append(part)
    return tuple(place)


def _expected(detail: ErrorDetails) -> str:
    kind = detail["type"]
    words = _EXPECTED.get(kind) or _EXPECTED.get(_FAMILY.sub("", kind))
    if words is not None:
        limits = {
            name: repr(limit).removesuffix(".0") if isinstance(limit, float) else limit
            for name, limit in detail.get("ctx", {}).items()
        }
        return words.format_map(limits)
    message = detail["msg"].removeprefix("Input should be ").replace("a valid ", "a ")
    return one_line(message)


def _either(choices: Sequence[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def _parse_word(word: str) -> Tree:
    match = _WORD.fullmatch(word)
    if match is None:
        raise ConfigError(_bad_word(word))
    parts = [_unquoted(part, word) for part in re.findall(_PART, match["key"])]
    tree = _parse_value(match["value"].strip())
    if len(parts) > LIMIT_DEPTH or _is_deep(tree, LIMIT_DEPTH):
        raise ConfigError(_too_deep(shown(word)))
    for part in reversed(parts):
        tree = {part: tree}
    return dict(tree)


def _bad_word(word: str) -> str:
    if "=" not in word:
        return f"{shown(word)} has no '=': write a setting as key=value"
    if not word.partition("=")[0].strip():
        return f"{shown(word)} has no key before '=': write a setting as key=value"
    return (
        f"the key of {shown(word)} cannot be read: write names with a dot between "
        "them, in quotes if they have dots, spaces or quotes in them"
    )


def _unquoted(part: str, word: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"part = {part}")["part"])
    except ValueError as error:
        raise ConfigError(_bad_word(word)) from error


def _parse_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = table.pop("value")
    # A line break in the text can start a second key: then it was not one TOML value.
    # A date is more often part of a name.
    return text if table or isinstance(value, _DATES) else value


def _read_text(path: str | os.PathLike[str], name: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {name}: check the path") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{name} is a folder: give a TOML file") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {name}: {one_line(reason)}") from error
    if len(data) > LIMIT_BYTES:
        raise ConfigError(f"{name} is larger than 1 MiB: this is no configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8 text (at byte {error.start}): save it as UTF-8"
        ) from error


def _too_deep(name: str) -> str:
    return f"{name} is nested deeper than {LIMIT_DEPTH} levels: make it flatter"


def _is_deep(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deep(item, levels - 1) for item in items)


def _plain_group(
    group: Mapping[Any, Any], place: Place, problems: dict[Place, str]
) -> Tree:
    tree: Tree = {}
    for key, value in group.items():
        inner = (*place, str(key))
        if not _is_unicode(str(key)):
            problems[inner] = f"{dotted(inner)} must have a name in Unicode"
        elif (found := plain(value, inner, problems)) is not None:
            tree[str(key)] = found
    return tree


def _toml_table(table: Mapping[Any, Any]) -> str:
    pairs = [
        f"{toml_key(str(key))} = {toml_value(value)}"
        for key, value in table.items()
        if value is not None
    ]
    return f"{{ {', '.join(pairs)} }}" if pairs else "{}"


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's too, but JSON leaves a few control characters alone.
    return _printable(json.dumps(text, ensure_ascii=False))


def _toml_other(value: object) -> str:
    try:
        simple = to_jsonable_python(value, by_alias=True, exclude_none=True)
    except PydanticSerializationError as error:
        raise TypeError(f"TOML has no {type(value).__name__}") from error
    if simple is None:
        raise TypeError("TOML has no None")
    return toml_value(simple)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Configurations as TOML files: read into a tree, and written with a comment per setting.

What `to_toml` writes resolves to the same `Config`, so that a run can be repeated from its
folder.
"""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rookery.config.messages import (
    LIMIT_LINE,
    cut,
    dotted,
    shown,
    single_line,
    toml_key,
    toml_value,
)
from rookery.config.parse import LIMIT_DEPTH, Tree, too_deep
from rookery.config.run import Config, GameConfig
from rookery.errors import ConfigError
from rookery.storage.files import replace_whole

LIMIT_BYTES = 2**20
COMMENT_WIDTH = 86

# tomllib takes memory with the square of the parts of a key: 20 kB of dots take 400 MB.
# Quantifiers are possessive and no match starts inside a part, so the time is linear.
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w.\\-])(?:{_PART}[ \t]*+\.[ \t]*+){{{2 * LIMIT_DEPTH}}}+")


def read_toml(path: str | os.PathLike[str]) -> Tree:
    """Return the contents of a TOML file.

    Raises:
        ConfigError: if it is missing, cannot be read, or is not TOML, with the line.
    """
    name = shown(os.fspath(path), LIMIT_LINE)
    text = _read_text(path, name)
    if _DEEP_KEY.search(text):
        raise ConfigError(too_deep(name))
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, _, location = str(error).removesuffix(")").rpartition(" (at ")
        raise ConfigError(
            f"{name} is not TOML, {location}: {cut(single_line(problem))}"
        ) from error
    except RecursionError as error:
        raise ConfigError(too_deep(name)) from error
    except ValueError as error:  # a number with more digits than Python reads
        raise ConfigError(f"{name} is not TOML: {single_line(str(error))}") from error


def to_toml(config: Config) -> str:
    """Return the complete configuration as TOML, with a comment on every setting.

    Raises:
        ConfigError: if a game's setting has a value that TOML cannot express.
    """
    text = "\n".join(_group_lines(config, (), only_set=False)).strip() + "\n"
    return re.sub(r"\n{3,}", "\n\n", text)


def write_config(config: Config, path: str | os.PathLike[str]) -> None:
    """Write `to_toml` to a file atomically.

    Raises:
        ConfigError: if the file cannot be written.
    """
    try:
        replace_whole(Path(path), to_toml(config).encode())
    except OSError as error:
        name = shown(os.fspath(path), LIMIT_LINE)
        reason = single_line(error.strerror or str(error))
        raise ConfigError(f"cannot write {name}: {reason}") from error


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
        raise ConfigError(f"cannot read {name}: {single_line(reason)}") from error
    if len(data) > LIMIT_BYTES:
        raise ConfigError(f"{name} is larger than 1 MiB: it is not a configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8 text (at byte {error.start}): save it as UTF-8"
        ) from error


def _group_lines(group: BaseModel, path: tuple[str, ...], only_set: bool) -> Iterator[str]:
    tables: list[Iterator[str]] = []
    for key, value, text in _entries(group, only_set):
        inner_path = (*path, key)
        if isinstance(value, BaseModel):
            tables.append(_table_lines(value, inner_path, text, only_set))
        elif _holds_groups(value):
            # Only what was set: a default written for one id would override a pattern.
            for name, inner in value.items():
                tables.append(_table_lines(inner, (*inner_path, name), text, only_set=True))
                text = ""
        else:
            yield from _comment(text)
            yield f"{toml_key(key)} = {_setting(value, inner_path)}"
            yield ""
    for table in tables:
        yield from table


def _table_lines(
    group: BaseModel, path: tuple[str, ...], text: str, only_set: bool
) -> Iterator[str]:
    yield from _comment(text)
    yield f"[{'.'.join(map(toml_key, path))}]"
    yield from _group_lines(group, path, only_set)
    yield ""


def _entries(group: BaseModel, only_set: bool) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and description; a game's settings are beside its name."""
    for name, field in type(group).model_fields.items():
        value = getattr(group, name)
        if isinstance(group, GameConfig) and name == "settings":
            yield from _entries(value, only_set)
        elif value == {} == field.get_default(call_default_factory=True):
            continue  # after 'agents = {}', a user could not add [agents.0]
        elif value is not None and (name in group.model_fields_set or not only_set):
            yield field.alias or name, value, field.description or ""
    for key, value in (group.model_extra or {}).items():
        if value is not None:
            yield key, value, ""


def _holds_groups(value: object) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(isinstance(inner, BaseModel) for inner in value.values())


def _setting(value: object, path: tuple[str, ...]) -> str:
    try:
        return toml_value(value)
    except TypeError as error:
        raise ConfigError(
            f"{dotted(path)} cannot be written to a TOML file: got {shown(value)}"
        ) from error


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(single_line(text), COMMENT_WIDTH)]

"""Configurations as TOML files: read into a tree, and written with every meaning.

The one rule: what `to_toml` writes resolves to the same `Config`, so that a run can be
repeated from its folder.
"""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rookery.config.messages import (
    LIMIT_LINE,
    cut,
    dotted,
    one_line,
    shown,
    toml_key,
    toml_value,
)
from rookery.config.parse import Tree, has_deep_key, is_deep, too_deep
from rookery.config.run import Config, GameConfig
from rookery.errors import ConfigError
from rookery.storage.files import sync_folder, write_whole

LIMIT_BYTES = 2**20
COMMENT_WIDTH = 86


def read_toml(path: str | os.PathLike[str]) -> Tree:
    """Return the contents of a TOML file.

    Raises:
        ConfigError: if it is missing, cannot be read, or is not TOML, and where.
    """
    name = shown(os.fspath(path), LIMIT_LINE)
    text = _read_text(path, name)
    if has_deep_key(text):
        raise ConfigError(too_deep(name))
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).removesuffix(")").rpartition(" (at ")
        raise ConfigError(f"{name} is not TOML, {where}: {cut(one_line(what))}") from error
    except RecursionError as error:
        raise ConfigError(too_deep(name)) from error
    except ValueError as error:  # a number with more digits than Python will read
        raise ConfigError(f"{name} is not TOML: {one_line(str(error))}") from error
    if is_deep(tree):
        raise ConfigError(too_deep(name))
    return tree


def to_toml(config: Config) -> str:
    """Return the whole configuration as TOML, with the meaning of every setting.

    Raises:
        ConfigError: if a game's setting holds something that TOML cannot.
    """
    text = "\n".join(_group_lines(config, (), only_set=False)).strip() + "\n"
    return re.sub(r"\n{3,}", "\n\n", text)


def write_config(config: Config, path: str | os.PathLike[str]) -> None:
    """Write `to_toml` to a file, whole or not at all, even if the machine stops.

    Raises:
        ConfigError: if the file cannot be written.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    data = to_toml(config).encode()
    try:
        write_whole(partial, data)
        os.replace(partial, target)
        sync_folder(target.parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        name = shown(str(target), LIMIT_LINE)
        reason = one_line(error.strerror or str(error))
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
        raise ConfigError(f"cannot read {name}: {one_line(reason)}") from error
    if len(data) > LIMIT_BYTES:
        raise ConfigError(f"{name} is larger than 1 MiB: this is no configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8 text (at byte {error.start}): save it as UTF-8"
        ) from error


def _group_lines(group: BaseModel, place: tuple[str, ...], only_set: bool) -> Iterator[str]:
    tables: list[Iterator[str]] = []
    for key, value, text in _entries(group, only_set):
        here = (*place, key)
        if isinstance(value, BaseModel):
            tables.append(_table_lines(value, here, text, only_set))
        elif _holds_groups(value):
            # Only what was set: a default written for one id would override a pattern.
            for name, inner in value.items():
                tables.append(_table_lines(inner, (*here, name), text, only_set=True))
                text = ""
        else:
            yield from _comment(text)
            yield f"{toml_key(key)} = {_setting(value, here)}"
            yield ""
    for table in tables:
        yield from table


def _table_lines(
    group: BaseModel, place: tuple[str, ...], text: str, only_set: bool
) -> Iterator[str]:
    yield from _comment(text)
    yield f"[{'.'.join(map(toml_key, place))}]"
    yield from _group_lines(group, place, only_set)
    yield ""


def _entries(group: BaseModel, only_set: bool) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and description, a game's own settings beside its name."""
    for name, field in type(group).model_fields.items():
        value = getattr(group, name)
        if isinstance(group, GameConfig) and name == "settings":
            yield from _entries(value, only_set)
        elif value == {} == field.get_default(call_default_factory=True):
            continue  # written as 'agents = {}', it could not be added to by hand
        elif value is not None and (name in group.model_fields_set or not only_set):
            yield field.alias or name, value, field.description or ""
    for key, value in (group.model_extra or {}).items():
        if value is not None:
            yield key, value, ""


def _holds_groups(value: object) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(isinstance(inner, BaseModel) for inner in value.values())


def _setting(value: object, place: tuple[str, ...]) -> str:
    try:
        return toml_value(value)
    except TypeError as error:
        raise ConfigError(
            f"{dotted(place)} cannot be written to a TOML file: got {shown(value)}"
        ) from error


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(one_line(text), COMMENT_WIDTH)]

"""From a tree of plain values to a `Config`, or a `ConfigError` with all problems."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rookery.config.base import Settings
from rookery.config.messages import (
    KeyPath,
    describe_problem,
    describe_type,
    errors_by_path,
    shown,
    single_line,
    toml_value,
)
from rookery.config.parse import Tree, plain
from rookery.config.run import LIMIT_PROBLEMS, AnySettings, Config, GameConfig, all_in_one


class SettingRow(NamedTuple):
    """One setting as text."""

    key: str
    type: str
    default: str
    """As TOML; 'required' or 'unset' if there is no value."""
    description: str


def resolve(raw: Mapping[Any, Any], game_settings: type[Settings]) -> Config:
    """Return the configuration that `raw` asks for, defaults filled in.

    Args:
        raw: a tree from `read_toml`, `parse_overrides` or `merge`, or from Python, where
            agents' ids can be ints and None stands for the default.
        game_settings: the settings that the game named in `raw` declares.

    Raises:
        ConfigError: with every unknown, missing or invalid setting.
    """
    problems: dict[KeyPath, str] = {}
    tree = plain(raw, (), problems)
    game = _take_game(tree, problems)
    if "name" in _fields(game_settings):
        problems["game", "name"] = "the game declares a setting called 'name': rename it"
    known = [row.key for row in describe_settings(Config)]
    known += [row.key for row in describe_settings(game_settings, "game")]
    config = _validated(Config, tree, (), known, problems)
    settings = _validated(game_settings, game, ("game",), known, problems)
    if config is None or settings is None or problems:
        raise all_in_one(list(problems.values()))
    game_config = GameConfig(name=config.game.name, settings=settings)
    return config.model_copy(update={"game": game_config})


def describe_settings(model: type[BaseModel], prefix: str = "") -> list[SettingRow]:
    """Return every setting of a group, and of the groups in it, as text.

    Args:
        model: `Config`, or a game's Settings with prefix 'game'.
        prefix: the dotted name of the group.
    """
    rows: list[SettingRow] = []
    for name, field in _fields(model).items():
        key = f"{prefix}.{name}" if prefix else name
        group, by_id = _group_of(field.annotation)
        if group is not None:
            rows += describe_settings(group, f"{key}.<id>" if by_id else key)
        else:
            type_text = describe_type(field.annotation, field.metadata)
            description = single_line(field.description or "")
            rows.append(SettingRow(key, type_text, _default_text(field), description))
    return rows


def _take_game(tree: Tree, problems: dict[KeyPath, str]) -> Tree:
    """Take the game's own settings out of the tree, which keeps only its name."""
    game = tree.pop("game", {})
    if not isinstance(game, dict):
        problems["game",] = f"game must be a group of settings, got {shown(game)}"
        game = {}
    tree["game"] = {"name": game.pop("name")} if "name" in game else {}
    return game


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a group's fields by their names in files and overrides."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if model is GameConfig:
        del fields["settings"]
    return fields


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if getattr(field, "default_factory_takes_validated_data", False):
        return "depends on other settings"
    value = field.get_default(call_default_factory=True)
    return "unset" if value is None else toml_value(value)


def _group_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return a field's group of settings, if any, and whether there is one per id."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (dict, Mapping) and args:
        return _group_of(args[1])[0], True
    members = [member for member in args if member is not type(None)]
    if origin in (Union, types.UnionType) and len(members) == 1:
        return _group_of(members[0])
    return None, False


def _validated(
    model: type[AnySettings],
    tree: Mapping[str, Any],
    prefix: KeyPath,
    known: Sequence[str],
    problems: dict[KeyPath, str],
) -> AnySettings | None:
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        by_path = errors_by_path(error, tree)
    for path, errors in by_path.items():
        full = (*prefix, *path)
        if any(full[:end] in problems for end in range(1, len(full) + 1)):
            continue
        # Looking for similar names takes time, and only the first problems are shown.
        names = known if len(problems) < LIMIT_PROBLEMS else ()
        problems[full] = describe_problem(full, errors, names)
    return None

"""From a tree of plain values to one `Config`, or one `ConfigError` that lists it all."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rookery.config.base import Settings
from rookery.config.messages import (
    Place,
    one_line,
    problem_words,
    problems_by_place,
    shown,
    toml_value,
    type_words,
)
from rookery.config.parse import Tree, plain
from rookery.config.run import LIMIT_PROBLEMS, AnySettings, Config, GameConfig, all_in_one


class SettingRow(NamedTuple):
    """One setting, in words."""

    key: str
    type: str
    default: str
    """As TOML; 'required', or 'unset', where there is no value."""
    description: str


def resolve(raw: Mapping[Any, Any], game_settings: type[Settings]) -> Config:
    """Return the configuration that `raw` asks for, defaults filled in.

    Args:
        raw: a tree from `read_toml`, `parse_words` or `merge`, or from Python, where
            agents' ids may be ints, and None leaves a setting at its default.
        game_settings: what the game named in `raw` declares.

    Raises:
        ConfigError: with every unknown, missing, mistyped or unfitting setting.
    """
    problems: dict[Place, str] = {}
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
    whole = GameConfig(name=config.game.name, settings=settings)
    return config.model_copy(update={"game": whole})


def describe_settings(model: type[BaseModel], prefix: str = "") -> list[SettingRow]:
    """Return every setting of a group, and of the groups in it, in words.

    Args:
        model: `Config`, or a game's Settings with the prefix 'game'.
        prefix: the dotted name of the group.
    """
    rows: list[SettingRow] = []
    for name, field in _fields(model).items():
        key = f"{prefix}.{name}" if prefix else name
        group, by_id = _group_of(field.annotation)
        if group is not None:
            rows += describe_settings(group, f"{key}.<id>" if by_id else key)
        else:
            words = type_words(field.annotation, field.metadata)
            text = one_line(field.description or "")
            rows.append(SettingRow(key, words, _default_words(field), text))
    return rows


def _take_game(tree: Tree, problems: dict[Place, str]) -> Tree:
    """Return the game's own settings, and leave only its name in the tree."""
    game = tree.pop("game", {})
    if not isinstance(game, dict):
        problems["game",] = f"game must be a group of settings, got {shown(game)}"
        game = {}
    tree["game"] = {"name": game.pop("name")} if "name" in game else {}
    return game


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a group's fields by the names that users write."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if model is GameConfig:
        del fields["settings"]
    return fields


def _default_words(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if getattr(field, "default_factory_takes_validated_data", False):
        return "depends on other settings"
    value = field.get_default(call_default_factory=True)
    return "unset" if value is None else toml_value(value)


def _group_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Return the group that a field holds, if any, and whether it holds one per id."""
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
    prefix: Place,
    known: Sequence[str],
    problems: dict[Place, str],
) -> AnySettings | None:
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        by_place = problems_by_place(error, tree)
    for place, details in by_place.items():
        whole = (*prefix, *place)
        if any(whole[:end] in problems for end in range(1, len(whole) + 1)):
            continue
        # Looking for near names takes time, and only the first problems are shown.
        names = known if len(problems) < LIMIT_PROBLEMS else ()
        problems[whole] = problem_words(whole, details, names)
    return None

"""Settings: what a user may choose, checked once, before anything starts.

A tree of plain values, from a file, from words or from Python, goes in; one `Config`
comes out, or one `ConfigError`. The one rule: it lists every problem at once.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from rookery.errors import ConfigError, nearest
from rookery.problems import (
    Place,
    dotted,
    one_line,
    problem_words,
    problems_by_place,
    shown,
    toml_value,
    type_words,
)
from rookery.settings import Settings
from rookery.words import Tree, plain

LIMIT_PROBLEMS = 20

AnySettings = TypeVar("AnySettings", bound=Settings)


class EvaluateConfig(Settings):
    """How the agents are judged."""

    episodes: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Episodes to play in an evaluation, all worlds together. More take "
        "longer and make the mean more certain.",
    )


class AgentConfig(Settings):
    """What may differ from agent to agent."""

    player: str | None = Field(
        default=None,
        description="The scripted player that plays this agent: 'random', or one that "
        "the game offers.",
    )


class GameConfig(Settings):
    """Which game is played, and that game's own settings.

    A user writes both side by side: game.name, game.agents, game.acting.
    """

    name: str = Field(
        description="The game: a name from `rookery games`, or the path of one's own.",
    )
    settings: Settings = Field(
        default=Settings(), description="What the game itself declares."
    )


class Config(Settings):
    """Everything a user chose for a run."""

    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="Where all random numbers come from. The same seed and settings "
        "give the same run.",
    )
    worlds: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="Copies of the game played side by side. More give more steps per "
        "second and take more memory.",
    )
    game: GameConfig = Field(description="The game, and how it is set up.")
    evaluate: EvaluateConfig = Field(
        default=EvaluateConfig(), description="How the agents are judged."
    )
    agents: dict[str, AgentConfig] = Field(
        default={},
        description="Settings of one agent by its id, or of several by a pattern such "
        "as 'hunter*'. Patterns apply in the order given, and an agent's own id last.",
    )

    def agent(self, agent_id: str | int) -> AgentConfig:
        """Return one agent's settings: patterns in the order given, then its own id."""
        name = str(agent_id)
        found = AgentConfig()
        for pattern, settings in self.agents.items():
            if pattern != name and fnmatchcase(name, pattern):
                found = _overlaid(found, settings)
        return _overlaid(found, self.agents[name]) if name in self.agents else found

    def check_agents(self, agent_ids: Sequence[str]) -> None:
        """Raise ConfigError if `agents` has an id or a pattern that fits no agent."""
        problems = [
            f"'{dotted(('agents', key))}' fits no agent of {shown(self.game.name)}: "
            f"{nearest(key, agent_ids)}"
            for key in self.agents
            if key not in agent_ids
            and not any(fnmatchcase(agent_id, key) for agent_id in agent_ids)
        ]
        if problems:
            raise _all_in_one(problems)


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
        raise _all_in_one(list(problems.values()))
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


def _all_in_one(problems: Sequence[str]) -> ConfigError:
    more = len(problems) - LIMIT_PROBLEMS
    if more <= 0:
        return ConfigError(*problems)
    return ConfigError(*problems[:LIMIT_PROBLEMS], f"and {more} more")


def _overlaid(base: AnySettings, over: AnySettings) -> AnySettings:
    update: dict[str, Any] = {}
    for name in over.model_fields_set:
        old, new = getattr(base, name), getattr(over, name)
        groups = isinstance(old, Settings) and isinstance(new, Settings)
        update[name] = _overlaid(old, new) if groups else new
    return base.model_copy(update=update)

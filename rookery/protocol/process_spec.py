"""What a process of a run is started with: plain data, and nothing else.

Games, networks and players are built from it in the process that uses them. Users' files
are named by path, with the SHA-256 they had when the run started.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from rookery.config.base import Settings
from rookery.config.messages import toml_value
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.protocol.user_files import check_sums
from rookery.specs import AgentSpec, spec_from_json, spec_to_json

AS_TOML = "\udc00"
"""The key of a value that JSON lacks, such as a date; no setting has it in its name."""
COPIED = (
    "groups",
    "folder",
    "actors",
    "share",
    "hosted",
    "role",
    "generation",
    "timed",
    "sums",
)


@dataclass(frozen=True)
class SharedAgent:
    """An agent that several workers train in turn, and the rounds of one of them."""

    agent: int
    workers: int
    """How many workers share it."""
    turn: int
    """Which rounds are this worker's: `turn`, and every `workers`-th before and after."""

    def includes(self, number: int) -> bool:
        """Whether round `number` is learned by this worker."""
        return (number - self.turn) % self.workers == 0


@dataclass(frozen=True)
class ProcessSpec:
    """Everything that a process needs to know, besides the memory it is given."""

    config: Config
    agents: Sequence[AgentSpec]
    groups: Sequence[Sequence[int]]
    """Numbers of the agents that are computed together, whatever process hosts them."""
    folder: str
    hosted: Sequence[int] = ()
    """The agents whose learners this process hosts."""
    role: str = ""
    generation: int = 1
    """Which hand-over from main it belongs to."""
    timed: bool = False
    """Whether to measure the time of protocol calls, which itself takes time."""
    sums: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of users' files when the run started, by path."""
    actors: int = 1
    """How many actors share out the worlds."""
    share: int = 0
    """Which of the shares this process plays, if it is an actor."""
    shared: Sequence[SharedAgent] = ()
    """The agents that it trains in some rounds, and other workers in the others."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "config": config_to_json(self.config),
            "agents": [spec_to_json(spec) for spec in self.agents],
            "groups": [list(group) for group in self.groups],
            "folder": self.folder,
            "actors": self.actors,
            "share": self.share,
            "hosted": list(self.hosted),
            "shared": [[share.agent, share.workers, share.turn] for share in self.shared],
            "role": self.role,
            "generation": self.generation,
            "timed": self.timed,
            "sums": dict(self.sums),
        }

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], settings: type[Settings] | None = None
    ) -> ProcessSpec:
        """Return the process spec that `to_json` described.

        Args:
            data: plain data.
            settings: the settings that the game declares; None leaves the game's settings
                out, for a process that knows no games.

        Raises:
            ConfigError: if a user's file has changed since the run started.
        """
        check_sums(data["sums"])
        tree = _from_json(data["config"])
        if settings is None:
            tree["game"] = {"name": tree["game"]["name"]}
        config = resolve(tree, settings or Settings)
        agents = [spec_from_json(spec) for spec in data["agents"]]
        shared = [SharedAgent(*share) for share in data["shared"]]
        copied = {key: data[key] for key in COPIED}
        return cls(config, agents, shared=shared, **copied)


def game_name(data: Mapping[str, Any]) -> str:
    """Return the name of the game in a process spec's plain data."""
    return str(data["config"]["game"]["name"])


def config_to_json(config: Config) -> dict[str, Any]:
    """Return the tree of settings that resolves to the same configuration, as JSON.

    It holds every value, also the defaults, so that main alone decides them. Of settings by
    id, such as `agents`, it holds those that were set: a default would override a pattern.
    """
    tree = _group_to_json(config, only_set=False)
    game = tree["game"]
    tree["game"] = game.pop("settings") | game
    return tree


def _group_to_json(group: BaseModel, only_set: bool) -> dict[str, Any]:
    values = {
        field.alias or name: getattr(group, name)
        for name, field in type(group).model_fields.items()
        if name in group.model_fields_set or not only_set
    }
    return {
        key: _to_json(value, only_set)
        for key, value in (values | (group.model_extra or {})).items()
        if value is not None
    }


def _to_json(value: object, only_set: bool = False) -> Any:
    if isinstance(value, BaseModel):
        return _group_to_json(value, only_set)
    if isinstance(value, Mapping):
        pairs = ((str(key), inner) for key, inner in value.items() if inner is not None)
        return {key: _to_json(inner, only_set=True) for key, inner in pairs}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if value is None or type(value) in (bool, int, float, str):
        return value  # Python's JSON gives floats back exactly, also infinity
    return {AS_TOML: toml_value(value)}


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if AS_TOML in value:
        return tomllib.loads(f"value = {value[AS_TOML]}")["value"]
    return {key: _from_json(inner) for key, inner in value.items()}

"""What a process of a run is told: plain data, and nothing else.

Games, networks and players are built from it in the process that uses them. Files of the
user's own are named by path, with the SHA-256 they had when the run started.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config.base import Settings
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.plugins import foreign_name, is_file
from rookery.specs import AgentSpec, Part


@dataclass(frozen=True)
class ProcessSpec:
    """Everything that a process needs to know, besides the memory it is given."""

    config: Config
    agents: Sequence[AgentSpec]
    groups: Sequence[Sequence[int]]
    """Agent numbers that are one computation, wherever they are hosted."""
    folder: str
    hosted: Sequence[int] = ()
    """The agents whose learners this process hosts."""
    role: str = ""
    generation: int = 1
    """Which hand-over from main it belongs to."""
    timed: bool = False
    """Whether to count what protocol calls cost, which costs something itself."""
    sums: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of users' files when the run started, by path."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "config": to_toml(self.config),
            "agents": [_spec_json(spec) for spec in self.agents],
            "groups": [list(group) for group in self.groups],
            "folder": self.folder,
            "hosted": list(self.hosted),
            "role": self.role,
            "generation": self.generation,
            "timed": self.timed,
            "sums": dict(self.sums),
        }

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], settings: type[Settings] | None = None
    ) -> ProcessSpec:
        """Return the brief that `to_json` described.

        Args:
            data: plain data.
            settings: what the game declares; None leaves the game's settings out, for a
                process that knows no games.
        """
        check_sums(data["sums"])
        tree = tomllib.loads(data["config"])
        if settings is None:
            tree["game"] = {"name": tree["game"]["name"]}
        config = resolve(tree, settings or Settings)
        agents = [_spec(one) for one in data["agents"]]
        return cls(config, agents, **{key: data[key] for key in COPIED})


COPIED = ("groups", "folder", "hosted", "role", "generation", "timed", "sums")


def game_name(data: Mapping[str, Any]) -> str:
    """Return the game that a brief's plain data names."""
    return str(tomllib.loads(data["config"])["game"]["name"])


def file_sums(config: Config) -> dict[str, str]:
    """Return the SHA-256 of every file of the user's own that a run names, by path."""
    probe = [config.probe.code] if config.probe.code else []
    paths = sorted(map(Path, _files([*code_of(config), *probe])))
    return {str(path.resolve()): _sum(path) for path in paths}


def sums_as_named(config: Config) -> dict[str, str]:
    """Return the SHA-256 of every file that a run is computed with, as it is named."""
    return {name: _sum(Path(name)) for name in sorted(_files(code_of(config)))}


def code_of(config: Config) -> list[str]:
    """Return what names a game or an algorithm, and so decides what is computed."""
    algorithms = [agent.algorithm for agent in config.agents.values()]
    return [foreign_name(config.game.name)[1], config.algorithm, *algorithms]


def _files(named: Sequence[str]) -> set[str]:
    sources = {name.rpartition(":")[0] or name for name in named}
    return {source for source in sources if is_file(source) and Path(source).is_file()}


def check_sums(sums: Mapping[str, str]) -> None:
    """Refuse files that are not what they were when the run started.

    Raises:
        ConfigError: naming the file.
    """
    for path, wanted in sums.items():
        if not Path(path).is_file() or _sum(Path(path)) != wanted:
            raise ConfigError(
                f"{path} has changed since the run started: put it back as it was, or "
                "start the run again."
            )


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _spec_json(spec: AgentSpec) -> dict[str, Any]:
    parts = {
        name: [part.shape, part.dtype.str, part.labels, part.scale]
        for name, part in spec.parts.items()
    }
    about = {"id": spec.id, "role": spec.role, "parts": parts}
    return {**about, "actions": spec.actions, "masked": spec.masked}


def _spec(data: Mapping[str, Any]) -> AgentSpec:
    parts = {
        name: Part(tuple(shape), np.dtype(dtype), tuple(labels), scale)
        for name, (shape, dtype, labels, scale) in data["parts"].items()
    }
    actions = tuple(x if isinstance(x, str) else tuple(x) for x in data["actions"])
    return AgentSpec(data["id"], data["role"], parts, actions, data["masked"])  # type: ignore[arg-type]

"""The users' files that a run names, and their checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from rookery.config.agent import AgentSettings
from rookery.config.messages import dotted
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.local_code import is_local, source_checksum
from rookery.plugins import foreign_name, is_file


def file_sums(config: Config) -> dict[str, str]:
    """Return the SHA-256 of every user's file that a run names, by absolute path."""
    paths = sorted(map(Path, files_named(config)))
    return {str(path.resolve()): _sum(path) for path in paths}


def files_named(config: Config) -> list[str]:
    """Return the paths of all users' files that a run names, as named."""
    probe = [config.probe.code] if config.probe.code else []
    return sorted(_files([*code_of(config), *probe]))


def sums_as_named(config: Config) -> dict[str, str]:
    """Return the SHA-256 of every file that a run is computed with, by path as named.

    It is that of the source of code that is in no file; '' if it cannot be read.
    """
    code = code_of(config)
    local = {name: source_checksum(name) for name in sorted(set(filter(is_local, code)))}
    return {name: _sum(Path(name)) for name in sorted(_files(code))} | local


def code_of(config: Config) -> list[str]:
    """Return the names of the code that decides what is computed.

    That is the game, the algorithms and the modules of networks.
    """
    settings = [config, *config.agents.values()]
    agents = [name for each in settings for name in code_of_agent(each)]
    return [foreign_name(config.game.name)[1], *agents]


def algorithms_of(config: Config) -> dict[str, str]:
    """Return all algorithms and modules in a configuration, by the setting's name."""
    named: dict[str, str] = {"algorithm": config.algorithm}
    groups = {(): config} | {("agents", key): each for key, each in config.agents.items()}
    for path, group in groups.items():
        if "algorithm" in group.model_fields_set:
            named[dotted((*path, "algorithm"))] = group.algorithm
        if group.network.module is not None:
            named[dotted((*path, "network", "module"))] = group.network.module
    return named


def code_of_agent(settings: AgentSettings) -> list[str]:
    """Return the names of an agent's algorithm and, if it has one, of its module."""
    module = settings.network.module
    return [settings.algorithm, *([module] if module else [])]


def _files(names: Sequence[str]) -> set[str]:
    sources = {name.rpartition(":")[0] or name for name in names}
    return {source for source in sources if is_file(source) and Path(source).is_file()}


def check_sums(sums: Mapping[str, str]) -> None:
    """Check that files are what they were when the run started.

    Raises:
        ConfigError: naming the file that is not.
    """
    for path, expected in sums.items():
        if not Path(path).is_file() or _sum(Path(path)) != expected:
            raise ConfigError(
                f"{path} has changed since the run started: restore it, or start a new run."
            )


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

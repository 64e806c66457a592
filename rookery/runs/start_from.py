"""Where agents start from: weights that were trained in another run, or a whole state."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from rookery.algorithms.registry import find_algorithm
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.replay.rows import row_dtype
from rookery.runs.agent_files import Exported, layout_of, read_agent, shape_of
from rookery.runs.folder import CONFIG, no_run
from rookery.runs.run import Run
from rookery.specs import AgentSpec, Array
from rookery.storage.access import is_file
from rookery.storage.checkpoints import digest
from rookery.training.training import InitialState

WITH_ROUND = re.compile(r"(?P<agent>.*)@(?P<round>\d{1,9})", re.DOTALL)


def origins_of(config: Config, agents: tuple[AgentSpec, ...]) -> dict[str, InitialState]:
    """Return where agents start from, by id, for those whose settings say so."""
    found = {}
    for spec in agents:
        origin = config.agent(spec.id).start_from
        if origin is not None:
            found[spec.id] = _read(origin, spec, config)
    return found


def sum_of(origin: InitialState) -> str:
    """Return the SHA-256 of everything that an agent starts with."""
    arrays = {f"weights/{name}": array for name, array in origin.weights.items()}
    arrays |= {f"state/{name}": array for name, array in (origin.state or {}).items()}
    return digest(arrays | ({} if origin.rows is None else {"rows": origin.rows}), "")


def _read(origin: str, spec: AgentSpec, config: Config) -> InitialState:
    if is_file(Path(origin)):
        return _from_file(Path(origin), spec, config)
    # Code that the user has named for this run is trusted in the other, too.
    named = [config.algorithm, *(agent.algorithm for agent in config.agents.values())]
    path, rest = _parse(origin, spec.id)
    run = Run(path, config.game.name, named)
    agent, number = rest, None
    with_round = WITH_ROUND.fullmatch(rest)
    if with_round and rest not in [agent.id for agent in run.agents]:
        agent, number = with_round["agent"], int(with_round["round"])
    trained = run.players(number)[agent]
    if shape_of(trained.spec) != shape_of(spec):
        raise _misfit(spec, origin, shape_of(trained.spec))
    return InitialState(trained.named)


def _parse(origin: str, agent: str) -> tuple[Path, str]:
    """Return the run that is meant, and the agent's id with its round, if there is one.

    Paths and ids may have colons: a run is what there is a folder of, and the rest is an
    id. Without one, the agent that has the same id there is meant.
    """
    if is_file(Path(origin) / CONFIG):
        return Path(origin), agent
    colons = [i for i, character in enumerate(origin) if character == ":"]
    runs = [i for i in colons if is_file(Path(origin[:i]) / CONFIG)]
    if len(runs) > 1:
        both = " and ".join(origin[:i] for i in runs)
        raise ConfigError(
            f"agents.{agent}.from is '{origin}', and {both} are runs: rename one of them."
        )
    if not runs:
        raise _no_origin(origin, agent)
    return Path(origin[: runs[0]]), origin[runs[0] + 1 :]


def _no_origin(origin: str, agent: str) -> ConfigError:
    path, colon, _ = origin.rpartition(":")
    if origin.endswith(".safetensors"):
        return ConfigError(
            f"agents.{agent}.from: there is no file '{origin}': check the path."
        )
    if colon and path:
        return no_run(Path(path))
    return ConfigError(
        f"agents.{agent}.from is '{origin}': write RUN, RUN:ID, RUN:ID@ROUND, or the name "
        "of a file from rookery export."
    )


def _from_file(path: Path, spec: AgentSpec, config: Config) -> InitialState:
    found = read_agent(path)
    if found.shape != shape_of(spec):
        raise _misfit(spec, str(path), found.shape)
    # Moments and counts of another algorithm mean nothing here.
    whole = found.is_whole and found.algorithm == config.agent(spec.id).algorithm
    return InitialState(
        found.weights, found.arrays if whole else None, _rows_of(found, path, spec, config)
    )


def _rows_of(found: Exported, path: Path, spec: AgentSpec, config: Config) -> Array | None:
    """Return the replay that an agent brings along, if it fits."""
    if found.rows is None:
        return None
    settings = config.agent(spec.id)
    hidden = find_algorithm(settings.algorithm).learner.hidden(settings)
    dtype = row_dtype(spec, config.worlds, hidden)
    shape = (len(found.rows), dtype.itemsize)
    fits = found.rows.dtype == np.uint8 and found.rows.shape == shape
    if not fits or found.layout != layout_of(spec, config.worlds, hidden):
        raise ConfigError(
            f"agent '{spec.id}' cannot bring along the replay in {path}: its rows are not "
            f"those of this game with worlds={config.worlds}; use the worlds it was "
            "trained with, or export it without --replay."
        )
    return found.rows


def _misfit(spec: AgentSpec, origin: str, shape: str) -> ConfigError:
    return ConfigError(
        f"agent '{spec.id}' cannot start from {origin}: what they see or can do differs "
        f"({shape}, not {shape_of(spec)}); name an agent of the same shape."
    )

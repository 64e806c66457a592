"""Where agents start from: weights that were trained in another run, or a whole state."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from rookery.algorithms.catalog import find_algorithm
from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.exports import Exported, layout_of, read_agent, shape_of
from rookery.memory.rows import row_dtype
from rookery.runs import Run
from rookery.specs import AgentSpec, Array
from rookery.training import Origin

WRITTEN = re.compile(r"(?P<run>.+):(?P<agent>[^:@]+)(@(?P<round>\d{1,9}))?")


def origins_of(config: Config, agents: tuple[AgentSpec, ...]) -> dict[str, Origin]:
    """Return where agents start from, by id, for those whose settings say so."""
    found = {}
    for spec in agents:
        origin = config.agent(spec.id).start_from
        if origin is not None:
            found[spec.id] = _read(origin, spec, config)
    return found


def _read(origin: str, spec: AgentSpec, config: Config) -> Origin:
    if Path(origin).is_file():
        return _from_file(Path(origin), spec, config)
    written = WRITTEN.fullmatch(origin)
    if written is None and origin.endswith(".safetensors"):
        raise ConfigError(
            f"agents.{spec.id}.from: there is no file '{origin}': check the path."
        )
    if written is None:
        raise ConfigError(
            f"agents.{spec.id}.from is '{origin}': write RUN:ID, RUN:ID@ROUND, or the name "
            "of a file from rookery export."
        )
    number = int(written["round"]) if written["round"] else None
    # Code that the user has named for this run is trusted in the other, too.
    named = [config.algorithm, *(agent.algorithm for agent in config.agents.values())]
    run = Run(written["run"], config.game.name, named)
    trained = run.players(number)[written["agent"]]
    if shape_of(trained.spec) != shape_of(spec):
        raise _misfit(spec, origin, shape_of(trained.spec))
    return Origin(trained.named)


def _from_file(path: Path, spec: AgentSpec, config: Config) -> Origin:
    found = read_agent(path)
    if found.shape != shape_of(spec):
        raise _misfit(spec, str(path), found.shape)
    # Moments and counts of another algorithm mean nothing here.
    whole = found.is_whole and found.algorithm == config.agent(spec.id).algorithm
    return Origin(
        found.weights, found.arrays if whole else None, _rows_of(found, path, spec, config)
    )


def _rows_of(found: Exported, path: Path, spec: AgentSpec, config: Config) -> Array | None:
    """Return the replay that an agent brings along, if it fits."""
    if found.rows is None:
        return None
    settings = config.agent(spec.id)
    hidden = find_algorithm(settings.algorithm).rule.hidden(settings)
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

"""Where agents start from: weights that were trained in another run, or a whole state."""

from __future__ import annotations

import re
from pathlib import Path

from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.exports import read_agent, shape_of
from rookery.runs import Run
from rookery.specs import AgentSpec
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
        return _from_file(Path(origin), spec, config.agent(spec.id).algorithm)
    written = WRITTEN.fullmatch(origin)
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


def _from_file(path: Path, spec: AgentSpec, algorithm: str) -> Origin:
    found = read_agent(path)
    if found.shape != shape_of(spec):
        raise _misfit(spec, str(path), found.shape)
    # Moments and counts of another algorithm mean nothing here.
    whole = found.is_whole and found.algorithm == algorithm
    return Origin(found.weights, found.arrays if whole else None)


def _misfit(spec: AgentSpec, origin: str, shape: str) -> ConfigError:
    return ConfigError(
        f"agent '{spec.id}' cannot start from {origin}: what they see or can do differs "
        f"({shape}, not {shape_of(spec)}); name an agent of the same shape."
    )

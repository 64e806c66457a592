"""Where agents start from: weights that were trained in another run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.runs import Run
from rookery.specs import AgentSpec, Array

WRITTEN = re.compile(r"(?P<run>.+):(?P<agent>[^:@]+)(@(?P<round>\d{1,9}))?")


def origins_of(
    config: Config, agents: tuple[AgentSpec, ...]
) -> dict[str, Mapping[str, Array]]:
    """Return named weights by agent id, for agents whose settings say where from."""
    found = {}
    for spec in agents:
        origin = config.agent(spec.id).start_from
        if origin is not None:
            found[spec.id] = _read(origin, spec, config)
    return found


def _read(origin: str, spec: AgentSpec, config: Config) -> Mapping[str, Array]:
    written = WRITTEN.fullmatch(origin)
    if written is None:
        raise ConfigError(
            f"agents.{spec.id}.from is '{origin}': write RUN:ID, or RUN:ID@ROUND."
        )
    number = int(written["round"]) if written["round"] else None
    # Code that the user has named for this run is trusted in the other, too.
    named = [config.algorithm, *(agent.algorithm for agent in config.agents.values())]
    run = Run(written["run"], config.game.name, named)
    trained = run.players(number)[written["agent"]]
    mine = (dict(trained.spec.parts), trained.spec.num_actions)
    if mine != (dict(spec.parts), spec.num_actions):
        raise ConfigError(
            f"agent '{spec.id}' cannot start from {origin}: what they see or can do "
            "differs; name an agent of the same shape."
        )
    return trained.named

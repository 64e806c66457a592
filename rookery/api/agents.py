"""`rookery.load_agent` and `rookery.export`: one trained agent by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rookery.errors import ConfigError
from rookery.evaluation.trained import TrainedAgent
from rookery.runs.agent_files import export_agent, load_exported
from rookery.runs.run import Run
from rookery.storage.access import is_file


def load_agent(
    source: str | Path,
    id: str | int | None = None,
    round: int | None = None,
    *,
    game: str | None = None,
    algorithm: str | Sequence[str] | None = None,
    exploration: float = 0.0,
) -> TrainedAgent:
    """Return a trained agent, which acts on observations without its game.

    Args:
        source: the folder of a run, or a file from `rookery.export`.
        id: the agent's id in the run; not needed if the run trained only one.
        round: the round that the weights are from; by default the last that was saved.
        game: the game's name as in training. Only runs of earlier versions need it, if
            their game is not built in.
        algorithm: the same for one or several algorithms that are not built in: code is
            never imported only because a file names it.
        exploration: probability of a random action; 0 acts greedily. Agents that learned
            a policy sample from it if this is above 0.
    """
    if not 0.0 <= exploration <= 1.0:
        raise ConfigError(f"exploration is {exploration}, expected a number from 0 to 1.")
    path = Path(source)
    if is_file(path):
        agent = _from_file(path, id, round, algorithm)
    else:
        agents = Run(path, game, algorithm).players(round)
        if id is None and len(agents) != 1:
            raise ConfigError(
                f"{path} has the agents {', '.join(agents)}: name one, such as "
                f"load_agent({str(path)!r}, {next(iter(agents), '')!r})."
            )
        agent = agents[next(iter(agents)) if id is None else str(id)]
    agent.exploration = float(exploration)
    return agent


def _from_file(
    path: Path,
    id: str | int | None,
    round: int | None,
    algorithm: str | Sequence[str] | None,
) -> TrainedAgent:
    named = [algorithm] if isinstance(algorithm, str) else algorithm or ()
    agent = load_exported(path, named)
    for name, wanted, actual in (("agent", id, agent.id), ("round", round, agent.round)):
        if wanted is not None and str(wanted) != str(actual):
            raise ConfigError(
                f"{path} has {name} {actual}, not {wanted}: leave it out, or name the run."
            )
    return agent


def export(
    run: str | Path | Run,
    agent: str | int,
    file: str | Path,
    *,
    weights_only: bool = False,
    replay: bool = False,
    force: bool = False,
    game: str | None = None,
    algorithm: str | Sequence[str] | None = None,
) -> Path:
    """Write one trained agent to a file, and return its path.

    `rookery.load_agent` opens the file, and other runs can start from it
    (`agents.ID.from=FILE`).

    Args:
        run: the run, or its folder.
        agent: the agent's id.
        file: the file to write.
        weights_only: leave out what only learning needs: optimizer and counters.
        replay: include the agent's replay.
        force: replace the file if there is one.
        game: the game's name, if `run` is a folder of an earlier version and the game is
            not built in.
        algorithm: the same for algorithms that are not built in.
    """
    opened = run if isinstance(run, Run) else Run(run, game, algorithm)
    export_agent(opened, str(agent), Path(file), weights_only, replay, force)
    return Path(file)

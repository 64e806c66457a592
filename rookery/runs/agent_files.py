"""One trained agent in a file, and where the agents of a new run start from.

`rookery export` writes an agent to a file; the setting `agents.ID.from` names such a file,
or an agent of another run. The file holds named arrays without padding and describes the
observations and actions that they are for. It names no code: the run that uses it chooses
the algorithm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rookery.algorithms.registry import find_algorithm
from rookery.config.run import Config
from rookery.errors import ArrayFileError, ConfigError
from rookery.protocol.user_files import code_of_agent
from rookery.replay.rows import row_dtype
from rookery.runs.folder import CHECKPOINTS, CONFIG, no_run
from rookery.runs.run import Run
from rookery.shm.block import available
from rookery.specs import AgentSpec, Array
from rookery.storage.access import is_file
from rookery.storage.arrays import read_arrays, to_bytes
from rookery.storage.checkpoints import digest, newest_whole
from rookery.storage.files import replace_whole
from rookery.training.training import InitialState

KIND = "rookery agent"
WEIGHTS = "weights."
ROWS = "rows"
MAX_BYTES = 2**36
"""The largest file of an agent that is read, with its replay."""
REPLAY_ARRAYS = ("priorities", "largest_priority")
"""Arrays of a state that belong to slots of its replay; exported rows get other slots."""
WITH_ROUND = re.compile(r"(?P<agent>.*)@(?P<round>\d{1,9})", re.DOTALL)


@dataclass(frozen=True)
class ExportedAgent:
    """An agent as it was read from a file."""

    algorithm: str
    shape: str
    """Its observations and actions, as text."""
    arrays: dict[str, Array]
    """Its weights by name, or its whole state."""
    rows: Array | None = None
    """Its replay: whole slots as bytes, (turns, bytes)."""
    layout: str = ""
    """The columns of a slot, as text."""

    @property
    def weights(self) -> dict[str, Array]:
        """The weights by name."""
        return {
            name.removeprefix(WEIGHTS): array
            for name, array in self.arrays.items()
            if name.startswith(WEIGHTS)
        }

    @property
    def has_state(self) -> bool:
        """Whether it can continue learning as if it had never stopped."""
        return any(not name.startswith(WEIGHTS) for name in self.arrays)


def shape_of(spec: AgentSpec) -> str:
    """Return an agent's observations and actions as text."""
    parts = ", ".join(f"{name} {part}" for name, part in sorted(spec.parts.items()))
    return f"{parts}; {spec.num_actions} actions"


def layout_of(spec: AgentSpec, worlds: int, hidden: int = 0) -> str:
    """Return the columns of a replay slot as text; equal layouts are compatible."""
    return str(row_dtype(spec, worlds, hidden))


def export_agent(
    run: Run, agent: str, path: Path, weights_only: bool, with_replay: bool = False
) -> None:
    """Write an agent of a run to a file.

    Args:
        run: the run that it was trained in.
        agent: its id.
        path: the file to write.
        weights_only: leave out optimizer moments and counters.
        with_replay: include its replay.

    Raises:
        ConfigError: if there is no such agent, or the file cannot be written.
    """
    trained = run.players()[agent]
    number = trained.agent.number
    arrays = {f"{WEIGHTS}{name}": array for name, array in trained.named.items()}
    if not weights_only or with_replay:
        files = newest_whole(run.path / CHECKPOINTS).files
    if not weights_only:
        state = files[f"agent-{number}"]
        arrays = {name: array for name, array in state.items() if name not in REPLAY_ARRAYS}
    if with_replay:
        if f"replay-{number}" not in files:
            raise ConfigError(
                f"{run.path} has no replay of agent '{agent}': its checkpoints were "
                "written with checkpoints.replay=false; export without --replay."
            )
        arrays[ROWS] = files[f"replay-{number}"]["rows"]
    metadata = {
        "kind": KIND,
        "algorithm": trained.agent.settings.algorithm,
        "shape": shape_of(trained.spec),
        "layout": layout_of(trained.spec, run.config.worlds, trained.agent.hidden),
    }
    try:
        replace_whole(path, to_bytes(arrays, metadata))
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror}).") from error


def read_agent(path: Path) -> ExportedAgent:
    """Return the agent in a file.

    Raises:
        ArrayFileError: if the file does not contain an agent.
    """
    arrays, metadata = read_arrays(path.resolve(), min(MAX_BYTES, available()))
    if metadata.get("kind") != KIND:
        raise ArrayFileError(
            f"{path} does not contain an agent: create it with rookery export."
        )
    rows = arrays.pop(ROWS, None)
    algorithm, shape, layout = (
        metadata.get(name, "") for name in ("algorithm", "shape", "layout")
    )
    return ExportedAgent(algorithm, shape, arrays, rows, layout)


def origins_of(config: Config, agents: tuple[AgentSpec, ...]) -> dict[str, InitialState]:
    """Return what agents start from, by id, for those with the setting `from`."""
    return {
        spec.id: _read_origin(source, spec, config)
        for spec in agents
        if (source := config.agent(spec.id).start_from) is not None
    }


def origin_checksum(origin: InitialState) -> str:
    """Return the SHA-256 of everything that an agent starts with."""
    arrays = {f"weights/{name}": array for name, array in origin.weights.items()}
    arrays |= {f"state/{name}": array for name, array in (origin.state or {}).items()}
    return digest(arrays | ({} if origin.rows is None else {"rows": origin.rows}), "")


def _read_origin(source: str, spec: AgentSpec, config: Config) -> InitialState:
    if is_file(Path(source)):
        return _origin_from_file(Path(source), spec, config)
    # Code that the user has named for this run is trusted in the other run, too.
    settings = [config, *config.agents.values()]
    named = [name for each in settings for name in code_of_agent(each)]
    path, agent = _parse_source(source, spec.id)
    run, number = Run(path, config.game.name, named), None
    with_round = WITH_ROUND.fullmatch(agent)
    if with_round and agent not in [other.id for other in run.agents]:
        agent, number = with_round["agent"], int(with_round["round"])
    trained = run.players(number)[agent]
    if shape_of(trained.spec) != shape_of(spec):
        raise _misfit(spec, source, shape_of(trained.spec))
    return InitialState(trained.named)


def _parse_source(source: str, agent: str) -> tuple[Path, str]:
    """Return the run that is named, and the agent's id, possibly with a round.

    Paths and ids can contain colons: the part that is the folder of a run is the run, and
    the rest is an id. Without an id, the agent of the same id is used.
    """
    if is_file(Path(source) / CONFIG):
        return Path(source), agent
    colons = [i for i, character in enumerate(source) if character == ":"]
    runs = [i for i in colons if is_file(Path(source[:i]) / CONFIG)]
    if len(runs) > 1:
        names = " and ".join(source[:i] for i in runs)
        raise ConfigError(
            f"agents.{agent}.from is '{source}', and {names} are runs: rename one of them."
        )
    if not runs:
        raise _no_origin(source, agent)
    return Path(source[: runs[0]]), source[runs[0] + 1 :]


def _no_origin(source: str, agent: str) -> ConfigError:
    path, _, _ = source.rpartition(":")
    if source.endswith(".safetensors"):
        return ConfigError(
            f"agents.{agent}.from: there is no file '{source}': check the path."
        )
    if path:
        return no_run(Path(path))
    return ConfigError(
        f"agents.{agent}.from is '{source}': write RUN, RUN:ID, RUN:ID@ROUND, or the name "
        "of a file from rookery export."
    )


def _origin_from_file(path: Path, spec: AgentSpec, config: Config) -> InitialState:
    exported = read_agent(path)
    if exported.shape != shape_of(spec):
        raise _misfit(spec, str(path), exported.shape)
    # Optimizer moments and counters are of no use to another algorithm.
    same = exported.algorithm == config.agent(spec.id).algorithm
    state = exported.arrays if exported.has_state and same else None
    return InitialState(
        exported.weights, state, _fitting_rows(exported, path, spec, config)
    )


def _fitting_rows(
    exported: ExportedAgent, path: Path, spec: AgentSpec, config: Config
) -> Array | None:
    """Return the replay in a file, if there is one.

    Raises:
        ConfigError: if it does not fit the run.
    """
    rows = exported.rows
    if rows is None:
        return None
    settings = config.agent(spec.id)
    hidden = find_algorithm(settings.algorithm).learner.hidden(settings)
    shape = (len(rows), row_dtype(spec, config.worlds, hidden).itemsize)
    fits = rows.dtype == np.uint8 and rows.shape == shape
    if not fits or exported.layout != layout_of(spec, config.worlds, hidden):
        raise ConfigError(
            f"agent '{spec.id}' cannot use the replay in {path}: its rows do not fit this "
            f"game with worlds={config.worlds}; use the worlds it was trained with, or "
            "export it without --replay."
        )
    return rows


def _misfit(spec: AgentSpec, source: str, shape: str) -> ConfigError:
    return ConfigError(
        f"agent '{spec.id}' cannot start from {source}: their observations or actions "
        f"differ ({shape}, not {shape_of(spec)}); name an agent of the same shape."
    )

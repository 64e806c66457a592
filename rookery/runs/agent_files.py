"""One trained agent in a file, and where the agents of a new run start from.

`rookery export` writes an agent to a file; the setting `agents.ID.from` names such a file,
or an agent of another run, and `rookery.load_agent` opens it by itself. The file holds
named arrays without padding, the observations and actions that they are for, the agent's
settings, and a checksum. It cannot make Rookery import code: an algorithm that is not built
in must be named by the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from rookery.algorithms.agents import weight_shapes
from rookery.algorithms.base import Agent
from rookery.algorithms.registry import find_algorithm
from rookery.config.agent import AgentSettings
from rookery.config.messages import shown
from rookery.config.run import Config
from rookery.errors import ArrayFileError, ConfigError
from rookery.evaluation.trained import TrainedAgent
from rookery.protocol.user_files import code_of_agent
from rookery.replay.rows import row_dtype
from rookery.runs.folder import CHECKPOINTS, CONFIG, no_run
from rookery.runs.run import Run, untrusted_algorithms
from rookery.runs.specs_file import check_memory, checked_specs
from rookery.shm.block import available
from rookery.specs import AgentSpec, Array, spec_from_json, spec_to_json
from rookery.storage.access import is_file
from rookery.storage.arrays import (
    parse_json,
    read_arrays,
    shapes_of,
    to_checked_bytes,
)
from rookery.storage.checkpoints import digest, newest_whole
from rookery.storage.files import replace_whole
from rookery.training.training import InitialState

KIND = "rookery agent"
WEIGHTS = "weights."
DESCRIPTION = "agent"
"""The key in a file's metadata of the agent's spec and settings; older files lack it."""
ROWS = "rows"
MAX_BYTES = 2**36
"""The largest file of an agent that is read, with its replay."""
REPLAY_ARRAYS = ("priorities", "largest_priority")
"""Arrays of a state that belong to slots of its replay; exported rows get other slots."""
WITH_ROUND = re.compile(r"(?P<agent>.*)@(?P<round>\d{1,9})", re.DOTALL)


@dataclass(frozen=True)
class Description:
    """What a file says about the agent in it, besides its arrays."""

    spec: AgentSpec
    settings: AgentSettings
    game: str
    """The name of the game that it was trained in."""
    number: int
    round: int
    worlds: int

    def to_json(self) -> str:
        """Return it as text."""
        settings = self.settings.model_dump(
            mode="json", include=set(AgentSettings.model_fields)
        )
        plain = vars(self) | {"spec": spec_to_json(self.spec), "settings": settings}
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """Return what `to_json` described.

        Raises:
            ValueError: if it is not the description of an agent.
        """
        data = parse_json(text)
        try:
            (spec,) = checked_specs([spec_from_json(data["spec"])])
            settings = _settings_of(data["settings"])
            numbers = [data[name] for name in ("number", "round", "worlds")]
            if any(type(number) is not int or number < 0 for number in numbers):
                raise ValueError(f"{numbers} are not an agent's number, round and worlds")
            return cls(spec, settings, str(data["game"]), *numbers)
        except (KeyError, TypeError) as error:
            raise ValueError(f"it does not describe an agent ({error!r})") from error


def _settings_of(tree: Any) -> AgentSettings:
    try:
        return AgentSettings.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        raise ValueError(f"setting {shown(name)}: {problem['msg']}") from error


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
    description: Description | None = None
    """The agent's spec and settings; None in files of earlier versions."""

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
    run: Run,
    agent: str,
    path: Path,
    weights_only: bool,
    with_replay: bool = False,
    force: bool = False,
) -> None:
    """Write an agent of a run to a file.

    Args:
        run: the run that it was trained in.
        agent: its id.
        path: the file to write.
        weights_only: leave out optimizer moments and counters.
        with_replay: include its replay.
        force: replace the file if there is one.

    Raises:
        ConfigError: if there is no such agent, or the file exists or cannot be written.
    """
    trained = run.players()[agent]
    if path.exists() and not force:
        raise ConfigError(
            f"{path} exists already: choose another name, or replace it with --force "
            "(force=True in Python)."
        )
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
        "layout": layout_of(trained.spec, run.worlds, trained.agent.hidden),
        DESCRIPTION: Description(
            trained.spec,
            trained.agent.settings,
            run.game_name,
            number,
            run.rounds_with_weights[-1],
            run.worlds,
        ).to_json(),
    }
    try:
        replace_whole(path, to_checked_bytes(arrays, metadata))
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
    description = None
    if DESCRIPTION in metadata:
        try:
            description = Description.from_json(metadata[DESCRIPTION])
        except ValueError as error:
            raise ArrayFileError(
                f"{path} cannot be read ({error}): export the agent again, with this "
                "version of Rookery."
            ) from error
    return ExportedAgent(algorithm, shape, arrays, rows, layout, description)


def load_exported(path: Path, algorithms: Sequence[str] = ()) -> TrainedAgent:
    """Return the agent in a file, ready to act.

    Args:
        path: a file from `rookery export`.
        algorithms: the algorithms that the user has named, besides the built-in ones.

    Raises:
        ArrayFileError: if the file does not contain an agent, or one that does not fit.
        ConfigError: if its algorithm is code that the user has not named.
    """
    exported = read_agent(path)
    description = exported.description
    if description is None:
        raise ArrayFileError(
            f"{path} was written by an earlier version, which did not record what the "
            "agent observes: export it again, or start a run from it (agents.ID.from)."
        )
    settings = description.settings
    if missing := untrusted_algorithms(code_of_agent(settings), algorithms):
        raise ConfigError(
            f"{path} was trained with {missing[0]!r}, which is not built in. "
            f"If you trust this code, add: algorithm={missing[0]!r}"
        )
    algorithm = find_algorithm(settings.algorithm)
    agent = Agent(description.number, description.spec, settings, algorithm)
    check_memory(path, [agent])
    if shapes_of(exported.weights) != weight_shapes(agent):
        raise ArrayFileError(
            f"{path} has weights that do not fit its settings: export the agent again."
        )
    return TrainedAgent(
        agent,
        exported.weights,
        f"{path}:{agent.id}",
        worlds=max(1, description.worlds),
        game=description.game,
        round=description.round,
    )


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
    run, number = Run(path, None, named), None
    if run.game_name == config.game.name:  # which the user has named for this run
        run = Run(path, config.game.name, named)
    with_round = WITH_ROUND.fullmatch(agent)
    if with_round and agent not in [other.id for other in run.agents]:
        agent, number = with_round["agent"], int(with_round["round"])
    trained = run.players(number)[agent]
    if shape_of(trained.spec) != shape_of(spec):
        raise _misfit(spec, source, shape_of(trained.spec))
    _check_weights(spec, source, config, trained.named, trained.agent.settings)
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
    known = exported.description
    there = None if known is None else known.settings
    _check_weights(spec, str(path), config, exported.weights, there)
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


# Weights that do not fit the network that they are loaded into.

SHAPING = (
    "algorithm",
    "frames",
    "network.module",
    "network.width",
    "network.depth",
    "network.channels",
    "recurrent.width",
    "tabular.entries",
    "iqn.dueling",
    "iqn.noisy",
    "dqn.dueling",
    "dqn.noisy",
)
"""The settings that shape weights; those of one algorithm count if both have it."""


def _check_weights(
    spec: AgentSpec,
    source: str,
    config: Config,
    weights: Mapping[str, Array],
    there: AgentSettings | None,
) -> None:
    """Refuse weights of another shape, and name the settings that differ."""
    here = config.agent(spec.id)
    if here.player is not None:
        return
    agent = Agent(0, spec, here, find_algorithm(here.algorithm))
    expected = weight_shapes(agent)
    if shapes_of(weights) == expected:
        return
    differences = [] if there is None else list(_differences(here, there))
    if not differences:
        name = next(
            n for n in [*expected, *weights] if _shape(weights, n) != expected.get(n)
        )
        form, wanted = _shape(weights, name), expected.get(name)
        differences = [
            f"'{name}' is {wanted[0] if wanted else 'missing'} here and "
            f"{form[0] if form else 'missing'} there"
        ]
    raise ConfigError(
        f"agent '{spec.id}' cannot load the weights of {source}: "
        f"{' and '.join(differences)}; use the same settings."
    )


def _shape(arrays: Mapping[str, Array], name: str) -> Any:
    return shapes_of({name: arrays[name]})[name] if name in arrays else None


def _differences(here: AgentSettings, there: AgentSettings) -> Iterator[str]:
    """Yield the settings that shape weights and differ, with both values."""
    for key in SHAPING:
        group, _, name = key.rpartition(".")
        if group in ("iqn", "dqn") and not here.algorithm.endswith(group):
            continue
        pair = [getattr(getattr(s, group) if group else s, name) for s in (here, there)]
        if pair[0] != pair[1]:
            yield f"{key} is {shown(pair[0])} here and {shown(pair[1])} there"

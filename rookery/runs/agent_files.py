"""One trained agent in a file, to be used in another run.

The file holds named arrays without padding, and says what shape of agent they are of. It
names no code: who uses it says by which algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rookery.errors import ArrayFileError, ConfigError
from rookery.replay.rows import row_dtype
from rookery.runs.folder import CHECKPOINTS
from rookery.runs.run import Run
from rookery.shm.block import available
from rookery.specs import AgentSpec, Array
from rookery.storage.arrays import read_arrays, to_bytes
from rookery.storage.checkpoints import newest_whole
from rookery.storage.files import replace_whole

KIND = "rookery agent"
WEIGHTS = "weights."
ROWS = "rows"
MOST_BYTES = 2**36
"""No agent in a file is larger, with its replay."""
OF_REPLAY = ("priorities", "largest_priority")
"""What belongs to places in a replay; rows that are brought along get others."""


@dataclass(frozen=True)
class Exported:
    """An agent from a file."""

    algorithm: str
    shape: str
    """What it sees and can do, in words."""
    arrays: dict[str, Array]
    """Its weights by name; or, with more, its whole state."""
    rows: Array | None = None
    """Its replay: whole slots as bytes, (turns, bytes)."""
    layout: str = ""
    """What a slot holds, in words."""

    @property
    def weights(self) -> dict[str, Array]:
        """The weights by name."""
        return {
            name.removeprefix(WEIGHTS): array
            for name, array in self.arrays.items()
            if name.startswith(WEIGHTS)
        }

    @property
    def is_whole(self) -> bool:
        """Whether it can go on learning as if it had never stopped."""
        return any(not name.startswith(WEIGHTS) for name in self.arrays)


def shape_of(spec: AgentSpec) -> str:
    """Return what an agent sees and can do, in words."""
    parts = ", ".join(f"{name} {part}" for name, part in sorted(spec.parts.items()))
    return f"{parts}; {spec.num_actions} actions"


def layout_of(spec: AgentSpec, worlds: int, hidden: int = 0) -> str:
    """Return what a slot of an agent's replay holds: two that say the same fit."""
    return str(row_dtype(spec, worlds, hidden))


def export_agent(
    run: Run, agent: str, path: Path, weights_only: bool, with_replay: bool = False
) -> None:
    """Write an agent of a run to a file.

    Args:
        run: it was trained in.
        agent: its id.
        path: of the file.
        weights_only: leave out moments and counts.
        with_replay: bring its experience along.

    Raises:
        ConfigError: if there is no such agent, or the file cannot be written.
    """
    trained = run.players()[agent]
    number = trained.agent.number
    arrays = {f"{WEIGHTS}{name}": array for name, array in trained.named.items()}
    if not weights_only or with_replay:
        files = newest_whole(run.path / CHECKPOINTS).files
    if not weights_only:
        whole = files[f"agent-{number}"]
        arrays = {name: array for name, array in whole.items() if name not in OF_REPLAY}
    if with_replay:
        arrays[ROWS] = _replay_of(run, agent, files.get(f"replay-{number}"))
    about = {
        "kind": KIND,
        "algorithm": trained.agent.settings.algorithm,
        "shape": shape_of(trained.spec),
        "layout": layout_of(trained.spec, run.config.worlds, trained.agent.hidden),
    }
    try:
        replace_whole(path, to_bytes(arrays, about))
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror}).") from error


def _replay_of(run: Run, agent: str, file: Mapping[str, Array] | None) -> Array:
    if file is None:
        raise ConfigError(
            f"{run.path} has kept no replay of agent '{agent}': its checkpoints were "
            "written with checkpoints.replay=false; export without --replay."
        )
    return file["rows"]


def read_agent(path: Path) -> Exported:
    """Return the agent in a file.

    Raises:
        ArrayFileError: if it is none.
    """
    arrays, about = read_arrays(path.resolve(), min(MOST_BYTES, available()))
    if about.get("kind") != KIND:
        raise ArrayFileError(f"{path} holds no agent: make it with rookery export.")
    rows = arrays.pop(ROWS, None)
    said = [about.get(name, "") for name in ("algorithm", "shape", "layout")]
    return Exported(said[0], said[1], arrays, rows, said[2])

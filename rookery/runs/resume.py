"""May a run go on, and is it still the one that it was when it began?

What it was asked to do lies under a seal; what would make it another run is refused, and
what may have made it another is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.config.run import Config
from rookery.errors import ArrayFileError
from rookery.runs.arithmetic import machine, other_machine
from rookery.runs.folder import CHECKPOINTS
from rookery.runs.log import RunLog
from rookery.runs.seal import (
    SEAL,
    Seal,
    changed_files,
    read_seal,
    refuse_changes,
    refuse_other_origins,
    seal_of,
    write_seal,
)
from rookery.runs.start_from import sum_of
from rookery.storage.checkpoints import checkpoints_in
from rookery.training.training import MEMORY, InitialState


def has_begun(folder: Path, log: RunLog) -> bool:
    """Whether there is something to go on from.

    Raises:
        ArrayFileError: if there was, and is no longer: starting again from round 0 would
            lose even the lines that were written.
    """
    if (folder / MEMORY).exists() or checkpoints_in(folder / CHECKPOINTS):
        return True
    if log.has_saved():
        raise ArrayFileError(
            f"{folder / CHECKPOINTS} no longer has a checkpoint: put one back, or delete "
            "the run and train it again."
        )
    return False


def seal_new(
    folder: Path, config: Config, agents: Sequence[str], origins: Mapping[str, InitialState]
) -> Seal:
    """Seal a run that starts at round 0, and return its seal.

    Raises:
        ConfigError: if it was sealed before, with other settings or other origins.
    """
    sums = {agent: sum_of(origin) for agent, origin in origins.items()}
    seal = seal_of(config, agents, sums, machine())
    if old := read_seal(folder):
        refuse_changes(folder, old, config, agents)
        refuse_other_origins(old, sums)
        seal["files"] = old["files"]
    return write_seal(folder, seal)


def sealed(folder: Path, config: Config, agents: Sequence[str]) -> Seal | None:
    """Return the seal of a run that goes on; None if it has none.

    Raises:
        ConfigError: if it is asked to do something else than when it began.
    """
    seal = read_seal(folder)
    if seal:
        refuse_changes(folder, seal, config, agents)
    return seal


def doubts(seal: Seal | None, config: Config, then: Mapping[str, Any] | None) -> list[str]:
    """Return why a run that goes on may be another one from there on.

    Args:
        seal: what it was asked to do.
        config: what it is asked to do.
        then: what it was computed with; None if nothing is left of that.
    """
    if seal is None:
        found = [f"{SEAL} is missing, so the settings may have changed since the run began"]
    else:
        files = changed_files(seal, config)
        found = [f"{name} is not the file that the run began with" for name in files]
    if then is not None and (other := other_machine(then)):
        found.append(f"it goes on from results computed with {other}")
    return found

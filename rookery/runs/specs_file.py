"""agents.json: what the agents of a run observe and can do, written when it starts.

With it a run's agents can be opened without the game's code: to evaluate observations of
one's own, to export them, or to start other agents from them. Runs of earlier versions do
not have the file; their agents need the game.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rookery.algorithms.agents import weight_bytes
from rookery.algorithms.base import Agent
from rookery.errors import ArrayFileError
from rookery.games.guard import spec_faults
from rookery.shm.block import available
from rookery.specs import AgentSpec, spec_from_json, spec_to_json
from rookery.storage.access import cannot_write, is_file
from rookery.storage.arrays import Damaged, opened, parse_json, size_of
from rookery.storage.checkpoints import sum_of_manifest
from rookery.storage.files import replace_whole

SPECS = "agents.json"
MOST_BYTES = 2**26


def write_specs(folder: Path, specs: Sequence[AgentSpec]) -> None:
    """Write the agents of a new run into its folder.

    Raises:
        ConfigError: if it cannot be written.
    """
    data = {"agents": [spec_to_json(spec) for spec in specs]}
    text = json.dumps({**data, "sum": sum_of_manifest(json.loads(json.dumps(data)))})
    try:
        replace_whole(folder / SPECS, text.encode())
    except OSError as error:
        raise cannot_write(folder / SPECS, error) from error


def read_specs(folder: Path) -> list[AgentSpec] | None:
    """Return the agents of a run in the game's order; None if it has no such file.

    Raises:
        ArrayFileError: if the file is damaged.
    """
    path = folder / SPECS
    if not is_file(path):
        return None
    with opened(path) as file:
        try:
            if size_of(file) > MOST_BYTES:
                raise Damaged(f"{size_of(file)} bytes, expected at most {MOST_BYTES}")
            data = parse_json(file.read())
            if not isinstance(data, dict) or data.get("sum") != sum_of_manifest(data):
                raise Damaged("its checksum does not match its content")
            return checked_specs([spec_from_json(spec) for spec in data["agents"]])
        except (ValueError, KeyError, TypeError) as error:
            raise ArrayFileError(
                f"{path} cannot be read ({error}): put it back as it was, or delete it and "
                "name the game."
            ) from error


def checked_specs(specs: list[AgentSpec]) -> list[AgentSpec]:
    """Return specs that were read from a file.

    Raises:
        ValueError: if a game could not have them.
    """
    for fault, _ in spec_faults(specs):
        raise ValueError(f"it {fault}")
    return specs


def check_memory(path: Path, agents: Sequence[Agent]) -> None:
    """Refuse agents of a file whose weights would not fit into memory.

    Raises:
        ArrayFileError: naming the file.
    """
    needed, free = sum(map(weight_bytes, agents)), available()
    if needed > free:
        raise ArrayFileError(
            f"{path} describes networks of {needed} bytes, and {free} are free: they are "
            "larger than the memory."
        )

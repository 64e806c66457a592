"""Recordings as a table: one row per world, episode, turn and agent.

Facts and counts keep their names. Facts about an agent are in the rows of that agent;
facts about a world are in the rows of all agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.errors import ConfigError
from rookery.evaluation.recordings import FRAMES, Recording
from rookery.specs import Array

if TYPE_CHECKING:
    from pandas import DataFrame

WIDEST = 16
"""A fact of up to so many numbers has a column for each; a larger one is a list."""
NAMES = {"actions": "action", "rewards": "reward", "scores": "score"}
"""Columns whose names are singular, because a row has one value."""


def table_of(recordings: Sequence[Recording]) -> DataFrame:
    """Return episodes as a table (needs pandas)."""
    pandas = pandas_or_advice()
    tables = [pandas.DataFrame(_columns(recording)) for recording in recordings]
    return pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame()


def write_parquet(table: DataFrame, path: str | Path) -> None:
    """Write a table to a Parquet file."""
    try:
        table.to_parquet(path, index=False)
    except ImportError as error:
        raise ConfigError(
            "Parquet files need pyarrow: install it with pip install 'rookery[analysis]'."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error}).") from error


def pandas_or_advice() -> Any:
    """Return pandas.

    Raises:
        ConfigError: if it is not installed, with how to install it.
    """
    try:
        import pandas
    except ImportError as error:
        raise ConfigError(
            "tables need pandas: install it with pip install 'rookery[analysis]'."
        ) from error
    return pandas


def _columns(recording: Recording) -> dict[str, Any]:
    actions = recording.arrays["actions"]
    turns, agents = actions.shape
    columns: dict[str, Any] = {
        "world": np.full(turns * agents, recording.world),
        "episode": np.full(turns * agents, recording.episode),
        "turn": np.repeat(np.arange(turns), agents),
        "agent": list(recording.agents) * turns,
        "player": list(recording.players) * turns,
    }
    if recording.actions:
        columns["action_name"] = [
            recording.actions[i][row[i]] for row in actions for i in range(agents)
        ]
    for name, array in recording.arrays.items():
        if name != FRAMES:
            columns |= dict(_spread(NAMES.get(name, name), array, turns, agents))
    return columns


def _spread(
    name: str, array: Array, turns: int, agents: int
) -> Iterator[tuple[str, Array | list[Any]]]:
    """Yield the columns, of turns × agents rows each, of an array per agent or world."""
    if array.ndim < 2 or array.shape[1] != agents:
        array = np.repeat(array[:, None], agents, axis=1)
    rest = array.shape[2:]
    flat = array.reshape(turns * agents, -1)
    if not rest:
        yield name, flat[:, 0]
    elif flat.shape[1] > WIDEST:
        yield name, flat.tolist()
    else:
        for index in np.ndindex(rest):
            suffix = ".".join(map(str, index))
            yield f"{name}.{suffix}", array[(..., *index)].reshape(-1)

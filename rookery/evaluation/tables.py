"""Recordings as a table: one row per world, episode, turn and agent.

Facts and counts keep their names. What a game tells of every agent stands in that agent's
rows; what it tells of a world, in the rows of all.
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
"""Numbers of one fact that get a column each; more than these are one list."""
NAMES = {"actions": "action", "rewards": "reward", "scores": "score"}
"""In a row there is one of each."""


def table_of(recordings: Sequence[Recording]) -> DataFrame:
    """Return episodes as a table (needs pandas)."""
    pandas = pandas_or_advice()
    tables = [pandas.DataFrame(_columns(one)) for one in recordings]
    return pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame()


def write_parquet(table: DataFrame, path: str | Path) -> None:
    """Write a table to a Parquet file, which any tool for data can read."""
    try:
        table.to_parquet(path, index=False)
    except ImportError as error:
        raise ConfigError(
            "Parquet files need pyarrow: pip install 'rookery[analysis]' brings it."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error}).") from error


def pandas_or_advice() -> Any:
    """Return pandas, or say how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ConfigError(
            "tables need pandas: pip install 'rookery[analysis]' brings it."
        ) from error
    return pandas


def _columns(one: Recording) -> dict[str, Any]:
    turns, agents = one.arrays["actions"].shape
    found: dict[str, Any] = {
        "world": np.full(turns * agents, one.world),
        "episode": np.full(turns * agents, one.episode),
        "turn": np.repeat(np.arange(turns), agents),
        "agent": list(one.agents) * turns,
        "player": list(one.players) * turns,
    }
    if one.actions:
        rows = one.arrays["actions"]
        found["action_name"] = [
            one.actions[i][row[i]] for row in rows for i in range(agents)
        ]
    for name, array in one.arrays.items():
        if name != FRAMES:
            found |= dict(_spread(NAMES.get(name, name), array, turns, agents))
    return found


def _spread(
    name: str, array: Array, turns: int, agents: int
) -> Iterator[tuple[str, Array | list[Any]]]:
    """Return columns of turns × agents from what may be of every agent, or of a world."""
    if array.ndim < 2 or array.shape[1] != agents:
        array = np.repeat(array[:, None], agents, axis=1)
    rest = array.shape[2:]
    flat = array.reshape(turns * agents, -1)
    if not rest:
        yield name, flat[:, 0]
    elif flat.shape[1] > WIDEST:
        yield name, flat.tolist()
    else:
        for place in np.ndindex(rest):
            inner = ".".join(map(str, place))
            yield f"{name}.{inner}", array[(..., *place)].reshape(-1)

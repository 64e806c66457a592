"""Which trials of a search were ended early, because they were behind the others.

There is a file for each in the folder of the sweep, which is written before any of its runs
stops. So all of them stop, whoever trains them, and none goes on after that.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path

from rookery.storage.access import is_file
from rookery.storage.files import replace_whole

MARKS = "pruned"
"""The folder with these files, within that of the sweep."""


def mark_pruned(folder: Path, trial: str, number: int, value: float | None) -> None:
    """Mark a trial as ended early, so that nobody trains it any further.

    Args:
        folder: of the sweep.
        trial: its folder, relative to that of the sweep.
        number: the round in which it was behind the others.
        value: what it had scored then.
    """
    file = _file(folder, trial)
    file.parent.mkdir(exist_ok=True)
    content = {
        "trial": trial,
        "round": number,
        "value": value,
        "time": time.time(),
        "host": socket.gethostname(),
    }
    replace_whole(file, json.dumps(content, indent=2).encode())


def is_pruned(folder: Path, trial: str) -> bool:
    """Whether a trial was ended early."""
    return is_file(_file(folder, trial))


def round_of_pruning(folder: Path, trial: str) -> int | None:
    """Return the round in which a trial was behind the others; None if it is not known."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(_file(folder, trial).read_text())["round"])
    return None


def _file(folder: Path, trial: str) -> Path:
    return folder / MARKS / f"{trial}.json"

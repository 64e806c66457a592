"""How long a sweep takes: the first cell is timed for some seconds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.algorithms.torch_setup import standard_state
from rookery.config.resolve import resolve
from rookery.games.registry import find
from rookery.runs.session import Session
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.axes import Question
from rookery.sweeps.plan import Group
from rookery.training.autoscale import cores
from rookery.training.training import Round

SECONDS = 10.0


def estimate(question: Question, groups: Sequence[Group]) -> dict[str, Any]:
    """Return the number of cells, and about how many core-hours they take."""
    config = resolve(groups[0].tree, find(groups[0].game).settings)
    per_round = _seconds_per_round(groups[0])
    cells = len(groups) * len(question.seeds)
    hours = cells * config.rounds * per_round / 3600
    return {
        "cells": cells,
        "groups": len(groups),
        "seeds": len(question.seeds),
        "rounds": config.rounds,
        "seconds_per_round": per_round,
        "core_hours": hours,
        "hours_here": hours / cores(),
    }


def _seconds_per_round(group: Group) -> float:
    """Train the first cell for some seconds; the first half of the rounds is warm-up."""
    entry, times, stop = find(group.game), list[float](), StopFlag()
    config = resolve({**group.tree, "workers": 0}, entry.settings)

    def show(result: Round) -> None:
        times.append(result.seconds)
        if time.monotonic() > end:
            raise Stopped

    with tempfile.TemporaryDirectory(prefix="rookery-estimate-") as temporary:
        folder = Path(temporary) / "run"
        folder.mkdir()
        with standard_state():
            session = Session(entry, config, folder, stop)
            end = time.monotonic() + SECONDS
            with suppress(Stopped):
                session.run(show)
    recent = times[len(times) // 2 :]
    return sum(recent) / len(recent)

"""The memory of a run is freed when it ends, not when the garbage collector runs."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import rookery
from tests.small import HUNT

COUNTERS = 64 << 10
"""At most so many bytes of counters may stay mapped."""


def shared_bytes() -> int:
    """Return how much anonymous shared memory of runs this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if "memfd:rookery" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


@pytest.mark.parametrize("workers", [0, 2])
def test_replays_and_states_are_freed_as_soon_as_training_ends(
    tmp_path: Path, workers: int
) -> None:
    gc.collect()
    before = shared_bytes()
    gc.disable()
    try:
        rookery.train("treasurehunt", run=tmp_path / "run", **HUNT, workers=workers)
        assert shared_bytes() - before <= COUNTERS
    finally:
        gc.enable()

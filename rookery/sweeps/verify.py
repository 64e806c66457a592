"""Computing cells of a sweep again, here, and comparing their digests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.algorithms.torch_setup import standard_state
from rookery.errors import ArrayFileError, ConfigError
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.stop import StopFlag
from rookery.sweeps.cells import is_done
from rookery.sweeps.plan import Cell, Plan


@dataclass(frozen=True)
class Verified:
    """A cell that was computed again."""

    cell: str
    expected: str
    """The digest of the cell in the sweep; '' if it is damaged."""
    computed: str
    why: str
    """Why the cell in the sweep is damaged or not exact; '' if it is neither."""

    @property
    def is_same(self) -> bool:
        """Whether both have the same digest."""
        return self.expected == self.computed


def choose(plan: Plan, count: int, seed: int) -> list[Cell]:
    """Return some random cells that are done.

    Raises:
        ConfigError: if none is.
    """
    done = [cell for cell in plan.cells if is_done(cell)]
    if not done:
        raise ConfigError(f"no cell of {plan.folder} is done yet: nothing to verify.")
    chosen = np.random.default_rng(seed).permutation(len(done))[:count]
    return [done[i] for i in sorted(chosen)]


def verify(plan: Plan, cells: list[Cell], stop: StopFlag) -> Iterator[Verified]:
    """Compute cells again in a temporary folder, and yield both digests of each."""
    for cell in cells:
        expected, run = _digest_of(plan, cell), _run(plan, cell, cell.folder)
        with tempfile.TemporaryDirectory(prefix="rookery-verify-") as temporary:
            folder = Path(temporary) / "run"
            folder.mkdir()
            with standard_state():
                # Its own configuration: it may have been trained longer since.
                session = Session(run.entry, run.config, folder, stop)
                session.run(lambda result: None)
            computed = _run(plan, cell, folder).digest()
        yield Verified(cell.name, expected["run"], computed["run"], expected["why"])


def _digest_of(plan: Plan, cell: Cell) -> dict[str, Any]:
    """Return the digest of a cell in the sweep; if it is damaged, only why."""
    try:
        return _run(plan, cell, cell.folder).digest()
    except ArrayFileError as error:
        return {"run": "", "why": str(error)}


def _run(plan: Plan, cell: Cell, folder: Path) -> Run:
    return Run(folder, cell.entry.name, list(plan.named.algorithms))

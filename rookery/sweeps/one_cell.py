"""Training one cell in a folder that was sent to this machine.

Before it starts, this machine must compute the same bits as the one that the sweep was
started on, and the users' files must be as they were sent.
"""

from __future__ import annotations

import hashlib
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.stdio import guarded
from rookery.stop import SIGNALS, UNFINISHED, StopFlag, Stopped
from rookery.sweeps.cells import FAILED
from rookery.sweeps.host import CODE_FOLDER, SWEEP_FOLDER, TASK
from rookery.sweeps.machine import bits_for, difference, facts
from rookery.sweeps.plan import Plan
from rookery.sweeps.transfer import Refused
from rookery.sweeps.trust import Named
from rookery.sweeps.work import work

UNLIKE = "unlike"
"""Told if this machine computes something else than expected."""


def main() -> None:
    """Train the cell in the folder that is the argument; the exit code is that of a run."""
    folder = Path(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked by who started the parent
    task = json.loads((folder / TASK).read_text())
    with guarded():
        try:
            code = _train(folder, task)
        except RookeryError as error:
            tell(FAILED, task["cell"], line=str(error))
            code = 0
    sys.exit(code)


def _train(folder: Path, task: Mapping[str, Any]) -> int:
    check_sums(folder / CODE_FOLDER, task["sums"])
    plan, stop = Plan(folder / SWEEP_FOLDER, Named(**task["named"])), StopFlag()
    (cell,) = plan.cells
    here = facts(bits_for(cell.entry, cell.config))
    if why := difference(task["expected"], here):
        tell(UNLIKE, cell.name, line=why)
        return 0
    try:
        with stop.listening(to_the_end=True):
            work(plan, stop, tell)
    except Stopped:
        return UNFINISHED
    return 0


def check_sums(folder: Path, sums: Mapping[str, str]) -> None:
    """Check files that have arrived.

    Raises:
        Refused: naming one that is not what was sent.
    """
    for name, expected in sums.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
            raise Refused(f"{name} has not arrived as it was sent: try again.")


def tell(event: str, cell: str, **details: Any) -> None:
    """Print an event as a line of JSON."""
    print(json.dumps({"event": event, "cell": cell, **details}), flush=True)

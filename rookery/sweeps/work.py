"""Training the cells of a sweep, one after the other, in this process.

Any number of processes, on any number of machines that share the folder, can do this at the
same time: each takes the first cell that is neither done nor failed nor taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.algorithms.torch_setup import standard_state
from rookery.errors import RookeryError
from rookery.plugins import describe_error
from rookery.runs.claim import ClaimLost, InUse
from rookery.runs.log import METRICS, read_lines
from rookery.runs.session import Session
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    STOPPED,
    WAITING,
    record_failure,
    saved_round,
    state_of,
)
from rookery.sweeps.plan import Cell, Plan

Tell = Callable[..., None]
"""Called with an event, the name of a cell, and details."""
START, WARNING = "start", "warning"


def work(plan: Plan, stop: StopFlag, tell: Tell) -> None:
    """Train cells until none is left, or until asked to stop.

    Args:
        plan: of the sweep.
        stop: asks to save the current cell and to leave.
        tell: called when a cell starts, is done, has failed or was stopped.

    Raises:
        Stopped: if asked to; the current cell is saved.
    """
    over, refused = set[str](), set[str]()
    while (cell := _next(plan, over, refused)) is not None:
        if stop.is_set:
            raise Stopped
        if train_cell(plan, cell, stop, tell):
            refused.clear()
        else:
            refused.add(cell.name)


def _next(plan: Plan, over: set[str], refused: set[str]) -> Cell | None:
    """Return the first cell that nobody trains; add to `over` what nobody will train.

    Args:
        plan: of the sweep.
        over: cells that need not be looked at again.
        refused: cells that turned out to be in use. From outside that can be hard to see:
            clocks of different machines may differ.
    """
    for cell in plan.cells:
        if cell.name in over or cell.name in refused:
            continue
        state = state_of(plan, cell)
        if state in (DONE, FAILED):
            over.add(cell.name)
        elif state in (STOPPED, WAITING):
            return cell
    return None


def train_cell(plan: Plan, cell: Cell, stop: StopFlag, tell: Tell) -> bool:
    """Train a cell from where it is to its end; return False if it is in use.

    An error is written down, and does not stop the others.

    Raises:
        Stopped: if asked to; the cell is saved.
    """
    cell.folder.mkdir(parents=True, exist_ok=True)
    tell(START, cell.name, round=saved_round(cell))  # building may be what it dies of
    try:
        with standard_state():
            session = Session(cell.entry, cell.config, cell.folder, stop, resume=None)
            session.say = lambda line: tell(WARNING, cell.name, line=line)
            session.show_warning = session.say
            session.run(lambda result: None)
    except InUse:  # another process was faster
        return False
    except ClaimLost as error:
        tell(STOPPED, cell.name, line=str(error))
    except Stopped:
        tell(STOPPED, cell.name, round=saved_round(cell))
        raise
    except Exception as error:
        line = str(error) if isinstance(error, RookeryError) else describe_error(error)
        record_failure(plan, cell, line)
        tell(FAILED, cell.name, line=line)
    else:
        tell(DONE, cell.name, summary=summary_of(cell, session))
    return True


def summary_of(cell: Cell, session: Session) -> Mapping[str, Any]:
    """Return what `rookery train --json` prints of a run."""
    totals, last = session.log.totals(), read_lines(cell.folder / METRICS)[-1:]
    return {
        "run": str(cell.folder),
        "rounds": session.done,
        "turns": session.done * cell.config.turns_per_round,
        "updates": totals.updates,
        "seconds": totals.seconds,
        "agents": last[0]["agents"] if last else {},
    }

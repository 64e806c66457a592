"""Training the cells of a sweep, one after the other, in this process.

Any number of processes, on any number of machines that share the folder, can do this at the
same time: each takes the first cell that is neither done nor failed nor taken. In a search,
a process that finds none asks for another trial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery.algorithms.torch_setup import standard_state
from rookery.config.parse import merge
from rookery.config.run import Config
from rookery.errors import ConfigError, RookeryError
from rookery.plugins import describe_error
from rookery.runs.claim import Claim, ClaimLost, InUse
from rookery.runs.folder import CONFIG
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Planned, Session
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.attempts import attempt
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    PRUNED,
    STOPPED,
    WAITING,
    has_begun,
    missing_changes,
    record_failure,
    saved_round,
    state_of,
    summary_of,
)
from rookery.sweeps.optuna_study import check_optuna
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.pruned import MARKS
from rookery.sweeps.search import Judge, Pruned, ask, keep_record
from rookery.sweeps.trust import refuse_unnamed

Tell = Callable[..., None]
"""Called with an event, the name of a cell, and details."""
START, WARNING = "start", "warning"


def work(plan: Plan, stop: StopFlag, tell: Tell) -> None:
    """Train cells until none is left, or until asked to stop.

    Cells that other processes train are left to them.

    Args:
        plan: of the sweep.
        stop: asks to save the current cell and to leave.
        tell: called when a cell starts, is done, has failed or was stopped.

    Raises:
        Stopped: if asked to; the current cell is saved.
    """
    if plan.search is not None:
        check_optuna()
    over, refused = set[str](), set[str]()
    while (cell := _next(plan, over, refused)) is not None:
        if stop.is_set:
            raise Stopped
        if plan.is_open(cell):
            plan = ask(plan, stop)
        elif train_cell(plan, cell, stop, tell):
            over.add(cell.name)
            refused.clear()
        else:
            refused.add(cell.name)
    if plan.search is not None:
        keep_record(plan)


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
        if state in (DONE, FAILED, PRUNED):
            over.add(cell.name)
        elif state in (STOPPED, WAITING):
            return cell
    return None


def train_cell(plan: Plan, cell: Cell, stop: StopFlag, tell: Tell) -> bool:
    """Train a cell from where it is to its end, unless somebody else has taken it.

    An error is written down, and does not stop the others.

    Returns:
        Whether it is done, or was pruned, or has failed, rather than taken.

    Raises:
        Stopped: if asked to; the cell is saved.
    """
    tell(START, cell.name, round=saved_round(cell))  # building may be what it dies of
    try:
        _make_folder(plan, cell)
        with standard_state(), attempt(plan, cell) as claim:
            session = open_cell(plan, cell, stop, claim=claim)
            session.say = lambda line: tell(WARNING, cell.name, line=line)
            session.show_warning = session.say
            _run(session, plan, cell)
    except InUse:  # another process was faster
        return False
    except ClaimLost as error:
        tell(STOPPED, cell.name, line=str(error))
        return False
    except Pruned:
        tell(PRUNED, cell.name, round=saved_round(cell))
    except Stopped:
        tell(STOPPED, cell.name, round=saved_round(cell))
        raise
    except Exception as error:
        line = str(error) if isinstance(error, RookeryError) else describe_error(error)
        record_failure(plan, cell, line)
        tell(FAILED, cell.name, line=line)
    else:
        tell(DONE, cell.name, summary=summary_of(cell))
    return True


def _run(session: Session, plan: Plan, cell: Cell) -> None:
    """Train a cell to its end, or until its trial is ended."""
    if plan.search is None:
        session.run(lambda result: None)
        return
    judge = Judge(plan, cell)
    session.run(judge.look)
    judge.end()


def open_cell(
    plan: Plan,
    cell: Cell,
    stop: StopFlag,
    revise: Callable[[Config], Config] = lambda config: config,
    claim: Claim | None = None,
) -> Session:
    """Return the session that starts a cell, or continues it with all changes of the plan.

    Args:
        plan: of the sweep.
        cell: to be trained.
        stop: asks the session to stop.
        revise: returns the configuration to use, given the one that is asked for.
        claim: on the cell, if it is claimed already.

    Raises:
        InUse: if another process trains it.
        ConfigError: if it cannot be continued like that, or names code that the user has
            not named.
    """
    _make_folder(plan, cell)
    entry, config = cell.entry, cell.config
    if has_begun(cell):
        run = Run(cell.folder, cell.entry.name, list(plan.named.algorithms))
        asked: dict[str, Any] = {}
        for change in missing_changes(cell):
            asked = merge(asked, change)
        entry, config = run.entry, resumed_config(run, settings=asked)
        refuse_unnamed(config, plan.named, cell.folder / CONFIG)
        _ = run.agents  # report all errors before the start
    settings = {**cell.group.seal.get("settings", {}), "seed": cell.seed}
    seal = {**cell.group.seal, "settings": settings} if cell.group.seal else {}
    planned = Planned(seal, len(cell.changes))
    return Session(entry, revise(config), cell.folder, stop, None, planned, claim)


def _make_folder(plan: Plan, cell: Cell) -> None:
    """Make the folder of a cell, if it has none.

    Raises:
        ConfigError: if a folder is a link: the cell would be written outside the sweep's.
    """
    for folder in (plan.folder / cell.group.folder, cell.folder, plan.folder / MARKS):
        if folder != plan.folder and folder.is_symlink():
            raise ConfigError(
                f"{folder} is a link, and a sweep must not contain links: put the folder "
                "itself there."
            )
    cell.folder.mkdir(parents=True, exist_ok=True)

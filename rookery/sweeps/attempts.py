"""Counting in the sweep's folder how often in a row the process of a cell has died.

A process that dies says nothing, so every attempt at a cell is noted before it starts:
which claim it has, the newest checkpoint, and how many deaths there were before. If the
claim is found not given up, and there is no newer checkpoint, that was one more death. So
any number of processes on any machines count together, and no cell is tried forever. Claims
see to it that only one of them writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rookery.errors import RookeryError
from rookery.runs.claim import Claim
from rookery.storage.files import replace_whole
from rookery.sweeps.cells import ATTEMPTS, file_of, saved_round
from rookery.sweeps.plan import Cell, Plan


class DiesAgain(RookeryError):
    """The process of a cell has died too often without a new checkpoint."""


@dataclass(frozen=True)
class _Attempt:
    """One process that has taken a cell."""

    token: str
    """Of its claim."""
    round: int
    """The newest checkpoint when it started."""
    deaths: int
    """How often processes had died since that checkpoint, before this one started."""


@contextmanager
def attempt(plan: Plan, cell: Cell) -> Iterator[Claim]:
    """Within this context a cell is claimed, and a death of this process counts.

    Args:
        plan: of the sweep.
        cell: to be trained; its folder exists.

    Raises:
        InUse: if another process holds it.
        DiesAgain: if processes have died `restarts.limit` times without a new checkpoint.
    """
    claim, note = Claim(cell.folder), file_of(plan, ATTEMPTS, cell)
    try:
        _begin(cell, claim, note)
        yield claim
    finally:
        last = _read(note)
        if last and last.token == claim.token:  # the next one may have begun
            with suppress(OSError):
                note.unlink(missing_ok=True)
        claim.close()


def _begin(cell: Cell, claim: Claim, note: Path) -> None:
    """Note an attempt, unless there were too many."""
    saved, before, last = saved_round(cell), claim.predecessor, _read(note)
    deaths = 0
    if before and last and (last.token, last.round) == (before.token, saved):
        deaths = last.deaths + 1
    if deaths >= max(1, cell.config.restarts.limit):
        with suppress(OSError):
            note.unlink()
        how_often = "once" if deaths == 1 else f"{deaths} times"
        raise DiesAgain(
            f"its process died {how_often} without a new checkpoint (restarts.limit), the "
            f"last time as {before}: find out whether memory ran out or its code crashed"
        )
    with suppress(OSError):  # a full disk: what is not noted does not count
        note.parent.mkdir(exist_ok=True)
        content = asdict(_Attempt(claim.token, saved, deaths))
        replace_whole(note, json.dumps(content).encode())


def _read(note: Path) -> _Attempt | None:
    """Return what is noted, None if nothing is that makes sense."""
    try:
        content = json.loads(note.read_bytes())
        values = str(content["token"]), int(content["round"]), int(content["deaths"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return _Attempt(*values)

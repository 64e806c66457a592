"""Places in users' code: an error is reported with the line of the user's own file.

The line is the innermost one of the user's code, since the last frame of a traceback is
often numpy's or Rookery's.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from rookery.errors import RookeryError
from rookery.games.hints import Advice, describe, remedy

ROOKERY = f"{Path(__file__).parents[1]}/"
INSTALLED = tuple(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib"))
LIBRARIES = (ROOKERY, f"{sysconfig.get_path('stdlib')}/", *INSTALLED)
"""How the file names of code begin that is not the user's own."""
NEVER_A_GAME = tuple(
    f"{path}{name}/" for path in INSTALLED for name in ("numpy", "pydantic")
)


def is_users(filename: str) -> bool:
    """Whether this is a file, or a notebook cell, of the user."""
    # Frames of compiled code name files that do not exist.
    return not filename.startswith(LIBRARIES) and bool(linecache.getlines(filename))


def is_users_class(kind: type) -> bool:
    """Whether a class comes from outside Rookery."""
    return not kind.__module__.startswith("rookery.")


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the user's own code that an exception passed through.

    Installed code counts as the user's if there is no other: a game can be a package.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    return own or [
        frame
        for frame in frames
        if frame.filename.startswith(INSTALLED)
        and not frame.filename.startswith((ROOKERY, *NEVER_A_GAME))
    ]


def place(filename: str, line: int | None) -> str:
    """Return a place for messages: 'coins.py, line 12'."""
    path = Path(filename)
    name = path.name if path.is_file() else "notebook cell"
    return f"{name}, line {line}"


def locate(error: BaseException) -> str:
    """Return an exception in one line, with the line of the user's code it came from."""
    last = (users_frames(error) or traceback.extract_tb(error.__traceback__))[-1]
    return f"{describe(error).rstrip('.')} ({place(last.filename, last.lineno)})"


def explain(
    error: BaseException, subject: str, method: str, owner: str, known: Iterable[str] = ()
) -> str:
    """Return what user code raised, where, and what to do, in one line.

    Args:
        error: what was raised.
        subject: the beginning of the line: "game 'coins'".
        method: that was called; the user's own method replaces it if it is known.
        owner: 'game' or 'player', for errors without a known remedy.
        known: names that the code could have meant.
    """
    frames = users_frames(error)
    if frames and isinstance(error, Advice):
        return f"{place(frames[-1].filename, frames[-1].lineno)}: {error}"
    name = frames[0].name if frames else method
    cure = remedy(error, (frames[-1].line or "") if frames else "", known)
    cure = cure or f"the mistake is in the {owner}"
    end = "" if cure.endswith("?") else "."
    return f"{subject} raised in {name}(): {locate(error)}: {cure}{end}"


def located(error: RookeryError) -> RookeryError:
    """Return one of Rookery's own errors with the line of the user's code that caused it.

    An error that the user's code raised itself, or that names a line, stays as it is.
    """
    frames = users_frames(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    if not frames or frames[-1].filename == last.filename:
        return error
    where = place(frames[-1].filename, frames[-1].lineno)
    text = str(error)
    return error if where in text else type(error)(f"{where}: {text}")


def caller_place() -> str:
    """Return the place in the user's code that is being executed; '' if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if is_users(filename):
            return place(filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def method_place(owner: type, method: str) -> str:
    """Return ' (coins.py, line 12)' for a method of a user's class; '' for any other."""
    function: Callable[..., Any] | None = getattr(owner, method, None)
    code = getattr(function, "__code__", None)
    if code is None or not is_users(code.co_filename):
        return ""
    return f" ({place(code.co_filename, code.co_firstlineno)})"


def method_prefix(owner: type, method: str) -> str:
    """Return 'coins.py, line 12: ' for a method of a user's class; '' for any other."""
    where = method_place(owner, method)
    return f"{where[2:-1]}: " if where else ""

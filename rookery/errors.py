"""The exceptions that Rookery raises on purpose.

    RookeryError            anything a user can fix; the command line prints one line
    ├── ConfigError         a setting, a name or a file that the user gave does not fit
    ├── ArrayFileError      a checkpoint, a recording or an exported agent cannot be used
    ├── GameError           a game broke its contract while being built or played
    ├── AlgorithmError      a user's algorithm or network raised, or broke its contract
    ├── ObservationError    what a trained agent was given to act on does not fit it
    ├── PlayerError         a scripted player does not fit its agent, or broke its contract
    └── ProbeError          a user's probe raised, or did not return numbers by name
    RookeryWarning          a Python warning, in place of the command line's `warning: …`

A few more are defined beside the only code that raises them, such as `NotSaved` in
`runs.session`. A message says in one line what was found, what was expected and what to do.
"""

from __future__ import annotations

import difflib
import errno
import resource
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

KINDS = {str: "text", bool: "True or False", int: "a whole number", float: "a number"}
"""How the kinds of arguments are called in messages."""
LISTED = 16
"""Names listed where none is close."""


class RookeryError(Exception):
    """Something the user can fix."""

    exit_code = 2
    is_on_record = False
    """Whether the process that failed has already logged the traceback."""


class ConfigError(RookeryError):
    """One or more settings, names or files do not fit; `problems` lists them all."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(_joined(problems))


class ArrayFileError(RookeryError):
    """A checkpoint, recording or exported agent is missing, damaged or does not fit."""


class GameError(RookeryError):
    """A game broke its contract."""


class AlgorithmError(RookeryError):
    """A user's algorithm or network raised, or broke its contract."""


class ObservationError(RookeryError):
    """What a trained agent was given to act on is not what it observes."""


class PlayerError(RookeryError):
    """A scripted player does not fit its agent, or broke its contract."""


class ProbeError(RookeryError):
    """A user's probe raised, or did not return numbers by name."""


class RookeryWarning(UserWarning):
    """Something that the user should know, and that does not stop Rookery."""


def warn(line: str) -> None:
    """Warn with the line of the user's code that called Rookery."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(line, RookeryWarning, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in ("rookery", "contextlib")


def checked(name: str, value: Any, *kinds: type) -> Any:
    """Return an argument from Python, if it is of one of these kinds.

    Raises:
        ConfigError: naming the argument, what it is, and what was expected.
    """
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        return value
    expected = " or ".join(KINDS.get(kind, kind.__name__) for kind in kinds)
    text = " ".join(repr(value).split())
    raise ConfigError(f"{name} is {text:.60}, expected {expected}.")


def nearest(name: str, known: Iterable[str], listing: str = "") -> str:
    """Return advice for an unknown name: the closest known name, or the list of them.

    Args:
        name: the unknown name; upper and lower case count as equal.
        known: the known names.
        listing: a command that prints them all, for a list that is too long for a line.
    """
    names = sorted(known)
    by_lower_case = {known_name.lower(): known_name for known_name in reversed(names)}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    if matches:
        return f"did you mean '{by_lower_case[matches[0]]}'?"
    if not names:
        return "there are none."
    if len(names) <= LISTED:
        return f"known are {', '.join(names)}."
    rest = f" (`{listing}` lists all)" if listing else ""
    return f"known are {', '.join(names[:LISTED])}, …{rest}."


def advice(error: OSError) -> str:
    """Return what to do about an error of the system; '' if that is not known."""
    if error.errno != errno.EMFILE:
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"only {limit} files can be open at a time: raise the limit, for example with "
        "`ulimit -n 1024`."
    )


def _joined(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    numbered = " ".join(f"({i}) {text}" for i, text in enumerate(problems, start=1))
    return f"{len(problems)} problems: {numbered}"

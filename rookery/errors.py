"""Every exception Rookery raises on purpose.

    RookeryError            anything a user can put right; the command line prints one line
    ├── ConfigError         a setting, a name or a file the user gave does not fit
    ├── GameError           a game broke its contract while being built or played
    ├── AlgorithmError      a user's own algorithm or network raised, or broke its contract
    ├── PlayerError         a scripted player does not fit its agent, or broke its contract
    └── ProbeError          a user's probe raised, or returned something else than numbers

A message says what was found, what was expected and what to do, in one line.
"""

from __future__ import annotations

import difflib
import errno
import resource
from collections.abc import Iterable, Sequence

LISTED = 16
"""Names shown where none is near."""


class RookeryError(Exception):
    """Something the user can put right."""

    exit_code = 2
    is_on_record = False
    """Whether the process that failed has left its traceback already."""


class ConfigError(RookeryError):
    """One or more settings, names or files do not fit; `problems` lists them all."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(_joined(problems))


class GameError(RookeryError):
    """A game broke its contract."""


class AlgorithmError(RookeryError):
    """A user's own algorithm or network raised, or broke its contract."""


class PlayerError(RookeryError):
    """A scripted player does not fit its agent, or broke its contract."""


class ProbeError(RookeryError):
    """A user's probe raised, or returned something else than numbers by name."""


def nearest(found: str, known: Iterable[str]) -> str:
    """Return advice for an unknown name: the nearest known one, else the list."""
    names = sorted(known)
    match = difflib.get_close_matches(found, names, n=1, cutoff=0.6)
    if match:
        return f"did you mean '{match[0]}'?"
    if not names:
        return "there are none."
    more = ", …" if len(names) > LISTED else ""
    return f"known are {', '.join(names[:LISTED])}{more}."


def advice(error: OSError) -> str:
    """Return what to do about an error of the system; '' if that is not known."""
    if error.errno != errno.EMFILE:
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"{limit} open files are allowed, and more are needed: raise the limit, for "
        "example with `ulimit -n 1024`."
    )


def _joined(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    numbered = " ".join(f"({i}) {text}" for i, text in enumerate(problems, start=1))
    return f"{len(problems)} problems: {numbered}"

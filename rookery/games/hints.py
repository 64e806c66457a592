"""What to do about an exception in a user's game or player.

Python's and numpy's own advice is for code with one value per name. In a game every value
is an array with one entry per world, so the cure is often a different one.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Iterable
from typing import Any

from rookery.errors import nearest
from rookery.plugins import describe_error


class Advice(AttributeError):
    """An error of Rookery's own in users' code, whose message says what to do."""


TRUTH = "truth value of an array"
PER_WORLD = "every array has one entry per world, so use numpy functions and masks"
ADVICE = (
    (
        r"truth value of an array",
        "use where=, np.where or a mask per world instead of if, and & | ~ instead of "
        "and, or, not",
    ),
    (
        r"could not be broadcast|could not broadcast|shape mismatch|broadcasted",
        "arrays of a game have one entry per world, so check the shapes on this line",
    ),
    (
        r"scalar array|length-1 arrays|0-dimensional arrays|only integer scalar",
        f"{PER_WORLD} instead of int(), float(), range() or math",
    ),
    (
        r"boolean mask|boolean index did not match",
        "a mask needs one bool per world, or per world and cell",
    ),
    (
        r"'Observation' object is not subscriptable",
        "what the agent observes is in observation.parts['…']",
    ),
    (r"boolean subtract", "use ^ or & ~, or convert the bools with .astype(float)"),
    (
        r"Cannot cast ufunc",
        "the column's dtype cannot hold the result: declare the column with another "
        "dtype, such as np.float32, or convert with .astype",
    ),
    (
        r"'(str|int)' object has no attribute '(layer|id|char)'",
        "pass the kind itself, such as self.coin, not its name",
    ),
    (
        r"arrays used as indices must be of integer|only integers, slices",
        "cells, agents and actions are whole numbers: check the index on this line",
    ),
    (
        r"is out of bounds for axis",
        "check the index on this line: the first axis of an array is the world, so the "
        "cell of each world is array[np.arange(world.worlds), me.cell]",
    ),
    (
        r"index out of range",
        "check the index on this line: agents, actions, cells and worlds count from 0",
    ),
    (
        r"missing 4 required positional arguments: 'spec'",
        "list the class of the player itself, without brackets",
    ),
    (r"missing \d+ required", "pass what is missing"),
    (r"maximum recursion depth", "a method calls itself without end"),
)
"""Patterns of messages, each with a remedy."""


def describe(error: BaseException) -> str:
    """Return an exception as 'Type: message', without advice that is wrong in a game."""
    if isinstance(error, ValueError) and TRUTH in str(error):
        return "ValueError: an array with one entry per world was used as one truth value"
    return describe_error(error)


def remedy(error: BaseException, line: str, known: Iterable[str] = ()) -> str:
    """Return what to do about an exception; '' if that is not known.

    Args:
        error: what was raised.
        line: the user's line that it came from.
        known: names that the line could have meant, such as labels and actions.
    """
    similar = _similar(error, line, list(known)) or _keyword(error)
    if similar:
        return similar.rstrip(".")
    text = str(error)
    return next((cure for pattern, cure in ADVICE if re.search(pattern, text)), "")


def _similar(error: BaseException, line: str, known: list[str]) -> str:
    """Return advice about a misspelt name."""
    match error:
        case AttributeError(name="settings", obj=obj) if hasattr(obj, "Settings"):
            return "call super().__init__(settings) first, or use declare instead"
        case AttributeError(name=str(name), obj=obj) if obj is not None:
            return _mean(name, [n for n in dir(obj) if not n.startswith("_")])
        case NameError(name=str(name)):
            scopes = (_mean(name, names) for names in _visible(error))
            return next(filter(None, scopes), "")
        case KeyError(args=(str(key),)) if known:
            return nearest(key, known)
        case ValueError() if "not in tuple" in str(error) or "not in list" in str(error):
            words = re.findall(r"[\"']([^\"']+)[\"']", line)
            unknown = [word for word in words if word not in known]
            if known and unknown:
                return f"'{unknown[0]}' is not there: {nearest(unknown[0], known)}"
    return ""


def _keyword(error: BaseException) -> str:
    """Return advice about a misspelt argument of one of Rookery's own functions."""
    pattern = r"(\w+)\.(\w+)\(\) got an unexpected keyword argument '(\w+)'"
    match = re.search(pattern, str(error))
    if not isinstance(error, TypeError) or match is None:
        return ""
    owner, method, name = match.groups()
    kind = getattr(sys.modules.get("rookery.games.gridworld"), owner, None)
    function = getattr(kind, method, None)
    if function is None:
        return ""
    internal = {"self", "id", "place", "name", "kind"}
    return nearest(name, set(inspect.signature(function).parameters) - internal)


def _mean(name: str, names: list[str]) -> str:
    """Return a suggestion only if a name is close."""
    advice = nearest(name, names)
    return advice if advice.startswith("did you mean") else ""


def _visible(error: BaseException) -> list[list[str]]:
    """Return the names that the line which raised could have used, by scope."""
    trace: Any = error.__traceback__
    if trace is None:
        return []
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    return [list(frame.f_locals), list(frame.f_globals), dir(builtins)]

"""Planted bugs, which a comparison with the references must detect.

They are bugs that a reader can overlook, and with which agents still learn, only worse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from typing import Any

import pytest

from tests.references.recording import Differs

CASES = 5
"""Random groups of which at least one must show a bug."""


@dataclass(frozen=True)
class Bug:
    """Wrong code, and the comparison that detects it."""

    compare: Callable[[int], None]
    owner: Any
    name: str
    wrong: Callable[[Any], Any]
    """Takes the right code and returns the wrong one."""
    difference: str
    """What differs first."""


def assert_detected(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug; fail if the comparison misses it, or also fails without it."""
    with monkeypatch.context() as planted:
        wrong = bug.wrong(getattr(bug.owner, bug.name))
        planted.setattr(bug.owner, bug.name, wrong)
        texts = enumerate(differences(bug.compare, case) for case in range(CASES))
        case, text = next(((i, text) for i, text in texts if text), (0, "nothing"))
    assert re.match(bug.difference, text), text
    holds(bug.compare, case)


def differences(compare: Callable[[int], None], case: int) -> str:
    """Return what differs in a random group; '' if nothing does."""
    try:
        compare(case)
    except Differs as difference:
        return str(difference)
    return ""


@cache
def holds(compare: Callable[[int], None], case: int) -> None:
    """Check that a comparison of a random group finds no difference."""
    compare(case)


# Ways to be wrong.


def instead(wrong: Any):
    """Replace it."""
    return lambda right: wrong


def with_arguments(*changes):
    """Change its arguments: one function each; None leaves an argument as it is."""

    def plant(right):
        def wrong(*args, **named):
            padded = [*changes, *[None] * (len(args) - len(changes))]
            pairs = zip(args, padded, strict=True)
            return right(*[arg if to is None else to(arg) for arg, to in pairs], **named)

        return wrong

    return plant


def with_named_arguments(**changes):
    """Change arguments of a compiled loop, or their fields, by name: one function each."""

    def plant(right):
        names = list(signature(right.py_func).parameters)

        def changed(name, argument):
            if name in changes:
                return changes[name](argument)
            mine = [field for field in getattr(argument, "_fields", ()) if field in changes]
            wrong = {field: changes[field](getattr(argument, field)) for field in mine}
            return argument._replace(**wrong) if mine else argument

        def wrong(*args):
            right(*map(changed, names, args))

        return wrong

    return plant


def with_result(**changes):
    """Change fields of its result."""

    def plant(right):
        def wrong(*args, **named):
            result = right(*args, **named)
            changed = {k: to(getattr(result, k)) for k, to in changes.items()}
            return replace(result, **changed)

        return wrong

    return plant

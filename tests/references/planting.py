"""Wrong code, put in place of the right one, which a comparison has to see.

A comparison that no bug can upset would say nothing. The bugs are such as a reader may
overlook, and agents learn all the same, only worse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from tests.references.watching import Differs

CASES = 5
"""Drawn groups of which one at least has to show a bug."""


@dataclass(frozen=True)
class Bug:
    """Wrong code, and which comparison sees it."""

    compare: Callable[[int], None]
    place: Any
    name: str
    wrong: Callable[[Any], Any]
    """Given the right code, returns the wrong one."""
    seen: str
    """What is seen to differ first."""


def see(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug; fail if a comparison does not see it, or fails without it as well."""
    with monkeypatch.context() as planted:
        wrong = bug.wrong(getattr(bug.place, bug.name))
        planted.setattr(bug.place, bug.name, wrong)
        found = (differences(bug.compare, case) for case in range(CASES))
        case, seen = next(((i, one) for i, one in enumerate(found) if one), (0, "nothing"))
    assert re.match(bug.seen, seen), seen
    holds(bug.compare, case)


def differences(compare: Callable[[int], None], case: int) -> str:
    """Return what a comparison says of a drawn group; nothing, if all agrees."""
    try:
        compare(case)
    except Differs as seen:
        return str(seen)
    return ""


@cache
def holds(compare: Callable[[int], None], case: int) -> None:
    """See that a comparison of a drawn group finds no difference."""
    compare(case)


# Ways to be wrong.


def instead(wrong: Any):
    """Put something else in its place."""
    return lambda right: wrong


def given(*changes):
    """Give it other arguments: a change for each; None leaves one as it is."""

    def plant(right):
        def wrong(*args, **named):
            every = [*changes, *[None] * (len(args) - len(changes))]
            pairs = zip(args, every, strict=True)
            return right(*[arg if to is None else to(arg) for arg, to in pairs], **named)

        return wrong

    return plant


def found(**changes):
    """Change fields of what it returns."""

    def plant(right):
        def wrong(*args, **named):
            one = right(*args, **named)
            return replace(one, **{k: to(getattr(one, k)) for k, to in changes.items()})

        return wrong

    return plant

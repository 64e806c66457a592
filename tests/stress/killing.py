"""Killing at every instruction: a child does something, and is killed on its way.

The child is forked, so it shares the memory and the files of whoever asks, and its death
is a real SIGKILL: nothing is flushed, closed or undone. It dies before the instruction of
a given number, counted over all that runs in some modules. Afterwards the one who asked
looks at what is left.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

COMPLETED, FAILED = 0, 1


class Countdown:
    """Counts the instructions of this process, and does something before one of them."""

    def __init__(self, modules: tuple[str, ...], before: Callable[[int], None]) -> None:
        self._modules, self._before = modules, before
        self.count = 0

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Look into frames of the modules that count, and into no others."""
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(self._modules):
            return None
        frame.f_trace_opcodes = True
        return self._trace

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self._before(self.count)
            self.count += 1
        return self._trace


def run_in_child(
    operation: Callable[[], Any], modules: tuple[str, ...], before: Callable[[int], None]
) -> bool:
    """Let a child do something; return whether it was killed on its way."""
    child = os.fork()
    if child == 0:
        _do(operation, Countdown(modules, before))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (COMPLETED, -signal.SIGKILL), f"the child ended with {code}"
    return code != COMPLETED


def _do(operation: Callable[[], Any], countdown: Countdown) -> None:
    """Be the child; whatever happens, nothing of the parent's goes on here."""
    code = FAILED
    try:
        sys.settrace(countdown.enter)
        operation()
        sys.settrace(None)
        code = COMPLETED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def kill_before(
    operation: Callable[[], Any], number: int, modules: tuple[str, ...]
) -> bool:
    """Let a child do something, killed before an instruction; return whether it was."""

    def strike(now: int) -> None:
        if now == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return run_in_child(operation, modules, strike)


class Case(Protocol):
    """Something that is done to what outlives a process, and what must hold after."""

    modules: tuple[str, ...]
    """Beginnings of the names of modules whose instructions count."""

    def put_back(self) -> None:
        """Make everything as it was before."""

    def operation(self) -> None:
        """Do it."""

    def left(self) -> Hashable:
        """Return all that outlives a process."""

    def audit(self, *, killed: bool) -> list[str]:
        """Return what is wrong with what is left; may change it."""


@dataclass
class Found:
    """What came of killing at instructions."""

    kills: int = 0
    states: int = 0
    """How many different things were left."""
    problems: list[str] = field(default_factory=list)


def sweep(case: Case, numbers: Iterable[int] | None = None) -> Found:
    """Kill before every instruction, or some; audit what is left, each of a kind once.

    It ends early where something is wrong, and when a child is not killed any more.
    """
    found, seen = Found(), set()
    for number in itertools.count() if numbers is None else numbers:
        case.put_back()
        killed = kill_before(case.operation, number, case.modules)
        found.kills += killed
        if (key := (killed, case.left())) not in seen:
            seen.add(key)
            told = case.audit(killed=killed)
            found.problems += [f"instruction {number}: {one}" for one in told]
        if found.problems or not killed:
            break
    found.states = len(seen)
    return found


def turning_points(case: Case) -> list[int]:
    """Return the instructions before which something else would be left than before.

    To be killed anywhere from one of these to the next leaves the same. The last number is
    beyond the end.
    """
    reader, writer = os.pipe()
    last: list[Hashable] = [None]

    def look(number: int) -> None:
        if (now := case.left()) != last[0]:
            last[0] = now
            os.write(writer, number.to_bytes(8))

    case.put_back()
    run_in_child(case.operation, case.modules, look)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    points = [int.from_bytes(data[i : i + 8]) for i in range(0, len(data), 8)]
    return [*points, 2**62]

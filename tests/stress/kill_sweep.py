"""Kill a process before every bytecode instruction of an operation, and audit what is left.

The operation runs in a forked child, which shares memory and files with this process. It
is killed by a real SIGKILL: nothing is flushed, closed or undone. Instructions are counted
in the modules that a case names.
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
    """Counts the instructions of this process and calls a function before each."""

    def __init__(self, modules: tuple[str, ...], before: Callable[[int], None]) -> None:
        self._modules, self._before = modules, before
        self.count = 0

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace the frames of the modules that count."""
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
    """Run an operation in a child; return whether the child was killed."""
    child = os.fork()
    if child == 0:
        _be_child(operation, Countdown(modules, before))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (COMPLETED, -signal.SIGKILL), f"the child ended with {code}"
    return code != COMPLETED


def _be_child(operation: Callable[[], Any], countdown: Countdown) -> None:
    """Run the operation and exit, never returning to the code of the parent."""
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
    """Kill a child before an instruction of an operation; return whether it got there."""

    def kill(count: int) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return run_in_child(operation, modules, kill)


class Case(Protocol):
    """An operation on memory or files, and what must hold after a kill."""

    modules: tuple[str, ...]
    """Prefixes of the names of modules whose instructions count."""

    def reset(self) -> None:
        """Restore the state before the operation."""

    def operation(self) -> None:
        """Run the operation."""

    def left(self) -> Hashable:
        """Return everything that outlives a process."""

    def audit(self, *, killed: bool) -> list[str]:
        """Return what is wrong with what is left; can change it."""


@dataclass
class SweepResult:
    """The result of killing at many instructions."""

    kills: int = 0
    states: int = 0
    """How many different states were left behind."""
    problems: list[str] = field(default_factory=list)


def sweep(case: Case, numbers: Iterable[int] | None = None) -> SweepResult:
    """Kill before every instruction, or before some; audit each state that is left once.

    It ends with the first problem, or when the operation completes.
    """
    result, audited = SweepResult(), set()
    for number in itertools.count() if numbers is None else numbers:
        case.reset()
        killed = kill_before(case.operation, number, case.modules)
        result.kills += killed
        if (key := (killed, case.left())) not in audited:
            audited.add(key)
            problems = case.audit(killed=killed)
            result.problems += [f"instruction {number}: {text}" for text in problems]
        if result.problems or not killed:
            break
    result.states = len(audited)
    return result


def turning_points(case: Case) -> list[int]:
    """Return the instructions before which the state that a kill leaves changes.

    A kill anywhere from one of these to the next leaves the same. The last number is beyond
    the end.
    """
    reader, writer = os.pipe()
    last: list[Hashable] = [None]

    def compare(number: int) -> None:
        if (left := case.left()) != last[0]:
            last[0] = left
            os.write(writer, number.to_bytes(8))

    case.reset()
    run_in_child(case.operation, case.modules, compare)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    points = [int.from_bytes(data[i : i + 8]) for i in range(0, len(data), 8)]
    return [*points, 2**62]

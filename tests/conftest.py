"""For all tests: no child process may outlive a test, and slow tests are marked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tiers import is_slow

PROC = Path("/proc")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker("slow")


class Child(NamedTuple):
    pid: int
    started: int  # clock ticks since boot, which tell processes with the same pid apart


@pytest.fixture(autouse=True)
def _no_child_process_left_behind() -> Iterator[None]:
    before = own_children()

    yield

    left = own_children() - before
    commands = [describe(child) for child in sorted(left)]
    for child in left:
        end(child)
    if left:
        reason = "left child processes behind: " + "; ".join(commands)
        pytest.fail(reason, pytrace=False)


def own_children() -> set[Child]:
    """Return the children of this process; costs nothing if there are none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    return find_children(os.getpid())


def find_children(parent: int) -> set[Child]:
    """Return the direct children of a process, including zombies."""
    children = set()
    for name in filter(str.isdigit, os.listdir(PROC)):
        try:
            text = (PROC / name / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        # The command is in parentheses and can itself contain blanks and ')'.
        fields = text.rpartition(")")[2].split()
        if int(fields[1]) == parent:
            children.add(Child(pid=int(name), started=int(fields[19])))
    return children


def describe(child: Child) -> str:
    """Return the process id and command line; a zombie has no command line."""
    try:
        raw = (PROC / str(child.pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raw = b""
    command = raw.replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{child.pid} {command or '(zombie)'}"


def end(child: Child) -> None:
    """Kill and collect a child, so that the tests after this one start clean."""
    try:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return

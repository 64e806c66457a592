"""Processes share counters only: no lock, no queue, no thread."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import PACKAGE as ROOT

LOCKING = {
    "multiprocessing",
    "threading",
    "_thread",
    "queue",
    "concurrent",
    "asyncio",
    "fcntl.flock",
    "fcntl.lockf",
}
FENCE = ("shm/counters.py", "threading")
SIGNALS = {("api/train.py", "threading"), ("api/sweep.py", "threading")}
"""They ask whether this is the main thread, which alone receives signals."""
LEFT_BEHIND = ("sweeps/host.py", "fcntl.flock")
"""Temporary folders of cells, locked so that only those of dead processes are deleted."""
COPYING = ("training/compile_ahead.py", "threading")
"""Asks how many threads there are: a process with several is not copied."""
COMPILED = ("kernels.py", "fcntl.flock")
"""Files of compiled loops, locked while one is loaded or stored; no data passes there."""


def uses(path: Path) -> Iterator[str]:
    """Return what a module imports, and the attributes it uses of imported modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


@pytest.mark.shows("A3", "A6")
def test_nothing_but_the_private_fence_uses_a_lock_or_a_thread() -> None:
    locking = {
        (str(path.relative_to(ROOT)), used)
        for path in ROOT.rglob("*.py")
        for used in uses(path)
        if used in LOCKING
    }

    assert FENCE in locking
    assert locking <= {FENCE, *SIGNALS, COPYING, COMPILED, LEFT_BEHIND}


@pytest.mark.shows("A6")
def test_the_fence_is_a_lock_that_no_other_process_can_see() -> None:
    tree = ast.parse((ROOT / "shm" / "counters.py").read_text())
    used = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "threading"
    ]

    assert used == ["Lock"]

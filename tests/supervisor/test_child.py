"""A child imports what it needs and no more, and is tied to its parent before that."""

from __future__ import annotations

import gc
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from rookery.supervisor import child

ONLY_FOR_MAIN = {
    "PIL",
    "gymnasium",
    "pandas",
    "pettingzoo",
    "rich",
    "tensorboard",
    "typer",
}


def output_of(code: str) -> str:
    """Return what a new interpreter prints."""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return process.stdout


@pytest.mark.processes
def test_a_child_imports_nothing_heavy_before_it_is_tied_to_its_parent() -> None:
    printed = output_of(
        "import sys, rookery.supervisor.child\n"
        "print([name for name in ('numpy', 'torch', 'pydantic') if name in sys.modules])"
    )

    assert printed.strip() == "[]"


def test_children_import_nothing_that_only_main_needs() -> None:
    printed = output_of(
        "import sys, rookery.actor.process, rookery.learner.process; "
        "from rookery.games.registry import find; find('treasurehunt'); "
        "print(*{x.split('.')[0] for x in sys.modules}, 'torch._dynamo' in sys.modules)"
    )

    *imported, has_compiler = printed.split()
    assert not ONLY_FOR_MAIN & set(imported)
    assert has_compiler == "False"


def test_imported_modules_are_not_searched_for_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def work(spec: Any, memory: Any) -> None:
        seen.update(is_on=gc.isenabled(), frozen=gc.get_freeze_count())
        seen.update(spec=spec, memory=memory)

    module = ModuleType("some_role")
    module.work = work  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_role", module)

    try:
        child.run({"module": "some_role", "function": "work", "spec": 7, "memory": {}})
    finally:
        gc.unfreeze()

    assert seen["is_on"]
    assert seen["frozen"] > 0
    assert (seen["spec"], seen["memory"]) == (7, {})

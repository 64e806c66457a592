"""A child loads what it needs and no more, and wastes no time on what it has loaded."""

from __future__ import annotations

import gc
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from rookery.supervisor import child as entry

NEEDLESS = {"PIL", "gymnasium", "pandas", "pettingzoo", "rich", "tensorboard", "typer"}


def test_children_load_nothing_that_only_main_needs() -> None:
    code = (
        "import sys, rookery.actor.process, rookery.learner.process; "
        "from rookery.games.registry import find; find('treasurehunt'); "
        "print(*{x.split('.')[0] for x in sys.modules}, 'torch._dynamo' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    *loaded, has_compiler = done.stdout.split()
    assert not NEEDLESS & set(loaded)
    assert has_compiler == "False"


def test_what_was_loaded_is_not_searched_for_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def work(process_spec: Any, memory: Any) -> None:
        seen.update(
            is_on=gc.isenabled(), frozen=gc.get_freeze_count(), process_spec=process_spec
        )

    module = ModuleType("some_role")
    module.work = work  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "some_role", module)
    monkeypatch.setitem(entry.CODE, "some", ("some_role", "work"))

    try:
        entry.run({"kind": "some", "brief": 7, "memory": {}})
    finally:
        gc.unfreeze()

    assert seen["is_on"]
    assert seen["frozen"] > 0
    assert seen["brief"] == 7

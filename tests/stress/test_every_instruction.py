"""SIGKILL before every instruction of a commit, a publication and a checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT
from tests.stress import checkpoint_sweep as checkpoints
from tests.stress import memory_sweep as memory

pytestmark = pytest.mark.processes


def sweep(module: str, *arguments: object) -> dict[str, Any]:
    """Return the result of a sweep; it runs in a separate process, which forks quickly."""
    command = [sys.executable, "-m", f"tests.stress.{module}_sweep", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def names(cases: tuple[type, ...]) -> list[str]:
    return [case.__name__ for case in cases]


@pytest.mark.shows("B2")
@pytest.mark.parametrize("case", names(memory.SOUND))
def test_a_process_killed_at_any_instruction_leaves_memory_whole(case: str) -> None:
    result = sweep("memory", case)

    assert result["problems"] == []
    assert result["kills"] > 300
    assert result["states"] > 5


@pytest.mark.parametrize("case", names(memory.PLANTED))
def test_a_wrong_order_in_memory_is_found(case: str) -> None:
    assert sweep("memory", case)["problems"]


@pytest.mark.shows("F4")
@pytest.mark.parametrize("case", names(checkpoints.SOUND))
def test_saving_killed_at_any_instruction_leaves_a_whole_checkpoint(
    case: str, tmp_path: Path
) -> None:
    result = sweep("checkpoint", case, tmp_path)

    assert result["problems"] == []
    assert result["kills"] > 500
    assert result["states"] > 9


@pytest.mark.parametrize("case", names(checkpoints.PLANTED))
def test_a_wrong_order_of_saving_is_found(case: str, tmp_path: Path) -> None:
    assert sweep("checkpoint", case, tmp_path)["problems"]

"""A short version of the chaos: real kills of real processes, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.paths import EXPERIMENTS

CHAOS = EXPERIMENTS / "chaos.py"

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def chaos(folder: Path, **asked: int) -> tuple[dict[str, Any], int]:
    """Return what the benchmark wrote, and its exit code."""
    out = folder / "chaos.json"
    words = [word for key, value in asked.items() for word in (f"--{key}", str(value))]
    done = subprocess.run(
        [sys.executable, str(CHAOS), "--out", str(out), *words],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    print(done.stdout, done.stderr)
    return json.loads(out.read_text()), done.returncode


@pytest.mark.shows("F1", "F2", "B2")
def test_forty_kills_of_actor_and_workers_change_not_one_bit(tmp_path: Path) -> None:
    found, code = chaos(tmp_path, kills=40, stops=1, mains=0, rounds=100)

    (account,) = found["runs"].values()
    assert account["kills"] >= 40
    assert account["digest"] == found["wanted"]
    assert (account["hangs"], account["doubled"], account["missing"]) == (0, 0, 0)
    assert code == 0


@pytest.mark.shows("F4", "F5")
def test_a_run_whose_main_is_killed_and_resumed_ends_with_the_same_bits(
    tmp_path: Path,
) -> None:
    found, code = chaos(tmp_path, kills=0, stops=0, mains=4, rounds=40)

    assert list(found["runs"]) == ["main, storage=disk", "main, storage=memory"]
    for account in found["runs"].values():
        assert account["kills"] == 2
        assert account["digest"] == found["wanted"]
    assert code == 0

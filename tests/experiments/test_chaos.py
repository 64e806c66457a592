"""A short run of chaos.py: real processes are killed, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.paths import EXPERIMENTS

CHAOS = EXPERIMENTS / "chaos.py"

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def chaos(folder: Path, **options: int) -> tuple[dict[str, Any], int]:
    """Run the script; return what it wrote, and its exit code."""
    out = folder / "chaos.json"
    arguments = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(
        [sys.executable, str(CHAOS), "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    print(done.stdout, done.stderr)
    return json.loads(out.read_text()), done.returncode


@pytest.mark.shows("F1", "F2", "B2")
def test_forty_kills_of_actor_and_workers_do_not_change_a_bit(tmp_path: Path) -> None:
    report, code = chaos(tmp_path, kills=40, stops=1, mains=0, rounds=100)

    (account,) = report["runs"].values()
    assert account["kills"] >= 40
    assert account["digest"] == report["wanted"]
    assert (account["hangs"], account["doubled"], account["missing"]) == (0, 0, 0)
    assert code == 0


@pytest.mark.shows("F4", "F5")
def test_a_run_whose_main_is_killed_and_resumed_ends_with_the_same_bits(
    tmp_path: Path,
) -> None:
    report, code = chaos(tmp_path, kills=0, stops=0, mains=4, rounds=40)

    assert list(report["runs"]) == ["main, storage=disk", "main, storage=memory"]
    for account in report["runs"].values():
        assert account["kills"] == 2
        assert account["digest"] == report["wanted"]
    assert code == 0

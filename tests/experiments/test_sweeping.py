"""A short run of sweeping.py: processes of a sweep are killed, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import EXPERIMENTS

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.mark.shows("E9")
def test_kills_of_cells_workers_and_the_sweep_do_not_change_a_bit(tmp_path: Path) -> None:
    out = tmp_path / "sweeping.json"
    options = ["--kills=6", "--seeds=1", "--rounds=60", f"--out={out}"]

    done = subprocess.run(
        [sys.executable, str(EXPERIMENTS / "sweeping.py"), *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )

    print(done.stdout, done.stderr)
    account = json.loads(out.read_text())["sweep"]
    kills = sum(account["kills"].values())
    assert kills == 6
    assert (account["cells"], account["done"], account["rows"]) == (4, 4, 4)
    assert account["different"] == []
    assert (account["doubled"], account["missing"]) == (0, 0)
    assert account["again"] <= 5 * kills
    assert done.returncode == 0

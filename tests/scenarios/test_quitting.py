"""User code that calls exit() is reported like any other error in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.small import SMALL, overrides

pytestmark = pytest.mark.processes

QUITS = "raise SystemExit(7)"
PROBE = f"def ask(players, game):\n    {QUITS}\n"
GAME = f"""
from rookery.games import gridworld as grid

class Quitter(grid.GridGame):
    map = "PPP..."

    def declare(self):
        self.picker = grid.Body(grid.MOVES, sees={{"view": grid.Window(1)}})

    def begin_round(self, number):
        {QUITS}
"""
IMPORTED = f"import numpy\n{QUITS}\n"


@pytest.mark.parametrize(
    ("code", "command", "line"),
    [
        (
            PROBE,
            ["treasurehunt", "probe.code=./mine.py:ask"],
            "error: the probe ./mine.py:ask raised SystemExit: 7 (line 2) (after round 0).",
        ),
        (
            GAME,
            ["./mine.py:Quitter"],
            "error: game './mine.py:Quitter' raised in begin_round(): SystemExit: 7 "
            "(mine.py, line 11): the mistake is in the game.",
        ),
        (
            IMPORTED,
            ["./mine.py:Quitter"],
            "error: 'mine.py' could not be imported (line 2): SystemExit: 7",
        ),
    ],
    ids=["a probe", "a game", "at import"],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_code_that_calls_exit_is_reported_and_does_not_set_the_exit_code(
    code: str, command: list[str], line: str, workers: int, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(code)
    settings = overrides(SMALL | {"rounds": 2, "workers": workers})

    done = subprocess.run(
        [sys.executable, "-m", "rookery", "train", *command, *settings],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == line

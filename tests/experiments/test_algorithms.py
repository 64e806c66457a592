"""The scripts about algorithms: small runs, shown and written down."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def test_lag_compares_schedules_seed_by_seed(
    load: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script, out = load("lag"), tmp_path / "lag.json"
    words = ["--seeds=2", "--rounds=4", "--schedules=sync,pipelined", f"--out={out}"]
    monkeypatch.setattr(sys, "argv", ["lag.py", *words])
    small = {"turns_per_round": 10, "worlds": 2, "game.turns": 8, "game.agents": 1}
    monkeypatch.setattr(script, "SETTINGS", small)

    script.main()

    found = [
        (one["algorithm"], one["schedule"], one["seed"])
        for one in json.loads(out.read_text())
    ]
    assert found == [
        (algorithm, schedule, seed)
        for seed in range(2)
        for algorithm in ("ppo", "vtrace")
        for schedule in ("sync", "pipelined")
    ]
    assert "pipelined" in capsys.readouterr().out

"""The scripts about algorithms, with small runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.small import HUNT


def test_lag_compares_schedules_seed_by_seed(
    load: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script, out = load("lag"), tmp_path / "lag.json"
    arguments = ["--seeds=2", "--rounds=4", "--schedules=sync,pipelined", f"--out={out}"]
    monkeypatch.setattr(sys, "argv", ["lag.py", *arguments])
    settings = {key: value for key, value in HUNT.items() if key != "rounds"}
    monkeypatch.setattr(script, "SETTINGS", {**settings, "game.agents": 1})

    script.main()

    runs = [
        (run["algorithm"], run["schedule"], run["seed"])
        for run in json.loads(out.read_text())
    ]
    assert runs == [
        (algorithm, schedule, seed)
        for seed in range(2)
        for algorithm in ("ppo", "vtrace")
        for schedule in ("sync", "pipelined")
    ]
    assert "pipelined" in capsys.readouterr().out

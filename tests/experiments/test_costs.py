"""Scripts that measure run, and leave ratios; how large these are is not tested."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.processes
Load = Callable[[str], ModuleType]


def run(
    script: ModuleType, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Run a script with some words; return what it left."""
    out = folder / "figures.json"
    monkeypatch.setattr(sys, "argv", ["script", *words.split(), "--out", str(out)])
    script.main()
    found: dict[str, Any] = json.loads(out.read_text())
    assert all(ratio > 0 for ratio in found["ratios"].values())
    return found


def test_scale_compares_companies_with_the_reference(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = load("scale")
    small = script.Sizes((1,), (1, 2), 1, width=8, turns=5, updates=1, rounds=1, repeats=1)
    weighed = json.dumps(script.weigh(small, 1))  # here, as a process more takes seconds
    answer = CompletedProcess((), 0, weighed)
    monkeypatch.setattr(script.subprocess, "run", lambda *_, **__: answer)
    words = "--agents 1 --worlds 1 2 --reference 1 --width 8 --turns 5 --updates 1"

    found = run(script, f"{words} --rounds 1 --repeats 1", tmp_path, monkeypatch)

    assert set(found["ratios"]) == {
        "memory, 1 agents, without replays / 1.5 GB",
        "one process: an update, 1 agents / 1",
        "2 workers: an update, 1 agents / 1",
        "a step, 1 agents: 2 worlds / 1",
    }
    assert set(found["steps"]["1"]) == {"1", "2"}
    assert "| agents | 1 worlds | 2 worlds |" in capsys.readouterr().out


def test_startup_compares_a_crew_with_bare_processes(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("startup")
    monkeypatch.setattr(script, "BARE", "import os; os.write(1, b'.')")
    monkeypatch.setattr(script, "CODE", {"worker": "rookery.errors"})

    found = run(script, "--workers 1 --repeats 1", tmp_path, monkeypatch)

    assert set(found["ratios"]) == {
        "2 processes: crew / import torch",
        "2 processes: crew / import torch, without ending",
        "2 processes: crew / import torch, processor time",
        "worker: all imports / those of torch",
    }
    assert any("worker: importing" in name for name in found["figures"])


def test_waiting_compares_other_ways_with_the_futex(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(load("waiting"), "--times 5 --seconds 0.05", tmp_path, monkeypatch)

    ways = ("pipe", "eventfd", "sleeping 0.1 ms", "sleeping 1 ms")
    assert set(found["ratios"]) == {
        f"wake-up, {kind}: {way} / futex" for way in ways for kind in ("median", "p99")
    }
    assert "futex: processor time of waiting" in found["figures"]

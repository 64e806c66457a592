"""Scripts that measure costs run and write ratios; their values are not tested."""

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
    script: ModuleType, arguments: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Run a script; return what it wrote."""
    out = folder / "report.json"
    monkeypatch.setattr(sys, "argv", ["script", *arguments.split(), "--out", str(out)])
    script.main()
    report: dict[str, Any] = json.loads(out.read_text())
    assert all(ratio > 0 for ratio in report["ratios"].values())
    return report


def test_scale_compares_numbers_of_agents_with_the_reference(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = load("scale")
    small = script.Sizes((1,), (1, 2), 1, width=8, turns=5, updates=1, rounds=1, repeats=1)
    memory = json.dumps(script.weigh(small, 1))  # here, since a new process is slow
    answer = CompletedProcess((), 0, memory)
    monkeypatch.setattr(script.subprocess, "run", lambda *_, **__: answer)
    arguments = "--agents 1 --worlds 1 2 --reference 1 --width 8 --turns 5 --updates 1"

    report = run(script, f"{arguments} --rounds 1 --repeats 1", tmp_path, monkeypatch)

    assert set(report["ratios"]) == {
        "memory, 1 agents, without replays / 1.5 GB",
        "one process: an update, 1 agents / 1",
        "2 workers: an update, 1 agents / 1",
        "a step, 1 agents: 2 worlds / 1",
    }
    assert set(report["steps"]["1"]) == {"1", "2"}
    assert "| agents | 1 worlds | 2 worlds |" in capsys.readouterr().out


def test_startup_compares_a_process_pool_with_bare_processes(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("startup")
    monkeypatch.setattr(script, "BARE", "import os; os.write(1, b'.')")
    monkeypatch.setattr(script, "CODE", {"worker": "rookery.errors"})

    report = run(script, "--workers 1 --repeats 1", tmp_path, monkeypatch)

    assert set(report["ratios"]) == {
        "2 processes: pool / import torch",
        "2 processes: pool / import torch, without ending",
        "2 processes: pool / import torch, processor time",
        "worker: all imports / those of torch",
    }
    assert any("worker: importing" in name for name in report["figures"])


def test_waiting_compares_other_methods_with_the_futex(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run(load("waiting"), "--times 5 --seconds 0.05", tmp_path, monkeypatch)

    methods = ("pipe", "eventfd", "sleeping 0.1 ms", "sleeping 1 ms")
    assert set(report["ratios"]) == {
        f"wake-up, {kind}: {method} / futex"
        for method in methods
        for kind in ("median", "p99")
    }
    assert "futex: processor time of waiting" in report["figures"]

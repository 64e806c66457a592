"""The benchmark of foreign games finds a good one good, and a leaky one not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Load = Callable[[str], ModuleType]


def findings(
    script: ModuleType, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Run the script for one game in one process; return what it found."""
    out = folder / "found.json"
    words = ["script", "--games", name, "--no-workers", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        script.main()
    found: dict[str, Any] = json.loads(out.read_text())[name]
    assert bool(left.value.code) != found["good"]
    return found


def test_a_game_that_conforms_and_trains_is_good(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = findings(load("conformance"), "relay", tmp_path, monkeypatch)

    assert found["good"]
    assert (found["passed"], found["failed"]) == (6, [])
    assert (found["sync"], found["pipelined"]) == ("trains", "trains")


def test_a_game_that_remembers_the_last_episode_is_not(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("conformance")
    leaky = ("leaky", f"pettingzoo:{script.FILES / 'zoo.py'}:leaky", {})
    monkeypatch.setitem(script.GAMES, "leaky", leaky)

    found = findings(script, "leaky", tmp_path, monkeypatch)

    assert not found["good"]
    assert any("After restoring a snapshot" in line for line in found["failed"])

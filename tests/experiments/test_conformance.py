"""conformance.py passes a sound game and fails a leaky one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Load = Callable[[str], ModuleType]


def result_of(
    script: ModuleType, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Run the script for one game in one process; return its result."""
    out = folder / "results.json"
    arguments = ["script", "--games", name, "--no-workers", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as left:
        script.main()
    result: dict[str, Any] = json.loads(out.read_text())[name]
    assert bool(left.value.code) != result["good"]
    return result


def test_a_game_that_conforms_and_trains_passes(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = result_of(load("conformance"), "relay", tmp_path, monkeypatch)

    assert result["good"]
    assert (result["passed"], result["failed"]) == (9, [])
    assert (result["sync"], result["pipelined"]) == ("trains", "trains")


def test_a_game_that_remembers_the_last_episode_fails(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load("conformance")
    leaky = ("leaky", f"pettingzoo:{script.FILES / 'zoo.py'}:leaky", {})
    monkeypatch.setitem(script.GAMES, "leaky", leaky)

    result = result_of(script, "leaky", tmp_path, monkeypatch)

    assert not result["good"]
    assert any("After restoring a snapshot" in line for line in result["failed"])

"""A few cases of drawn.py, in a separate process.

The script forks, which a process that has used autograd cannot do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rookery.algorithms.agents import build_agents, check_agents
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from tests.paths import EXPERIMENTS

SCRIPT = EXPERIMENTS / "drawn.py"
pytestmark = pytest.mark.timeout(300)


def drawn(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.processes
@pytest.mark.shows("A2", "A7", "F4", "F6")
@pytest.mark.parametrize("first", [0, 18])
def test_drawn_runs_are_the_same_however_they_are_computed_killed_and_resumed(
    first: int, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"

    done = drawn("--first", first, "--cases", 8, "--jobs", 1, "--thorough", "--out", report)

    assert done.returncode == 0, done.stdout + done.stderr
    trials: list[dict[str, Any]] = json.loads(report.read_text())
    notes = sum((Counter(trial["notes"]) for trial in trials), Counter())
    assert len(trials) == 8
    for event in (
        "compared",
        "made updates",
        "killed main",
        "killed a process of the run",
        "edited config.toml",
        "altered agents",
    ):
        assert notes[event], f"{event}: {notes}"


@pytest.mark.processes
@pytest.mark.shows("B12")
def test_a_damaged_row_of_a_killed_run_is_refused_until_it_is_repaired() -> None:
    case = "rookery train treasurehunt rounds=60 storage=disk game.agents=2 worlds=1"

    done = drawn("--line", case, "--thorough")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "'damaged a row': " in done.stdout


@pytest.mark.processes
def test_cases_that_failed_before_do_not_fail_again() -> None:
    done = drawn("--found", "--jobs", 1)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("plant", ["one clip for a group", "a row hash left out"])
def test_a_planted_bug_is_found(plant: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"

    done = drawn("--plant", plant, "--cases", 20, "--jobs", 1, "--out", report)

    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(report.read_text())
    assert result["case"] is not None
    found_by = ("digest", "row hash", "independence")
    assert any(check in result["problem"] for check in found_by), result["problem"]


@pytest.fixture
def cases(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("drawn_cases")


def test_drawn_configurations_are_legal(cases: ModuleType) -> None:
    for number in range(200):
        case = cases.draw_case(number)
        entry, config = configure(case.game, case.overrides)
        check_agents(build_agents(config, agents_of(entry, config)), config.worlds)


def test_a_number_always_draws_the_same_case(cases: ModuleType) -> None:
    assert cases.draw_case(7) == cases.draw_case(7)
    assert cases.draw_case(7) != cases.draw_case(8)


def test_a_smaller_case_is_the_same_with_fewer_settings(cases: ModuleType) -> None:
    case = cases.draw_case(3)

    for smaller in case.smaller():
        assert smaller.settings.items() < case.settings.items()
        assert smaller.game == case.game

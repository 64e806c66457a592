"""learning_before_after.py compares two versions of the code by what their agents learn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.paths import ROOT

TINY = ("--parts", "treasurehunt", "--seeds=2", "--rounds=1", "--episodes=1")


@pytest.fixture
def script(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("learning_before_after")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout with the same code and another commit."""
    folder = tmp_path_factory.mktemp("checkout") / "before"
    git("clone", "--quiet", "--shared", str(ROOT), str(folder))
    author = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    git("-C", str(folder), *author, "commit", "--quiet", "--allow-empty", "-m", "Before")
    return folder


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_both_versions_are_trained_and_finished_runs_are_not_repeated(
    script: ModuleType, checkout: Path, tmp_path: Path
) -> None:
    before, after = (script.commit_of(folder) for folder in (checkout, ROOT))
    names = {"part": "treasurehunt", "rounds": 1, "episodes": 1}
    lines = [
        names | {"commit": commit, "seed": seed, "score": 10.0, "random": 0.0}
        for commit, seed in ((before, 0), (after, 0), (before, 1))
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "runs.jsonl").write_text(text)

    done = run(script, "--before", str(checkout), "--out", str(tmp_path), *TINY)

    assert done.returncode == 0, done.stderr
    results = (tmp_path / "runs.jsonl").read_text()
    assert results.startswith(text)
    (new,) = map(json.loads, results[len(text) :].splitlines())
    assert (new["commit"], new["seed"]) == (after, 1)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["commits"] == {"before": before, "after": after}
    assert report["parts"]["treasurehunt"]["before"] == [10.0, 10.0]
    assert report["parts"]["treasurehunt"]["after"] == [10.0, new["score"]]


def test_a_folder_without_the_code_is_refused(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        script.commit_of(tmp_path)

    message = str(caught.value)
    assert f"expected {tmp_path}/rookery/__init__.py" in message
    assert message.endswith("--before must be the folder of a checkout.")


def test_a_version_is_not_compared_with_itself(script: ModuleType, tmp_path: Path) -> None:
    done = run(script, "--before", str(ROOT), "--out", str(tmp_path), *TINY)

    assert done.returncode == 1
    assert "nothing to compare" in done.stderr


@pytest.mark.parametrize(
    ("loss", "holds"), [(0.0, True), (0.02, True), (0.06, False)], ids=str
)
def test_a_loss_beyond_what_is_tolerated_is_found(
    script: ModuleType, loss: float, holds: bool
) -> None:
    before = [{"score": 100.0 + seed % 5, "random": 0.0} for seed in range(20)]
    after = [{"score": (1 - loss) * run["score"], "random": 0.0} for run in before]

    result = script.compare(script.PARTS["treasurehunt"], before, after)

    assert result["difference"] == pytest.approx(-loss)
    assert result["lower_bound"] < -loss
    assert result["holds"] is holds


def test_with_a_goal_differences_are_shares_of_the_way_from_random_to_it(
    script: ModuleType,
) -> None:
    part = script.PARTS["spread, dqn"]
    before = [{"score": -10.0, "random": -26.3}] * 5
    after = [{"score": -11.0, "random": -26.3}] * 5

    result = script.compare(part, before, after)

    assert part.goal == -11.3
    assert result["difference"] == pytest.approx(-1 / 15)
    assert result["holds"] is True


def test_the_demo_is_the_one_of_the_makefile(script: ModuleType) -> None:
    rounds = script.PARTS["demo"].settings["rounds"]

    assert f"DEMO_ROUNDS ?= {rounds}\n" in (ROOT / "Makefile").read_text()


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def run(script: ModuleType, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a process of its own."""
    assert script.__file__ is not None
    command = [sys.executable, script.__file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)

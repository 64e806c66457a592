"""learning.py compares schedules over the seeds that all of them have finished."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

SCORES = {"sync": [100.0, 110.0], "pipelined": [101.0, 112.0], "async": [90.0, 80.0]}


ARGUMENTS = ("--seeds=2", "--rounds=1", "--episodes=1", "--stag-seeds=2", "--stag-rounds=9")


@pytest.fixture
def script(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("learning")


@pytest.mark.processes
def test_finished_runs_are_not_repeated_and_the_others_run(
    script: ModuleType, tmp_path: Path
) -> None:
    lines = [
        {**asdict(job), "score": SCORES[job.schedule][job.seed], "stag": 1.0, "seconds": 1}
        for part, sizes in (("hunt", (2, 1, 1)), ("stag", (2, 9, 8)))
        for batch in script.batches(part, script.Sizes(*sizes))
        for job in batch
    ]
    assert (lines[-1]["part"], lines[-1]["schedule"]) == ("stag", "async")
    text = "".join(json.dumps(line) + "\n" for line in lines[:-1])
    (tmp_path / "runs.jsonl").write_text(text)

    run(script, tmp_path, *ARGUMENTS)

    after = (tmp_path / "runs.jsonl").read_text()
    assert after.startswith(text)
    (new,) = map(json.loads, after[len(text) :].splitlines())
    assert (new["part"], new["schedule"], new["seed"]) == ("stag", "async", 1)
    assert 0 <= new["stag"] <= 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["hunt"]["differences"]["pipelined - sync"]["holds"] is True
    assert report["stag"]["schedules"]["sync"]["stag"] == 2


@pytest.mark.processes
def test_when_time_is_up_no_run_is_started(script: ModuleType, tmp_path: Path) -> None:
    output = run(script, tmp_path, *ARGUMENTS, "--seconds=-1")

    assert "time is up: 8 batches are left" in output
    assert (tmp_path / "runs.jsonl").read_text() == ""


def test_only_seeds_that_every_schedule_has_finished_count(script: ModuleType) -> None:
    sizes = script.Sizes(2, 1, 1)
    jobs = [job for batch in script.batches("hunt", sizes) for job in batch]
    finished = {job: {"score": SCORES[job.schedule][job.seed]} for job in jobs[:-1]}

    scores = script.scores_of(finished, "hunt", sizes, "score")

    assert scores == {"sync": {0: 100.0}, "pipelined": {0: 101.0}, "async": {0: 90.0}}


def test_a_run_whose_line_was_cut_off_runs_again(
    script: ModuleType, tmp_path: Path
) -> None:
    job = script.Job("hunt", "sync", 0, 1, 1)
    path = tmp_path / "runs.jsonl"
    whole = json.dumps({**asdict(job), "score": 1.0}) + "\n"
    path.write_text(whole + '{"part": "hu')

    assert list(script.read_finished(path)) == [job]
    assert path.read_text() == whole


def test_a_schedule_with_a_much_lower_score_does_not_hold(script: ModuleType) -> None:
    scores = {name: dict(enumerate(own)) for name, own in SCORES.items()}

    report = script.compare_scores(scores)

    assert report["schedules"]["sync"]["iqm"] == 105.0
    assert report["differences"]["pipelined - sync"]["holds"] is True
    assert report["differences"]["async - sync"]["holds"] is False


def test_shares_that_differ_significantly_do_not_hold(script: ModuleType) -> None:
    shares = {
        "sync": {seed: 1.0 for seed in range(30)},
        "pipelined": {seed: float(seed > 0) for seed in range(30)},
        "async": {seed: float(seed > 20) for seed in range(30)},
    }

    report = script.compare_shares(shares)

    assert report["schedules"]["pipelined"]["stag"] == 29
    assert report["differences"]["pipelined - sync"]["holds"] is True
    assert report["differences"]["async - sync"]["holds"] is False


def run(script: ModuleType, out: Path, *arguments: str) -> str:
    """Run the script in a separate process, since its pool would leave one in ours."""
    command = [sys.executable, str(script.__file__), "--out", str(out), *arguments]
    done = subprocess.run(
        command, check=True, timeout=100, stdout=subprocess.PIPE, text=True
    )
    return done.stdout

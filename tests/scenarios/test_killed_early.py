"""Runs killed before their first checkpoint or before a seed has started."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rookery
from rookery.runs.claim import Claim
from tests.scenarios.conftest import PATIENCE, wait_for
from tests.small import HUNT, overrides
from tests.stress.kill_main import Victim

pytestmark = pytest.mark.processes

EARLY = {**HUNT, "rounds": 20, "evaluate.every_rounds": 5}
FEW = {**HUNT, "rounds": 8}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rookery", *arguments]


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    folder = tmp_path / "run"
    train = ["train", "treasurehunt", "workers=0", *overrides(EARLY), "--run", str(folder)]
    victim = Victim(folder, train)
    yield victim
    victim.close()


@pytest.mark.shows("F4")
def test_a_run_killed_before_its_first_checkpoint_starts_again_with_the_same_bits(
    victim: Victim, reference_digest: Callable[..., str]
) -> None:
    victim.start()
    victim.wait_until(lambda: victim.can_resume)  # its first second
    victim.kill("before the first round")
    victim.start()
    victim.await_rounds(6)
    victim.kill("before the first checkpoint")

    ended = subprocess.run(
        command("resume", str(victim.folder)), capture_output=True, text=True
    )

    assert ended.returncode == 0
    assert "no checkpoint yet: starting again from round 0." in ended.stderr
    digest = rookery.Run(victim.folder).digest()
    assert digest["run"] == reference_digest("treasurehunt", **EARLY)
    assert digest["exact"]
    assert victim.rounds == list(range(1, 21))
    evaluated = [line["round"] for line in victim.lines("evaluations.jsonl")]
    assert evaluated == sorted([*range(5, 21, 5)] * 2)


def test_resuming_a_folder_without_a_run_says_to_train_again(tmp_path: Path) -> None:
    ended = subprocess.run(command("resume", str(tmp_path)), capture_output=True, text=True)

    assert ended.returncode == 2
    assert "was killed here before it started, delete the folder and train" in ended.stderr


@pytest.mark.shows("F4")
def test_seeds_that_had_not_started_start_when_the_batch_is_resumed(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    batch = tmp_path / "many"
    arguments = [*overrides(FEW), "seeds=0..2", "--run", str(batch)]
    process = subprocess.Popen(
        command("train", "treasurehunt", *arguments), stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: [*batch.glob("seed-*/metrics.jsonl")])
    finally:
        process.kill()
        process.wait()
    for seed in batch.glob("seed-*"):
        _await_release(seed)
    begun = {path.parent.name for path in batch.glob("seed-*/config.toml")}
    assert len(begun) < 3

    ended = subprocess.run(command("resume", str(batch)), capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    missing = [str(i) for i in range(3) if f"seed-{i}" not in begun]
    assert f"starting the remaining seeds: {', '.join(missing)}\n" in ended.stderr
    assert "(3 of 3)" in ended.stderr
    for i in range(3):
        digest = rookery.Run(batch / f"seed-{i}").digest()
        assert digest["run"] == reference_digest("treasurehunt", **FEW, seed=i)
        assert digest["exact"]


def _await_release(folder: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return Claim(folder).close()
        except rookery.ConfigError:
            time.sleep(0.01)
    raise AssertionError(f"{folder} is still in use")


def test_a_batch_without_a_plan_resumes_the_seeds_it_finds(
    tmp_path: Path,
) -> None:
    for seed in (1, 4):
        folder = tmp_path / "many" / f"seed-{seed}"
        rookery.train("treasurehunt", run=folder, seed=seed, workers=0, **FEW)

    ended = subprocess.run(
        command("resume", str(tmp_path / "many"), "--json"), capture_output=True, text=True
    )

    assert set(json.loads(ended.stdout)["seeds"]) == {"1", "4"}
    assert "has no sweep.json, so some seeds may never have started" in ended.stderr


@pytest.mark.parametrize("change", ["deleted", "renamed"])
def test_a_run_whose_folder_disappears_ends_with_one_error_and_leaves_nothing_behind(
    change: str, tmp_path: Path
) -> None:
    folder, other = tmp_path / "run", tmp_path / "moved"
    arguments = [
        *overrides({**EARLY, "rounds": 100_000}),
        "workers=0",
        "--run",
        str(folder),
    ]
    process = subprocess.Popen(
        command("train", "treasurehunt", *arguments), stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: (folder / "metrics.jsonl").exists())
        folder.rename(other)  # in one step, which deleting is not
        if change == "deleted":
            subprocess.run(["rm", "-r", str(other)], check=True)
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 2
    assert [x for x in said.splitlines() if x.startswith("error: ")] == said.splitlines()[
        -1:
    ]
    assert f"{folder} was deleted or renamed during the run" in said
    assert not folder.exists()
    if change == "renamed":
        assert said.endswith(f"rookery resume {other}\n")
        assert (other / "config.toml").exists()

"""A sweep on a real Slurm cluster, which the test starts for itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rookery
from rookery.api.sweep import status_of
from rookery.runs.log import METRICS, read_lines
from rookery.sweeps.plan import Named, Plan
from rookery.sweeps.slurm import Option, Refused, submit
from tests.scenarios.conftest import wait_for
from tests.small import SMALL, overrides
from tests.sweeps.conftest import FIELD, digest_of

TIMEOUT = 300
pytestmark = [pytest.mark.processes, pytest.mark.timeout(TIMEOUT)]

# While the game is slow, a round takes a second: no machine gets to the last one in time.
SETTINGS = {**SMALL, "rounds": TIMEOUT + 1, "workers": 0, "game.pause": 1}
SEEDS = range(3)
NAME = "odd 'name' #%A"
ENDED = {"COMPLETED", "FAILED", "CANCELLED"}


@pytest.fixture
def cluster(load: Callable[[str], ModuleType]) -> Iterator[Any]:
    script = load("slurm_cluster")
    if reason := script.missing():
        pytest.skip(reason)
    # On a machine with other work, daemons may be slow to answer, and tasks to save.
    with script.Cluster(
        cpus=len(SEEDS), requeue_seconds=10, kill_wait=TIMEOUT, largest_array=2
    ) as cluster:
        yield cluster


class Sweep:
    """A sweep on a cluster."""

    def __init__(self, folder: Path, cluster: Any) -> None:
        self.folder, self.cluster = folder, cluster
        self.jobs: list[str] = []

    def submit(self, *words: str) -> list[str]:
        """Submit what is left, and return the indices of every array."""
        options = ("--on", "slurm", "--slurm", "partition=low", "--json")
        done = subprocess.run(
            [sys.executable, "-m", "rookery", "sweep", *words, *options],
            env={**os.environ, **self.cluster.environment},
            cwd=self.folder.parent,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        jobs = json.loads(done.stdout)["jobs"]
        self.jobs = [job["id"] for job in jobs]
        return [job["array"] for job in jobs]

    def plan(self) -> Plan:
        return Plan(self.folder, Named((FIELD,)))

    def status(self) -> Any:
        return status_of(self.plan())

    def rounds(self, seed: int) -> int:
        return len(read_lines(self.folder / f"seed-{seed}" / METRICS))

    def log(self, task: str) -> str:
        path = self.folder / "slurm" / f"{task}.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, condition: Callable[[], object]) -> None:
        try:
            wait_for(condition)
        except AssertionError as error:
            logs = [f"{x}:\n{x.read_text()}" for x in self.folder.glob("slurm/*.log")]
            raise AssertionError("\n".join([*logs, self.cluster.logs()])) from error

    def has_ended(self) -> bool:
        return set(self.cluster.tasks(",".join(self.jobs)).values()) <= ENDED


@pytest.mark.shows("E9")
def test_tasks_that_are_stopped_put_back_and_cancelled_train_cells_of_the_same_bits(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, slow = Sweep(tmp_path / NAME, cluster), tmp_path / "slow"
    monkeypatch.setenv("SLOW", str(slow))
    slow.touch()
    words = [FIELD, *overrides(SETTINGS), f"seeds=0..{SEEDS[-1]}"]

    # Three cells, and arrays of two tasks at most.
    assert sweep.submit(*words, "--run", NAME) == ["0-1", "0-0"]
    first, second = (f"{sweep.jobs[0]}_{index}" for index in range(2))
    sweep.wait_for(lambda: min(map(sweep.rounds, SEEDS)) > 0)
    # Slurm sends USR1 like this before a task's time is over.
    cluster.run("scancel", "--batch", "--signal=USR1", first)
    cluster.run("scontrol", "requeue", second)
    for task, line in ((first, "back in the queue"), (second, "Slurm is ending this task")):
        sweep.wait_for(lambda task=task, line=line: line in sweep.log(task))
        sweep.wait_for(lambda task=task: "start again" in sweep.log(task))
    sweep.wait_for(lambda: sweep.status().running == len(SEEDS))
    cluster.run("scancel", *sweep.jobs)
    sweep.wait_for(sweep.has_ended)
    status = sweep.status()
    assert (status.stopped, status.left) == (len(SEEDS), len(SEEDS))
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    with pytest.raises(Refused, match="invalid partition specified: nope"):
        submit(sweep.plan(), [Option("partition", "nope")])

    slow.unlink()
    sweep.submit("go", NAME, "--game", FIELD)
    sweep.wait_for(sweep.has_ended)

    assert sweep.status().done == len(SEEDS)
    for seed in SEEDS:
        alone = rookery.train(
            FIELD, seed=seed, run=tmp_path / f"alone-{seed}", progress=False, **SETTINGS
        )
        assert digest_of(sweep.folder / f"seed-{seed}") == alone.digest()["run"]
        assert sweep.rounds(seed) == SETTINGS["rounds"]

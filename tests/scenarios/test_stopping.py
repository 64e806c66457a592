"""A signal stops a run within seconds, whatever it is doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rookery
from rookery.stop import STOPPING, UNFINISHED
from rookery.storage.checkpoints import newest_whole
from tests.scenarios.conftest import wait_for
from tests.small import SMALL, overrides

pytestmark = pytest.mark.processes

SECONDS = 10.0
ARGUMENTS = overrides(SMALL | {"rounds": 50, "workers": 0})
TICKS = os.sysconf("SC_CLK_TCK")
PROBES = """
from pathlib import Path

import numpy as np

def play(players, game):
    Path("begun").touch()
    try:
        match = game.play(players, episodes=3, game={"turns": 1_000_000})
        return {"x": match.returns.mean()}
    except Exception:
        return {"x": 0.0}

def build(players, game):
    built = game.build(game={"turns": 1_000_000})
    Path("begun").touch()
    while True:
        for phase in built.begin_turn():
            built.observe(phase)
            built.act(phase, np.zeros((1, len(phase)), int))
        built.end_turn()

def never(players, game):
    Path("begun").touch()
    while True:
        pass
"""
SLOW = """
import time
from pathlib import Path
from rookery.games import gridworld as grid

class Slow(grid.GridGame):
    map = "PPP..."

    def declare(self):
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})
        Path("begun").touch()
        for _ in range(6000):
            time.sleep(0.01)
"""


class Main:
    """A run in a separate process, and its output."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._said = folder, folder / "said"
        self._process: subprocess.Popen[bytes] | None = None

    def train(self, *arguments: str, game: str = "treasurehunt") -> None:
        command = [sys.executable, "-m", "rookery", "train", game]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*command, *ARGUMENTS, *arguments, "--run", "mine"],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, "COLUMNS": "200"},
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def rounds(self) -> int:
        metrics = self.folder / "mine" / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def wait_for(self, condition: Callable[[], object]) -> None:
        assert self._process is not None
        wait_for(lambda: condition() or self._process.poll() is not None)
        assert self._process.poll() is None, self.said

    def wait_for_work(self, seconds: float = 0.3) -> None:
        """Wait until the process has used this much more processor time."""
        start = self._seconds_used()
        self.wait_for(lambda: self._seconds_used() > start + seconds)

    def _seconds_used(self) -> float:
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[11]) / TICKS

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ends_in_time(self) -> int:
        """Wait for a run that must end within seconds; return its exit code."""
        assert self._process is not None
        return self._process.wait(SECONDS)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def main(tmp_path: Path) -> Iterator[Main]:
    main = Main(tmp_path)
    (tmp_path / "mine.py").write_text(PROBES)
    (tmp_path / "slow.py").write_text(SLOW)
    yield main
    main.close()


LONG = "game.turns=1000000"


@pytest.mark.shows("F4")
@pytest.mark.parametrize(
    "arguments",
    [
        ["updates_per_round=100000"],
        ["updates_per_round=30000", "algorithm=tabular"],
        ["evaluate.every_rounds=1", LONG],
        ["record.every_rounds=1", LONG],
    ],
    ids=["learning", "learning a table", "evaluating", "recording"],
)
def test_a_signal_stops_a_run_within_seconds_with_the_last_round_saved(
    main: Main, arguments: list[str]
) -> None:
    main.train(*arguments)
    main.wait_for(lambda: main.rounds)
    main.wait_for_work()

    main.send(signal.SIGTERM)

    assert main.ends_in_time() == UNFINISHED
    assert main.said.count(STOPPING) == 1
    assert "Traceback" not in main.said
    saved = newest_whole(main.folder / "mine" / "checkpoints").manifest["round"]
    assert saved == main.rounds >= 1
    assert rookery.Run(main.folder / "mine").digest()["run"]


@pytest.mark.parametrize("name", ["play", "build"])
def test_a_probe_that_plays_for_long_is_stopped_within_seconds(
    main: Main, name: str
) -> None:
    main.train(f"probe.code=./mine.py:{name}")
    main.wait_for((main.folder / "begun").exists)

    main.send(signal.SIGINT)

    assert main.ends_in_time() == UNFINISHED
    assert "stopped after 0 complete rounds" in main.said
    assert "Traceback" not in main.said


def test_a_second_signal_ends_code_that_ignores_the_first(main: Main) -> None:
    main.train("probe.code=./mine.py:never")
    main.wait_for((main.folder / "begun").exists)

    main.send(signal.SIGINT)
    main.wait_for(lambda: STOPPING in main.said)
    main.send(signal.SIGINT)

    assert main.ends_in_time() == 130
    assert "Traceback" not in main.said


def test_a_run_stopped_while_it_is_built_leaves_nothing(main: Main) -> None:
    main.train(game="./slow.py:Slow")
    main.wait_for((main.folder / "begun").exists)

    main.send(signal.SIGTERM)

    assert main.ends_in_time() == 128 + signal.SIGTERM
    assert main.said == "stopped before the first round: no run was created.\n"
    assert not (main.folder / "mine").exists()


def test_a_run_stopped_in_an_evaluation_resumes_to_the_same_bits(
    main: Main,
) -> None:
    changes = {"evaluate.every_rounds": 1, "rounds": 2, "game.turns": 200}
    main.train(*overrides(changes))
    main.wait_for(lambda: main.rounds)
    main.send(signal.SIGTERM)
    assert main.ends_in_time() == UNFINISHED

    stopped = rookery.resume(main.folder / "mine")

    settings = {**SMALL, **changes, "workers": 0}
    whole = rookery.train("treasurehunt", run=main.folder / "whole", **settings)
    assert stopped.digest()["run"] == whole.digest()["run"]
    assert stopped.evaluations().equals(whole.evaluations())

"""Small sweeps, and the digests that their cells must have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.sweeps.axes import parse_seeds, parse_words
from rookery.sweeps.plan import Plan
from rookery.sweeps.planning import named_in, new_plan
from tests.scenarios.conftest import PATIENCE, is_alive, wait_for
from tests.small import overrides
from tests.stress.kill_main import descendants

FIELD = f"{Path(__file__).parent / 'files' / 'field.py'}:Field"
EVERY = 3
"""Rounds between checkpoints."""
SETTINGS: dict[str, Any] = {
    "algorithm": "ppo",
    "rounds": 12,
    "turns_per_round": 4,
    "worlds": 1,
    "workers": 0,
    "frames": 1,
    "network.width": 4,
    "checkpoints.every_rounds": EVERY,
    "checkpoints.weights_every_rounds": 0,
}


def words_of(*words: str, **changes: Any) -> list[str]:
    """Return the words for a sweep of small cells, in which others take precedence."""
    given = {key for word in words for key in word.partition("=")[0].split(":")}
    settings = {**SETTINGS, **changes}
    return [*overrides({k: v for k, v in settings.items() if k not in given}), *words]


def planned(folder: Path, *words: str, games: str = FIELD, seeds: str = "0..1") -> Plan:
    """Plan a sweep of small cells."""
    question = parse_words(games, words_of(*words), parse_seeds(seeds))
    return new_plan(question, folder, named_in(question))


def digest_of(folder: Path) -> str:
    """Return the digest of a cell, which must be exact."""
    digest = rookery.Run(folder, FIELD).digest()
    assert digest["exact"], digest["why"]
    return str(digest["run"])


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that gives the digest of a cell trained on its own, once each."""
    digests: dict[str, str] = {}

    def digest(seed: int, **changes: Any) -> str:
        key = json.dumps([seed, changes], sort_keys=True)
        if key not in digests:
            folder = tmp_path_factory.mktemp("undisturbed") / "run"
            settings = {**SETTINGS, **changes}
            run = rookery.train(FIELD, run=folder, seed=seed, progress=False, **settings)
            digests[key] = str(run.digest()["run"])
        return digests[key]

    return digest


class Command:
    """A `rookery sweep` command in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sweep, self.slow = folder / "sweep", folder / "slow"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        with self._file("out").open("wb") as out, self._file("said").open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rookery", "sweep", *arguments],
                cwd=self.folder,
                env={**os.environ, "SLOW": str(self.slow)},
                stdout=out,
                stderr=said,
                start_new_session=True,
            )

    def plan(self, *words: str, **changes: Any) -> None:
        """Start a sweep of small cells."""
        self.start(FIELD, *words_of(*words, **changes), "--run", str(self.sweep))

    def go(self, *more: str, command: str = "go") -> None:
        """Go on with the sweep."""
        self.start(command, str(self.sweep), "--game", FIELD, *more)

    def run(self, *arguments: str) -> int:
        """Run a command to its end; return its exit code."""
        self.start(*arguments)
        return self.code()

    def _file(self, name: str) -> Path:
        return self.folder / f"{id(self)}.{name}"

    @property
    def printed(self) -> str:
        return self._file("out").read_text()

    @property
    def said(self) -> str:
        return self._file("said").read_text()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What `sweep work --json` has told."""
        lines = self.printed.splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def workers(self) -> list[int]:
        """The processes that it has started."""
        return sorted(descendants(self.pid))

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition holds, before the process has ended."""
        assert self._process is not None
        process = self._process
        wait_for(lambda: condition() or process.poll() is not None)
        assert process.poll() is None, self.said

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def code(self) -> int:
        """Wait until it has ended; return its exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        if self._process is not None:
            workers = self.workers()
            self._process.kill()
            self._process.wait()
            wait_for(lambda: not any(map(is_alive, workers)))


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path)
    yield command
    command.close()


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Command]:
    another = Command(tmp_path)
    yield another
    another.close()


def rounds_in(cell: Path) -> int:
    """Return how many rounds a cell has logged."""
    metrics = cell / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

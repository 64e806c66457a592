"""The bits of a machine: the same for the same arithmetic, and for nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.runs.configure import configure
from rookery.training.training import Training
from tests.small import HUNT, overrides

PRINT = """
import sys
from rookery.runs.configure import configure
from rookery.training.training import Training
training = Training.build(*configure(sys.argv[1], sys.argv[2:]))
print(training.bits)
training.close()
"""
UNLIKE = {"ATEN_CPU_CAPABILITY": "default"}
"""Makes torch compute functions as on a processor without vector instructions."""


def bits(game: str = "treasurehunt", **changes: Any) -> str:
    training = Training.build(*configure(game, settings={**HUNT, **changes}))
    training.close()
    return training.bits


def bits_elsewhere(environment: dict[str, str], algorithm: str) -> str:
    settings = overrides({**HUNT, "algorithm": algorithm})
    done = subprocess.run(
        [sys.executable, "-c", PRINT, "treasurehunt", *settings],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_bits_do_not_depend_on_processes_or_on_what_may_change_on_resume() -> None:
    settings = {"rate": {"schedule": "linear"}}
    changes = {"workers": 2, "rounds": 9, "rate": {"schedule": "linear", "rounds": 20}}

    assert bits(**settings) == bits(**{**settings, **changes})


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"network.width": 24}, {"worlds": 4}, {"algorithm": "ppo"}]
)
def test_bits_depend_on_everything_that_is_computed(changes: dict[str, Any]) -> None:
    assert bits() != bits(**changes)


def test_bits_depend_on_the_game_alone_where_nothing_has_a_network() -> None:
    tables = {"algorithm": "tabular", "game.agents": 2}

    assert bits(**tables) == bits(**tables)
    assert bits(**tables) != bits(**tables, seed=1)


@pytest.mark.processes
@pytest.mark.parametrize("algorithm", ["ppo", "recurrent_dqn"])
def test_another_process_has_the_same_bits_and_an_unlike_processor_has_not(
    algorithm: str,
) -> None:
    here = bits(algorithm=algorithm)

    assert bits_elsewhere({}, algorithm) == here
    assert bits_elsewhere(UNLIKE, algorithm) != here


@pytest.mark.processes
def test_what_uses_nothing_of_an_unlike_processor_keeps_its_bits() -> None:
    assert bits_elsewhere(UNLIKE, "iqn") == bits()


@pytest.mark.processes
@pytest.mark.shows("F6")
def test_a_run_that_continues_on_an_unlike_machine_is_marked(tmp_path: Path) -> None:
    settings = {**HUNT, "algorithm": "ppo", "rounds": 3}
    rookery.train("treasurehunt", run=tmp_path / "run", **settings)
    command = [sys.executable, "-m", "rookery", "resume", str(tmp_path / "run"), "rounds=4"]

    done = subprocess.run(
        command, env={**os.environ, **UNLIKE}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    message = "it continues from results computed with other bits, on "
    assert f"warning: {message}" in done.stderr
    assert message in rookery.Run(tmp_path / "run").digest()["why"]

"""How much memory a run takes: bounded, and told before it starts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rookery.cli.train import train_one
from rookery.runs.configure import configure
from rookery.training.training import Training

QUICK = {"turns_per_round": 20, "worlds": 4, "network.width": 16, "epsilon.steps": 100}


@pytest.mark.shows("C7")
def test_memory_is_told_before_training_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    settings = {**QUICK, "replay.capacity": 200_000, "rounds": 1, "workers": 0}
    entry, config = configure("treasurehunt", settings=settings)
    path.mkdir()

    train_one(entry, config, path, quiet=False)

    first = capsys.readouterr().err.splitlines()
    told = next(line for line in first if line.startswith("memory: "))
    assert re.fullmatch(
        r"memory: \d+ MiB \(replays \d+, states \d\.\d, the rest 0\.\d\)", told
    )
    (start, *_) = [json.loads(x) for x in (path / "events.jsonl").read_text().splitlines()]
    assert set(start["bytes"]) == {"replays", "states", "the rest"}


@pytest.mark.shows("C7")
def test_an_agents_state_takes_two_slots_and_no_more() -> None:
    training = Training.build(*configure("treasurehunt", settings=QUICK))

    for agent in training.agents:
        assert agent.algorithm is not None
        states = training.arena.states(agent.id)
        one = sum(a.nbytes for a in training.initial_state(agent).values())
        padding = 64 * len(states.names)
        agent = training.arena._layouts[f"state {agent.id}"]
        assert 2 * one <= agent.bytes <= 2 * (one + padding)
    training.close()

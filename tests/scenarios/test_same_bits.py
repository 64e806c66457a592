"""The same bits with any number of processes, even on a busy machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rookery
from tests.scenarios.conftest import session_of, updates_of
from tests.small import HUNT, SMALL

pytestmark = pytest.mark.processes

EIGHT = {**HUNT, "game.agents": 8, "rounds": 4, "network.width": 16}
MIXED = {
    "1": {"algorithm": "ppo", "network": {"width": 40}},
    "2": {"learning": False, "network": {"width": 17}},
    "3": {"player": "random"},
    "4": {"algorithm": "ppo", "frames": 3},
}
SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4"
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "sync-3-uniform-1": ("treasurehunt", {**HUNT, "schedule": "sync"}, 1),
    "pipelined-3-prioritised-3": (
        "treasurehunt",
        {**HUNT, "replay.kind": "prioritised", "reward.standardise": True},
        3,
    ),
    "pipelined-8-uniform-8": ("treasurehunt", EIGHT, 8),
    "pipelined-8-ppo-2": ("treasurehunt", {**EIGHT, "algorithm": "ppo"}, 2),
    "pipelined-3-dqn-2": (
        "treasurehunt",
        {
            **HUNT,
            "algorithm": "dqn",
            "dqn.noisy": True,
            "dqn.retrace": 0.9,
            "replay.kind": "prioritised",
        },
        2,
    ),
    "sync-3-vtrace-2": (
        "treasurehunt",
        {**HUNT, "algorithm": "vtrace", "schedule": "sync"},
        2,
    ),
    "pipelined-tabular-2": (
        "iterated_prisoners_dilemma",
        {**SMALL, "algorithm": "tabular", "game.turns": 15},
        2,
    ),
    "sync-8-mixed-prioritised-3": (
        "treasurehunt",
        {**EIGHT, "schedule": "sync", "replay.kind": "prioritised", "agents": MIXED},
        3,
    ),
    "sync-unlike-shapes-2": (
        SPEAKER,
        {
            **SMALL,
            "schedule": "sync",
            "agents": {"speaker_0": {"algorithm": "ppo"}},
        },
        2,
    ),
}


@pytest.mark.shows("A7")
@pytest.mark.parametrize("case", CASES)
def test_several_processes_give_the_bits_of_one(
    case: str, reference_digest: Callable[..., str], tmp_path: Path
) -> None:
    game, settings, workers = CASES[case]

    run = rookery.train(game, run=tmp_path / "run", **{**settings, "workers": workers})

    updates = updates_of(run)
    learning = [agent.id for agent in run.agents if agent.learns]
    assert all(updates[agent] > 0 for agent in learning)
    assert run.digest()["run"] == reference_digest(game, **settings)


def test_another_seed_gives_other_bits(reference_digest: Callable[..., str]) -> None:
    first = reference_digest("treasurehunt", **HUNT, schedule="sync")

    assert reference_digest("treasurehunt", **HUNT, schedule="sync", seed=1) != first


@pytest.fixture
def _busy_machine() -> Iterator[None]:
    load = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    load.kill()
    load.wait()


@pytest.mark.shows("A7", "C1", "C5")
@pytest.mark.usefixtures("_busy_machine")
def test_every_turn_is_played_with_the_previous_version_even_on_a_busy_machine(
    reference_digest: Callable[..., str], tmp_path: Path
) -> None:
    settings = {**HUNT, "checkpoints.every_rounds": 2, "evaluate.every_rounds": 3}
    session = session_of("treasurehunt", tmp_path, **settings, workers=2)
    rows = {m.id: session.training.arena.rows(m.id) for m in session.training.agents}

    session.run(lambda _: None)

    turns = range(HUNT["rounds"] * HUNT["turns_per_round"])
    expected = [turn // HUNT["turns_per_round"] for turn in turns]
    for agent in rows.values():
        kept = [turn for turn in turns if agent.is_whole(turn)]
        assert len(kept) >= 3 * HUNT["turns_per_round"]
        versions = [int(agent.columns["version"][turn % agent.slots]) for turn in kept]
        assert versions == [expected[turn] for turn in kept]
    run = rookery.Run(tmp_path)
    assert run.digest()["run"] == reference_digest("treasurehunt", **HUNT)
    assert set(run.evaluations()["round"]) == {3, 6}

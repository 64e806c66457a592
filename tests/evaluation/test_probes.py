"""Probes: when they are called, what they get, their results, and their mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import rookery
from rookery.cli import app as cli
from rookery.runs.configure import configure
from rookery.runs.log import read_lines
from rookery.runs.session import Session
from rookery.stop import StopFlag, Stopped

SMALL = {
    "rounds": 4,
    "workers": 0,
    "worlds": 3,
    "turns_per_round": 10,
    "updates_per_round": 3,
    "batch_size": 8,
    "frames": 2,
    "network": {"width": 16, "quantiles": 2},
    "replay": {"capacity": 120, "warmup": 16},
    "game": {"agents": 2, "turns": 9, "height": 6, "width": 6},
}
PROBE = {"code": "./mine.py:ask", "every_rounds": 2}
PLAIN = """
def ask(players, game):
    match = game.play(players, episodes=4)
    return {"return": match.returns.mean(), "turns": match.episodes[0].turns}
"""
RUDE = """
import random
import numpy as np
import torch

def ask(players, game):
    torch.set_num_threads(2)
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    for player in players.values():
        player.weights[:] = 0
        for array in player.named.values():
            array[:] = 0
    return {"x": torch.rand(1).item()}
"""
LATER = """
def ask(players, game):
    if players["0"].weights.sum() != FIRST.setdefault("sum", players["0"].weights.sum()):
        raise KeyError("nothing there")
    return {"x": 1}

FIRST = {}
"""


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Train with a probe: train(code, **settings)."""
    monkeypatch.chdir(tmp_path)

    def run(code: str, folder: str = "run", **settings) -> rookery.Run:
        Path("mine.py").write_text(code)
        return rookery.train("treasurehunt", run=folder, **(SMALL | settings))

    return run


def test_a_probe_is_called_before_the_first_round_and_then_periodically(train):
    run = train(PLAIN, probe=PROBE)

    table = run.probes()

    assert table["round"].tolist() == [0, 2, 4]
    assert set(table["turns"]) == {9}
    assert table["return"].notna().all()


def test_its_results_are_in_tensorboard_over_world_turns(train):
    run = train(PLAIN, probe=PROBE)

    board = EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()

    assert [point.step for point in board.Scalars("probe/return")] == [0, 60, 120]


@pytest.mark.parametrize("code", [PLAIN, RUDE], ids=["plain", "rude"])
def test_a_probe_changes_not_one_bit_of_training(train, code):
    plain = train(code, folder="without")

    probed = train(code, folder="with", probe=PROBE | {"every_rounds": 1})

    assert probed.digest() == plain.digest()


@pytest.mark.processes
def test_a_probe_has_the_same_results_in_several_processes(train):
    single = train(PLAIN, folder="single", probe=PROBE)

    several = train(PLAIN, folder="several", probe=PROBE, workers=1)

    assert several.digest() == single.digest()
    assert several.probes().equals(single.probes())


def test_probes_evaluations_and_recordings_can_have_different_periods(train):
    others = {"evaluate": {"every_rounds": 3}, "record": {"every_rounds": 2}}

    run = train(PLAIN, rounds=6, probe=PROBE | {"every_rounds": 4}, **others)

    assert run.probes()["round"].tolist() == [0, 4]
    assert sorted(set(run.evaluations()["round"])) == [3, 6]
    assert sorted(set(run.recordings()["round"])) == [2, 4, 6]


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.processes)])
def test_an_error_ends_the_run_before_the_first_round(train, workers):
    code = "def ask(players, game):\n    return players[7]\n"

    with pytest.raises(
        rookery.ProbeError,
        match=r"the probe \./mine\.py:ask raised KeyError: 7 \(line 2\) \(after round 0\)",
    ):
        train(code, probe=PROBE, workers=workers)

    assert not read_lines(Path("run/metrics.jsonl"))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def ask(players, game):\n    return 3", "returned 3, expected numbers by name"),
        (
            "def ask(players, game):\n    return {'x': 'much'}",
            "returned {'x': 'much'}, expected numbers by name",
        ),
        (
            "def ask(players, game):\n    return {i: i for i in range(9999)}",
            "returned 9999 numbers of .* bytes in total, expected at most 8192 bytes",
        ),
    ],
    ids=["a number", "a word", "too many"],
)
def test_a_result_that_is_not_numbers_by_name_is_refused(train, code, message):
    with pytest.raises(rookery.ProbeError, match=message):
        train(code, probe=PROBE)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1", "has no 'ask'"),
        ("ask = 1", "'./mine.py:ask', which is 1: name a function of \\(players, game\\)"),
        ("def ask(players): pass", "name a function of \\(players, game\\)"),
        ("def ask(", "could not be imported \\(line 1\\)"),
    ],
)
def test_what_is_not_a_probe_is_refused_before_anything_starts(train, code, message):
    with pytest.raises(rookery.ConfigError, match=message):
        train(code, probe=PROBE)


def test_an_error_in_a_later_round_is_recorded_and_training_continues(train):
    messages = []
    Path("mine.py").write_text(LATER)
    entry, config = configure("treasurehunt", settings=SMALL | {"probe": PROBE})
    Path("run").mkdir()
    session = Session(entry, config, Path("run"))
    session.say = messages.append

    session.run(lambda completed: None)

    assert rookery.Run("run").probes()["round"].tolist() == [0]
    assert "raised KeyError: 'nothing there' (line 4) (after round 4)" in messages[-1]
    assert "Training continues" in messages[-1]
    failure = json.loads(Path("run/failures/probe.attempt-4.json").read_text())
    assert "in ask" in failure["traceback"]


def test_a_resumed_run_calls_the_probe_for_the_remaining_rounds_only(train):
    whole = train(PLAIN, folder="whole", probe=PROBE, rounds=6)
    entry, config = configure(
        "treasurehunt", settings=SMALL | {"probe": PROBE, "rounds": 6}
    )
    Path("run").mkdir()
    stop = StopFlag()
    with pytest.raises(Stopped):
        Session(entry, config, Path("run"), stop).run(
            lambda completed: setattr(stop, "signal", 15 if completed.number == 3 else None)
        )

    run = rookery.resume("run", probe="./mine.py:ask")

    assert run.probes().equals(whole.probes())
    assert run.digest() == whole.digest()


def test_code_named_only_by_a_run_folder_is_not_run(train):
    train(PLAIN, probe=PROBE)

    with pytest.raises(
        rookery.ConfigError,
        match=r"names the probe './mine.py:ask', which is code. If .* probe.code=./mine.py",
    ):
        rookery.resume("run")


def test_code_named_only_by_a_settings_file_is_not_run(train, capsys):
    train(PLAIN, probe=PROBE)
    with pytest.raises(SystemExit) as ended:
        cli.main(["train", "--config", "run/config.toml", "--run", "again"])

    assert ended.value.code == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "too: probe.code=./mine.py:ask" in printed


def test_a_probe_can_be_added_and_removed_on_resume(train):
    finished = train(PLAIN).config.rounds

    added = rookery.resume("run", probe=PROBE, rounds=finished + 2)
    rookery.resume("run", rounds=finished + 4, probe="")

    assert added.probes()["round"].tolist() == [finished, finished + 2]
    assert rookery.Run("run").probes()["round"].tolist() == [finished, finished + 2]


def test_a_probe_can_change_the_game_and_play_it_turn_by_turn(train):
    code = """
def ask(players, game):
    short = game.play({"0": "forager"}, episodes=2, game={"turns": 4})
    built = game.build(worlds=2, game={"turns": 3})
    built.begin_turn()
    worlds = len(built.observe([0]).active[0])
    built.close()
    assert [spec.id for spec in game.agents] == ["0", "1"]
    return {"turns": short.episodes[0].turns, "worlds": worlds}
"""

    table = train(code, probe=PROBE, rounds=1).probes()

    assert table[["turns", "worlds"]].values.tolist() == [[4, 2]]

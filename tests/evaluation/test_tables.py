"""Recordings as tables: one row per world, episode, turn and agent; and Parquet files."""

from __future__ import annotations

import sys

import numpy as np
import pandas
import pytest

import rookery
from rookery.cli import app as cli
from rookery.evaluation.recordings import Recording
from rookery.evaluation.tables import table_of

SMALL = {
    "workers": 0,
    "worlds": 3,
    "turns_per_round": 4,
    "frames": 1,
    "network": {"width": 16, "quantiles": 2},
    "replay": {"capacity": 200, "warmup": 64},
    "game": {"agents": 2, "turns": 6, "height": 6, "width": 6},
}


def recording(**extra: np.ndarray) -> Recording:
    arrays = {
        "actions": np.array([[0, 1], [1, 0], [1, 1]], np.int32),
        "active": np.array([[True, True], [True, False], [True, True]]),
        "rewards": np.array([[0.5, -1], [2, 0], [0, 0]], np.float32),
        "facts.position": np.arange(12, dtype=np.int16).reshape(3, 2, 2),
        "facts.light": np.array([7, 8, 9]),
        "frames": np.zeros((3, 4, 4, 3), np.uint8),
    }
    names = (("stay", "go"), ("stay", "go"))
    return Recording(3, 5, ("a", "b"), ("random", "wise"), arrays | extra, names)


def test_a_row_is_one_turn_of_one_agent():
    table = table_of([recording()])

    assert len(table) == 3 * 2
    row = table[(table["turn"] == 1) & (table["agent"] == "b")].iloc[0]
    assert (row["world"], row["episode"], row["player"]) == (3, 5, "wise")
    assert (row["action"], row["action_name"], row["reward"]) == (0, "stay", 0.0)
    assert not row["active"]


def test_facts_about_agents_and_about_the_world_are_columns():
    table = table_of([recording()])

    assert table["facts.position.0"].tolist() == [0, 2, 4, 6, 8, 10]
    assert table["facts.position.1"].tolist() == [1, 3, 5, 7, 9, 11]
    assert table["facts.light"].tolist() == [7, 7, 8, 8, 9, 9]
    assert "frames" not in "".join(table.columns)


def test_a_large_fact_is_one_column_of_lists():
    grid = np.arange(3 * 25).reshape(3, 5, 5)

    table = table_of([recording(**{"facts.grid": grid})])

    assert table["facts.grid"].iloc[2] == list(range(25, 50))


def test_a_match_is_a_table_of_all_its_episodes():
    match = rookery.play("gathering", episodes=5, worlds=2, record=True, game={"turns": 7})

    table = match.table()

    assert len(table) == 5 * 7 * 3
    assert len(table.groupby(["world", "episode"])) == 5
    sums = table.groupby(["world", "episode", "agent"])["reward"].sum()
    assert sum(sums) == pytest.approx(match.returns.sum())
    assert set(table["action_name"]) <= set(match.agents[0].action_names)


def test_recordings_of_training_are_a_table(tmp_path):
    run = rookery.train(
        "treasurehunt", run=tmp_path / "run", rounds=4, **SMALL, record={"every_rounds": 2}
    )

    table = run.recordings()

    assert table.groupby("round").size().to_dict() == {2: 12, 4: 12}
    assert {"facts.position.0", "reward", "action_name"} <= set(table.columns)


def test_a_run_without_recordings_has_an_empty_table(tmp_path):
    run = rookery.train("treasurehunt", run=tmp_path / "run", rounds=1, **SMALL)

    assert run.recordings().empty


def test_the_command_writes_parquet(tmp_path, capsys):
    rookery.train("treasurehunt", run=tmp_path / "run", rounds=1, **SMALL)
    file = tmp_path / "played.parquet"

    with pytest.raises(SystemExit) as ended:
        cli.main(["record", str(tmp_path / "run"), str(file), "evaluate.episodes=4"])

    assert ended.value.code == 0
    table = pandas.read_parquet(file)
    assert len(table) == 4 * 6 * 2
    assert set(table["player"]) == {"trained"}
    assert table["facts.position.0"].dtype == np.int16
    assert "48 rows of 4 episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("missing", "message"), [("pandas", "tables need pandas"), ("pyarrow", "need pyarrow")]
)
def test_a_missing_library_is_named(tmp_path, capsys, monkeypatch, missing, message):
    rookery.train("treasurehunt", run=tmp_path / "run", rounds=1, **SMALL)
    monkeypatch.setitem(sys.modules, missing, None)
    file = str(tmp_path / "x.parquet")

    with pytest.raises(SystemExit) as ended:
        cli.main(["record", str(tmp_path / "run"), file, "evaluate.episodes=1"])

    assert ended.value.code == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert message in printed
    assert "pip install 'rookery[analysis]'" in printed

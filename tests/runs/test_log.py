"""The log of a run: one JSON object per line, also for NaN and infinity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rookery.runs.log import EPISODES, METRICS, RunLog, Totals, read_lines
from rookery.storage.files import Attempts
from tests.small import train

KEYS = ["round", "players", "agent", "steps", "mean"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    log = RunLog(tmp_path, Attempts(pytest.fail))
    yield log
    log.close()


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")], ids=str)
@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_line_has_null_where_json_has_no_number(
    log: RunLog, tmp_path: Path, number: float, kind: type
) -> None:
    log.line(
        EPISODES, {"round": 1, "returns": {"a": kind(number), "b": [1.5, kind(number)]}}
    )

    assert read_lines(tmp_path / EPISODES) == [
        {"round": 1, "returns": {"a": None, "b": [1.5, None]}}
    ]


def test_totals_are_over_all_rounds_and_agents(log: RunLog) -> None:
    for number in (1, 2):
        agents = {"a": {"updates": 3.0}, "b": {"updates": number}, "scripted": {}}
        log.line(METRICS, {"round": number, "seconds": 0.5, "agents": agents})

    assert log.totals() == Totals(updates=9, seconds=1.0)


def test_totals_of_an_edited_file_leave_out_what_is_not_a_count(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text(
        '{"seconds": "long", "agents": {"a": {"updates": null}, "b": 7}}\n'
        '{"seconds": NaN, "agents": []}\n'
        '{"seconds": 2.0, "agents": {"a": {"updates": 4}}}\n'
    )

    totals = RunLog(tmp_path, Attempts(pytest.fail)).totals()

    assert totals == Totals(updates=4, seconds=2.0)


# TensorBoard.


def scalars_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(folder))
    board.Reload()
    return {
        tag: [(event.step, event.value) for event in board.Scalars(tag)]
        for tag in board.Tags()["scalars"]
    }


def test_tensorboard_has_metrics_first_over_turns_of_all_worlds(tmp_path: Path) -> None:
    settings = {"worlds": 3, "game.turns": 3, "evaluate.every_rounds": 2}
    run = train(tmp_path / "run", **settings)

    scalars = scalars_of(run.path / "tensorboard")

    turns = 2 * 3  # of a round, in all worlds
    assert [step for step, _ in scalars["reward/0"]] == [turns * k for k in (1, 2, 3, 4)]
    evaluations = run.evaluations().query("players == 'trained' and agent == '1'")
    assert scalars["evaluation/trained/1"] == [
        (turns * row["round"], pytest.approx(row["mean"]))
        for _, row in evaluations.iterrows()
    ]
    episodes = run.episodes().query("agent == '1'").groupby("round")
    names = ("return", *run.evaluations().columns.drop(KEYS))
    for name in names:
        tag = f"{name}/1" if name == "return" else f"counts/{name}/1"
        assert scalars[tag] == [
            (turns * number, pytest.approx(mean))
            for number, mean in episodes[name].mean().items()
        ]


def test_older_event_files_are_set_aside_and_written_again(tmp_path: Path) -> None:
    run = train(tmp_path / "run", **{"evaluate.every_rounds": 2})
    folder = run.path / "tensorboard"
    expected = scalars_of(folder)
    (file,) = folder.iterdir()
    older = file.rename(file.with_suffix(".0"))  # as files with rounds as their axis end
    log = RunLog(run.path, Attempts(pytest.fail), world_turns=2)

    log.scalars(5, {"probe/x": 1.5})

    assert [path.name for path in (folder / "rounds").iterdir()] == [older.name]
    assert scalars_of(folder) == {**expected, "probe/x": [(10, 1.5)]}

"""`rookery sweep table` and `rookery sweep export`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rookery.cli import app as cli
from rookery.stop import StopFlag
from rookery.sweeps.axes import Axis, Question
from rookery.sweeps.planning import new_plan
from rookery.sweeps.trust import Named
from rookery.sweeps.work import work
from tests.small import HUNT, overrides

SETTINGS = {**HUNT, "workers": 0, "game.turns": 5}
RATES = Axis(("learning_rate",), (("0.001",), ("0.01",)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a sweep of two learning rates and two seeds."""
    folder = tmp_path_factory.mktemp("sweeps") / "rates"
    fixed = tuple(overrides(SETTINGS))
    plan = new_plan(
        Question(("iterated_stag_hunt",), (RATES,), (0, 1), fixed), folder, Named()
    )
    work(plan, StopFlag(), lambda event, cell, **details: None)
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["sweep", *map(str, words)])
    printed = capsys.readouterr()
    return int(leaving.value.code or 0), printed.out, printed.err


def test_the_table_shows_estimates_with_intervals_and_notes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "table", folder)

    assert code == 0
    header, *rows = out.splitlines()
    assert header.split() == [
        "learning_rate",
        "seeds",
        "finished",
        "return",
        "turns",
        "stag",
    ]
    assert [row.split()[:3] for row in rows[:2]] == [
        ["0.001", "2", "2"],
        ["0.01", "2", "2"],
    ]
    assert "[" in rows[0]
    assert "interquartile mean over seeds [95 % interval]" in out
    assert "with fewer than 5 seeds, intervals are too narrow" in out


def test_the_table_is_one_json_object(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "table", folder, "--json")

    content = json.loads(out)
    assert [row["learning_rate"] for row in content["table"]] == [0.001, 0.01]
    assert content["table"][0]["return_low"] <= content["table"][0]["return"]
    assert content["notes"] == []


def test_the_table_draws_a_picture(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "stag.png"

    code, _, _ = run(capsys, "table", folder, "--picture", picture, "--metric", "stag")

    assert code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_metric_without_a_picture_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "table", folder, "--metric", "stag")

    assert code == 2
    assert "--metric chooses what --picture draws" in err


def test_scores_are_exported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.npz"

    code, out, err = run(capsys, "export", folder, file)

    assert (code, out) == (0, "")
    assert f"{file} is written" in err.replace("\n", "")
    assert {x.shape for x in np.load(file).values()} == {(2, 1)}

"""The log of a run: one JSON object per line, also for NaN and infinity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.runs.log import EPISODES, METRICS, RunLog, Totals, read_lines
from rookery.storage.files import Attempts


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")], ids=str)
@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_line_has_null_where_json_has_no_number(
    tmp_path: Path, number: float, kind: type
) -> None:
    log = RunLog(tmp_path, Attempts(pytest.fail))

    log.line(
        EPISODES, {"round": 1, "returns": {"a": kind(number), "b": [1.5, kind(number)]}}
    )

    assert read_lines(tmp_path / EPISODES) == [
        {"round": 1, "returns": {"a": None, "b": [1.5, None]}}
    ]


def test_totals_are_over_all_rounds_and_agents(tmp_path: Path) -> None:
    log = RunLog(tmp_path, Attempts(pytest.fail))
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

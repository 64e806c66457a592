"""What a run writes down: one JSON object per line, whatever the numbers are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.runs.log import EPISODES, RunLog, read_lines
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

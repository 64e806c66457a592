"""`--until` takes a time of day, a date, a duration, or Slurm's end of a job."""

from __future__ import annotations

import math
from datetime import datetime

import pytest

from rookery.cli.until import SLURM, end_time
from rookery.errors import ConfigError

NOW = datetime.fromisoformat("2026-01-30T18:00:00+00:00")


def left(until: str | None, environment: dict[str, str] | None = None) -> float:
    return end_time(until, environment or {}, NOW) - NOW.timestamp()


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        ("90m", 5400),
        ("1h30m", 5400),
        ("2h", 7200),
        ("45s", 45),
        ("18:30", 1800),
        ("18:00:01", 1),
        ("17:00", 23 * 3600),
        ("2026-01-31T18:00+00:00", 24 * 3600),
    ],
)
def test_a_time_is_understood(until: str, seconds: float) -> None:
    assert left(until) == seconds


@pytest.mark.parametrize("until", ["", "soon", "25:00", "90", "1.5h", "-5m", "2026-13-01"])
def test_anything_else_is_refused_with_examples(until: str) -> None:
    with pytest.raises(ConfigError) as refused:
        left(until)

    assert str(refused.value) == (
        f"--until {until!r} is not a time: write 18:30, 2026-01-31T18:30, or a duration "
        "such as 90m or 1h30m."
    )


def test_a_time_in_the_past_is_refused() -> None:
    with pytest.raises(ConfigError, match="2026-01-29 is over: give a time to come"):
        left("2026-01-29")


def test_in_a_slurm_job_its_end_counts_unless_a_time_is_given() -> None:
    job = {SLURM: str(int(NOW.timestamp()) + 600)}

    assert left(None, job) == 600
    assert left("5m", job) == 300
    assert left(None) == math.inf

"""`--until`: when a run must have saved and left."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from rookery.errors import ConfigError

SLURM = "SLURM_JOB_END_TIME"
"""Slurm's own end of a job, in seconds since 1970."""
UNITS = {"h": 3600, "m": 60, "s": 1}


def end_time(
    until: str | None,
    environment: Mapping[str, str] = os.environ,
    now: datetime | None = None,
) -> float:
    """Return when a run must have left, in seconds since 1970; infinite if never.

    Args:
        until: a time of day such as 18:30, a date and time such as 2026-01-31T18:30, or a
            duration such as 2h, 90m or 1h30m; None for the end of the Slurm job, if any.
        environment: of this process.
        now: to be replaced in tests.

    Raises:
        ConfigError: if it is none of these, or in the past.
    """
    if until is None:
        end = environment.get(SLURM, "")
        return float(end) if end.isdecimal() else math.inf
    now = now or datetime.now().astimezone()
    end_of_run = _duration(until, now) or _time_of_day(until, now) or _date(until)
    if end_of_run is None:
        raise ConfigError(
            f"--until {until!r} is not a time: write 18:30, 2026-01-31T18:30, or a "
            "duration such as 90m or 1h30m."
        )
    if end_of_run <= now:
        raise ConfigError(f"--until {until} is over: give a time to come.")
    return end_of_run.timestamp()


def _duration(text: str, now: datetime) -> datetime | None:
    if not re.fullmatch(r"(\d{1,4}h)?(\d{1,5}m)?(\d{1,6}s)?", text) or not text:
        return None
    parts = re.findall(r"(\d+)([hms])", text)
    return now + timedelta(seconds=sum(int(count) * UNITS[unit] for count, unit in parts))


def _time_of_day(text: str, now: datetime) -> datetime | None:
    """Return the next time that a clock shows this."""
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups())
    today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return today if today > now else today + timedelta(days=1)


def _date(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        return None

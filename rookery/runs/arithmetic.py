"""What the bits of a run depend on besides its settings and seed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

ARITHMETIC = 2
"""The version of Rookery's arithmetic.

Raise it with every change after which the same settings and seed give other bits, be it
for one algorithm or one game only. Runs that began before it then say that they are not
exact.
"""
UNWRITTEN = 1
"""What stands for everything before versions were written down."""
DEPENDS_ON = ("arithmetic", "torch", "numpy", "processor")
"""Of what `machine` returns, what changes bits; Rookery's own version is for people."""


def machine() -> dict[str, Any]:
    """Return what a run computes with."""
    return {
        "rookery": _version(),
        "arithmetic": ARITHMETIC,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": _processor(),
    }


def other_machine(then: Mapping[str, Any]) -> str:
    """Return how what was computed with then differs from now; '' if it does not."""
    now, then = machine(), {"arithmetic": UNWRITTEN, **then}
    found = [
        f"{_name(key)} {then.get(key, 'unknown')} (now {now[key]})"
        for key in DEPENDS_ON
        if then.get(key) != now[key]
    ]
    return " and ".join(found)


def is_of_another_version(then: Mapping[str, Any]) -> bool:
    """Whether something was computed with another version of Rookery's arithmetic."""
    return bool(then.get("arithmetic", UNWRITTEN) != ARITHMETIC)


def _name(key: str) -> str:
    return "Rookery's arithmetic version" if key == "arithmetic" else key


def _version() -> str:
    try:
        return version("rookery")
    except PackageNotFoundError:  # it is not installed, only on the path
        return "unknown"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(
                x.split(":")[1].strip() for x in lines if x.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.machine()

"""Measuring fairly on a machine that others use, too."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Report:
    """What a benchmark found, as `rookery bench NAME --json` prints it."""

    ratios: dict[str, float] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def figure(self, name: str, value: float, unit: str) -> None:
        """Add one figure."""
        self.figures[name] = {"value": value, "unit": unit}

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the machine it was measured on."""
        return {"ratios": self.ratios, "figures": self.figures, "machine": machine()}


def bench_names() -> list[str]:
    """Return the benchmarks there are: the modules here that can `run`."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    # Read instead of imported: torch takes seconds to import, and a list needs none of it.
    return [file.stem for file in files if "\ndef run(" in file.read_text("utf-8")]


def run_bench(name: str, progress: Callable[[str], None]) -> Report:
    """Run a benchmark; `progress` is told what is being measured."""
    report: Report = import_module(f"rookery.bench.{name}").run(progress)
    return report


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def alternate(
    contenders: Mapping[str, Callable[[], float]], repeats: int = 5
) -> dict[str, float]:
    """Run contenders in alternating order and return the median of each one's rate."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for repeat in range(repeats):
        for name in names if repeat % 2 == 0 else reversed(names):
            rates[name].append(contenders[name]())
    return {name: statistics.median(values) for name, values in rates.items()}


def rate(work: Callable[[], None], amount: int) -> float:
    """Return how much of something per second `work` does."""
    started = time.perf_counter()
    work()
    return amount / (time.perf_counter() - started)

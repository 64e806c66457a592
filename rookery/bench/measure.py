"""Fair measurements on a machine that is not idle."""

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

from rookery.errors import ConfigError, nearest


@dataclass
class Report:
    """The result of a benchmark, as `rookery bench NAME --json` prints it."""

    ratios: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What a reader should know: how it was measured, and what was left out."""

    def add_metric(self, name: str, value: float, unit: str) -> None:
        """Add a measured value."""
        self.metrics[name] = {"value": value, "unit": unit}

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, with a description of the machine."""
        return {
            "ratios": self.ratios,
            "figures": self.metrics,
            "notes": self.notes,
            "machine": machine(),
        }


def bench_names() -> list[str]:
    """Return the names of all benchmarks: the modules here that define `run`."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    # Read instead of imported, because importing torch takes seconds.
    return [file.stem for file in files if "\ndef run(" in file.read_text("utf-8")]


def run_bench(name: str, progress: Callable[[str], None] = lambda done: None) -> Report:
    """Measure speed, side by side with a plain implementation.

    Args:
        name: of the benchmark; `rookery bench` lists them.
        progress: called with what is being measured.
    """
    if name not in bench_names():
        raise ConfigError(f"unknown benchmark '{name}': {nearest(name, bench_names())}")
    report: Report = import_module(f"rookery.bench.{name}").run(progress)
    return report


def machine() -> dict[str, Any]:
    """Return what the measurements depend on."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def alternate(
    contenders: Mapping[str, Callable[[], float]], repeats: int = 5
) -> dict[str, float]:
    """Run contenders in alternating order; return the median rate of each."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for repeat in range(repeats):
        for name in names if repeat % 2 == 0 else reversed(names):
            rates[name].append(contenders[name]())
    return {name: statistics.median(values) for name, values in rates.items()}


def rate(work: Callable[[], None], amount: int) -> float:
    """Return `amount` per second of running `work` once."""
    started = time.perf_counter()
    work()
    return amount / (time.perf_counter() - started)

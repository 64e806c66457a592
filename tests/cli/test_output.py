"""What commands print for people."""

from __future__ import annotations

import io

from rich.console import Console

from rookery.bench.measure import Report
from rookery.cli.output import print_report


def test_the_notes_of_a_benchmark_are_printed_below_its_measurements() -> None:
    report = Report({"a / b": 2.0}, notes=["B is not installed."])
    report.add_metric("a", 3.0, "rounds/s")
    text = io.StringIO()

    print_report(Console(file=text, width=80), report)

    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert lines[1] == "a / b  2.00×"
    assert lines[-2:] == ["a                3  rounds/s", "B is not installed."]

"""Never torn: processes share memory at full speed, and planted bugs are found.

    python -m tests.stress.torn

One process plays, one per agent learns, main reads every boundary, and in async one more
process reads everything without being waited for. All use the product's own components and
share memory as a run does; only the game and the networks are missing. Every row, state,
snapshot and report that is read is compared with what it should be. The same comparison
must find each of the bugs in `torn_components.py`. The exit code is 1 if anything was torn,
or if a planted bug was not found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from rookery.supervisor.launcher import ONE_THREAD
from tests.paths import ROOT
from tests.stress.torn_components import BUGS, DAMAGED, NO_BUG, Case, planted
from tests.stress.torn_processes import VIOLATIONS, WRONG

END_SECONDS = 10.0
"""How long a process without further work may take to end."""


@dataclass(frozen=True)
class Sizes:
    """How many rounds are played."""

    pipelined: int = 20_000
    sync: int = 10_000
    asynchronous: int = 20_000
    planted: int = 400
    """With each planted bug."""


FULL = Sizes()


@dataclass(frozen=True)
class Outcome:
    """The result of a case."""

    findings: dict[str, int]
    """Counts by kind, of all processes together."""
    seconds: float
    rows: int
    """Committed, of all agents and worlds."""
    publications: int
    """Versions published, of all agents."""
    snapshots: int
    wraps: int
    """How often all slots were filled."""

    @property
    def used(self) -> int:
        """How often wrong data was used."""
        return sum(self.findings[kind] for kind in WRONG)

    @property
    def violations(self) -> int:
        """How often data was wrong, whether used or refused."""
        return sum(self.findings[kind] for kind in VIOLATIONS)


class Runner:
    """A process that runs cases, one after the other."""

    def __init__(self) -> None:
        module = "tests.stress.torn_processes"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(os.getpid())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Let it end, or kill it; the processes it started die with it."""
        if error is not None:
            self._process.kill()
        try:
            self._process.communicate(timeout=END_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()

    def run(self, case: Case) -> Outcome:
        """Run a case and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(case)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"case '{case.name}' ended without a result"
        return Outcome(**json.loads(line))


@dataclass
class Report:
    """What was counted, as lines of text, and what is wrong."""

    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        """Add a line."""
        self.lines.append(f"{name:66} {value:>14,.0f}  {unit}")


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Run the product in every schedule, then with every planted bug."""
    report = Report()
    with Runner() as runner:
        _run_product(runner, report, sizes, progress)
        _run_damaged(runner, report, sizes, progress)
        for name in BUGS:
            progress(f"planted: {name}")
            outcome = runner.run(planted(name, sizes.planted))
            refused = f"times, {outcome.findings['refused']} of them by the product itself"
            report.add(f"planted, {name}: found", outcome.violations, refused)
            if not outcome.violations:
                report.problems.append(f"planted bug not found: {name}")
    return report


def _run_product(
    runner: Runner, report: Report, sizes: Sizes, progress: Callable[[str], None]
) -> None:
    outcomes = []
    for case in (
        Case(NO_BUG, "pipelined", sizes.pipelined),
        Case(NO_BUG, "sync", sizes.sync),
        Case(NO_BUG, "async", sizes.asynchronous),
    ):
        progress(f"no bug, {case.schedule}, {case.rounds:,} rounds")
        outcome = runner.run(case)
        outcomes.append(outcome)
        for name, value, unit in (
            ("rows", outcome.rows, "committed"),
            ("publications", outcome.publications, "versions"),
            ("snapshots", outcome.snapshots, "published"),
            ("time", outcome.seconds, "seconds"),
            ("wraps", outcome.wraps / outcome.seconds, "per second"),
            ("compared", outcome.findings["compared"], "batches and states"),
            ("overtaken", outcome.findings["discarded"], "discarded"),
            ("violations", outcome.violations, "times"),
        ):
            report.add(f"{case.schedule}: {name}", value, unit)
        if outcome.violations:
            report.problems.append(f"{case.schedule}: violations: {outcome.findings}")
    report.add("all: rows", sum(x.rows for x in outcomes), "committed")
    report.add("all: publications", sum(x.publications for x in outcomes), "versions")
    report.add("all: violations", sum(x.violations for x in outcomes), "times")


def _run_damaged(
    runner: Runner, report: Report, sizes: Sizes, progress: Callable[[str], None]
) -> None:
    progress(DAMAGED)
    outcome = runner.run(Case(DAMAGED, "pipelined", sizes.planted))
    report.add("damaged memory: refused", outcome.findings["refused"], "times")
    report.add("damaged memory: used", outcome.used, "times")
    if outcome.used or not outcome.findings["refused"]:
        report.problems.append(f"damaged memory: not always refused: {outcome.findings}")


def main() -> None:
    """Run everything at full size, print the report, and exit."""
    report = run(lambda step: print(f"{step} …", file=sys.stderr, flush=True))
    print(*report.lines, *report.problems, sep="\n")
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()

"""Never torn: a live writer and readers at full speed, and planted bugs that are found.

One process plays, one per agent learns, main records, and in async one more looks on whom
nobody waits for. All use the product's own parts and share memory as a run does; only the
game and the networks are missing. Every row, state, snapshot and report that is read is
compared with what it must be. The same comparison must find each of the bugs in
`torn_bugs.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from rookery.bench.measure import Report
from rookery.errors import RookeryError
from rookery.supervisor.launcher import ONE_THREAD
from tests.paths import ROOT
from tests.stress.torn_bugs import BUGS, DAMAGED, HONEST
from tests.stress.torn_parts import VIOLATIONS, WRONG, Case

END_SECONDS = 10.0
"""How long a process that has nothing left to do may take to end."""


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
    """What came of a case."""

    found: dict[str, int]
    """Kind to how often it was found, by all processes together."""
    seconds: float
    rows: int
    """Committed, of all agents and worlds."""
    publications: int
    """Versions published, of all agents."""
    snapshots: int
    wraps: int
    """How often the slots were gone through."""

    @property
    def used(self) -> int:
        """How often something was used that was not as due."""
        return sum(self.found[kind] for kind in WRONG)

    @property
    def violations(self) -> int:
        """How often something was wrong, used or refused."""
        return sum(self.found[kind] for kind in VIOLATIONS)


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
        """Let it end, or kill it; those it started die with it."""
        if error is not None:
            self._process.kill()
        try:
            self._process.communicate(timeout=END_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()

    def run(self, case: Case) -> Outcome:
        """Return what came of a case.

        Raises:
            RookeryError: if the process could not even say what it found.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(case)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RookeryError(f"case '{case.name}' ended and did not say what it found.")
        return Outcome(**json.loads(line))


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Run the real code in every schedule, then every planted bug."""
    report = Report()
    with Runner() as runner:
        _run_honest(runner, report, sizes, progress)
        _run_planted(runner, report, sizes, progress)
    return report


def _run_honest(
    runner: Runner, report: Report, sizes: Sizes, progress: Callable[[str], None]
) -> None:
    outcomes = []
    for case in (
        Case(HONEST, "pipelined", sizes.pipelined),
        Case(HONEST, "sync", sizes.sync),
        Case(HONEST, "async", sizes.asynchronous),
    ):
        progress(f"the real code, {case.schedule}, {case.rounds:,} rounds")
        outcome = runner.run(case)
        outcomes.append(outcome)
        for name, value, unit in _figures(outcome):
            report.figure(f"{case.schedule}: {name}", value, unit)
    report.figure("all: rows", sum(x.rows for x in outcomes), "committed")
    report.figure("all: publications", sum(x.publications for x in outcomes), "versions")
    report.figure("all: violations", sum(x.violations for x in outcomes), "times")


def _run_planted(
    runner: Runner, report: Report, sizes: Sizes, progress: Callable[[str], None]
) -> None:
    progress(DAMAGED)
    damaged = runner.run(Case(DAMAGED, "pipelined", sizes.planted))
    report.figure("damaged memory: refused", damaged.found["refused"], "times")
    report.figure("damaged memory: used", damaged.used, "times")
    for name in BUGS:
        progress(f"planted: {name}")
        outcome = runner.run(planted(name, sizes.planted))
        refused = f"times, {outcome.found['refused']} of them by the product itself"
        report.figure(f"planted, {name}: found", outcome.violations, refused)


def _figures(outcome: Outcome) -> list[tuple[str, float, str]]:
    return [
        ("rows", outcome.rows, "committed"),
        ("publications", outcome.publications, "versions"),
        ("snapshots", outcome.snapshots, "published"),
        ("time", outcome.seconds, "seconds"),
        ("wraps", outcome.wraps / outcome.seconds, "per second"),
        ("compared", outcome.found["looked"], "batches and states"),
        ("overtaken", outcome.found["thrown away"], "thrown away"),
        ("violations", outcome.violations, "times"),
    ]


def planted(name: str, rounds: int, until_found: bool = False) -> Case:
    """Return the case of a planted bug, in the schedule in which it hurts."""
    return Case(name, BUGS[name][1], rounds, until_found=until_found)

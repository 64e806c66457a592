"""Draw configurations at random and check that runs that call themselves exact are exact.

    python experiments/drawn.py [--cases 1000] [--first 0] [--jobs 2] [--out FILE.json]
    python experiments/drawn.py --plant all [--cases 200]
    python experiments/drawn.py --case NUMBER | --line "rookery train …" [--thorough]

Each case is trained in one process; with every agent computed on its own; with one worker;
with two, of which one process may be killed; and once more with main killed at a random
time and the run resumed with another number of workers. All must give the same digests,
metrics, episodes, evaluations, recordings and weights, or say that they are not exact, and
why. Row hashes must match the rows, and evaluations the stored weights; an edited
config.toml and a damaged row must be refused; every death must be recorded; and in some
cases agents are altered to check that the others do not change.

A failing case is shrunk to one line that can be run by hand; `--keep` adds it to
drawn_found.txt, which the tests run from then on. `--plant` plants bugs in the program and
reports which case finds each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shlex
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from drawn_cases import ODD, SMALLEST, Case, draw_case
from drawn_plants import PLANTS
from drawn_runs import (
    Command,
    Ended,
    Flip,
    Outcome,
    differences,
    edit_config,
    evaluation_problems,
    fork,
    hash_problems,
    outcome_of,
    unrecorded_deaths,
)
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

FAILED_BEFORE = Path(__file__).with_name("drawn_found.txt")
TRIES = 30
"""How many cases are tried to simplify a failing one."""


@dataclass
class Trial:
    """The result of a case."""

    case: Case
    problems: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    """Counts of what happened: refused, killed, not exact and why."""
    seconds: float = 0.0


class CaseRunner:
    """Runs one case in all ways that must agree, in a folder."""

    def __init__(
        self, case: Case, folder: Path, draw: random.Random, thorough: bool
    ) -> None:
        self._case, self._folder, self._draw = case, folder, draw
        self._thorough = thorough
        self.trial = Trial(case)

    def run(self) -> Trial:
        """Run the case in all ways; without a reference there is nothing to compare."""
        started = time.monotonic()
        reference = self._reference()
        if reference is not None:
            self._compare("split", self._train("split", 0, split=True), reference)
            for workers in (1, 2):
                self._with_workers(workers, reference)
            self._killed(reference)
            self._independence()
        self.trial.seconds = time.monotonic() - started
        return self.trial

    def _happens(self, probability: float) -> bool:
        """Whether to do something that is done in only some cases."""
        return self._thorough or self._draw.random() < probability

    def _fail(self, name: str, problem: str) -> None:
        self.trial.problems.append(f"{name}: {problem}")

    def _start(self, name: str, workers: int, split: bool = False) -> Command:
        overrides = [*self._case.overrides, f"workers={workers}"]
        run = ["--run", str(self._folder / name), "--json"]
        arguments = ["train", self._case.game, *overrides, *run]
        return Command(arguments, self._folder / f"{name}.output", split)

    def _train(self, name: str, workers: int, split: bool = False) -> Ended:
        return self._start(name, workers, split).finish()

    def _outcome(self, name: str, ended: Ended) -> Outcome | None:
        """Return the results of a command; if it failed, None, and record the problem."""
        if ended.code != 0:
            self._fail(name, f"exit code {ended.code}: {ended.output[-600:]}")
            return None
        return outcome_of(self._folder / name, self._case)

    def _reference(self) -> Outcome | None:
        ended = self._train("one", 0)
        if ended.is_refusal:
            self.trial.notes[f"refused: {ended.output[:90]}"] += 1
            return None
        outcome = self._outcome("one", ended)
        if outcome is None:
            return None
        updates = sum(
            agent.get("updates") or 0
            for line in outcome.files["metrics.jsonl"]
            for agent in line["agents"].values()
        )
        self.trial.notes["made updates" if updates else "made no updates"] += 1
        for problem in hash_problems(self._folder / "one", self._case):
            self._fail("one", problem)
        for problem in evaluation_problems(self._folder / "one", self._case):
            self._fail("one", problem)
        return outcome

    def _compare(self, name: str, ended: Ended, reference: Outcome) -> None:
        outcome = self._outcome(name, ended)
        if outcome is None:
            return
        why = outcome.digest["why"]
        if not outcome.is_exact and not why:
            self._fail(name, "it is not exact and does not say why")
        if not (outcome.is_exact and reference.is_exact):
            self.trial.notes[f"not exact: {why}"] += 1
            if outcome.is_exact != reference.is_exact and name in ("split", "workers 1"):
                self._fail(name, f"not exact although undisturbed: {why}")
            return
        self.trial.notes["compared"] += 1
        for difference in differences(reference, outcome):
            self._fail(name, difference)

    def _with_workers(self, workers: int, reference: Outcome) -> None:
        """Train with workers; with two, a process is killed in half of the cases."""
        name, victim, killed_at = f"workers {workers}", None, 0.0
        command = self._start(name, workers)
        if workers == 2 and self._happens(0.5):
            self._await_random_time(command, name)
            victim, killed_at = command.kill_one(self._draw), time.time()
        self._compare(name, command.finish(), reference)
        if victim is not None:
            self.trial.notes["killed a process of the run"] += 1
            for problem in unrecorded_deaths(self._folder / name, victim, killed_at):
                self._fail(name, problem)

    def _await_random_time(self, command: Command, name: str) -> None:
        """Wait for a random time within a run."""
        metrics = self._folder / name / "metrics.jsonl"
        rounds = int((SMALLEST | self._case.settings)["rounds"])
        lines, delay = self._draw.randrange(rounds), self._draw.random() * 0.03
        command.wait_for(
            lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= lines
        )
        time.sleep(delay)

    def _killed(self, reference: Outcome) -> None:
        """Kill main once or twice, and resume with other numbers of workers."""
        name, folder = "killed", self._folder / "killed"
        workers = self._draw.sample([0, 1, 2], 3)
        command = self._start(name, workers[0])
        for number in workers[1:]:
            self._await_random_time(command, name)
            left = command.kill()
            if left:
                self._fail(name, f"processes {left} outlived main")
            if not (folder / "config.toml").exists():
                self.trial.notes["killed before the run existed"] += 1
                return
            self.trial.notes["killed main"] += 1
            if self._happens(0.3) and not self._refuses_edits():
                return
            if self._happens(0.5) and not self._refuses_damage():
                return
            command = self._resume(number)
            if self._draw.random() < 0.6:
                break
        self._compare(name, command.finish(), reference)

    def _resume(self, workers: int) -> Command:
        arguments = ["resume", str(self._folder / "killed"), f"workers={workers}", "--json"]
        return Command([*arguments, *self._case.code], self._folder / "killed.output")

    def _refuses_edits(self) -> bool:
        """Edit config.toml; return whether resuming is refused. Restores the file."""
        folder = self._folder / "killed"
        key, text = edit_config(folder, self._draw)
        ended = self._resume(0).finish()
        refused = ended.is_refusal and key in ended.output
        if not refused:
            self._fail(
                "edited", f"{key} was edited, and resume printed: {ended.output[-300:]}"
            )
        (folder / "config.toml").write_text(text)
        self.trial.notes["edited config.toml"] += 1
        return refused

    def _refuses_damage(self) -> bool:
        """Damage a row, if possible; return whether resuming is refused. Repairs it."""
        bit = Flip(self._folder / "killed", self._case, self._draw)
        if not bit.is_possible:
            return True
        bit.flip()
        ended = self._resume(self._draw.choice([0, 2])).finish()
        bit.flip()
        refused = ended.code != 0 and "is damaged" in ended.output
        if not refused:
            self._fail(
                "damaged", f"a row was damaged, and resume printed: {ended.output[-300:]}"
            )
        self.trial.notes["damaged a row"] += 1
        return refused

    def _independence(self) -> None:
        """Run `rookery independence` in some cases, because it is slow."""
        if self._happens(0.2):
            arguments = ["independence", str(self._folder / "one"), "--json"]
            arguments += self._case.code
            ended = Command(arguments, self._folder / "independence.output").finish()
            self.trial.notes["altered agents"] += 1
            if ended.code != 0:
                self._fail("independence", ended.output[-600:])


def try_case(case: Case, number: int, thorough: bool = False) -> Trial:
    """Run a case; the number decides when processes are killed."""
    draw = random.Random(f"moments {number}")
    with tempfile.TemporaryDirectory(prefix="drawn-") as folder:
        runner = CaseRunner(case, Path(folder), draw, thorough)
        try:
            return runner.run()
        except Exception:
            runner.trial.problems.append(traceback.format_exc())
            return runner.trial


def shrink(case: Case, number: int) -> tuple[Case, list[str]]:
    """Return the simplest failing case that was found, and its problems."""
    problems, tries, is_simpler = try_case(case, number).problems, 0, True
    while is_simpler and tries < TRIES:
        is_simpler = False
        for smaller in itertools.islice(case.smaller(), TRIES - tries):
            tries += 1
            smaller_problems = try_case(smaller, number).problems
            if smaller_problems:
                case, problems, is_simpler = smaller, smaller_problems, True
                break
    return case, problems


def cases_failed_before() -> list[Case]:
    """Return the cases of drawn_found.txt."""
    lines = FAILED_BEFORE.read_text().splitlines() if FAILED_BEFORE.exists() else []
    return [parse_case(line) for line in lines if line and not line.startswith("#")]


def parse_case(line: str) -> Case:
    """Return the case of a command; HERE stands for the folder of this file."""
    arguments = shlex.split(line.replace("HERE", str(ODD.parent)))
    game, *settings = arguments[arguments.index("train") + 1 :]
    return Case(game, dict(setting.split("=", 1) for setting in settings))


def keep_case(case: Case, why: str) -> None:
    """Add a case to drawn_found.txt."""
    line = case.command.replace(str(ODD.parent), "HERE")
    with FAILED_BEFORE.open("a") as file:
        file.write(f"\n# {why}\n{line}\n")


# Many cases at a time.


def in_parallel(jobs: int, work: Callable[[int], Iterator[Any]]) -> Iterator[Any]:
    """Yield what `work` yields in several processes, each called with its number."""

    def job(number: int, end: Connection) -> None:
        for result in work(number):
            end.send(result)

    pipes, children = [], []
    for number in range(jobs):
        mine, theirs = Pipe(duplex=False)
        children.append(fork(lambda n=number, end=theirs: job(n, end)))
        theirs.close()  # so that the pipe ends with the child
        pipes.append(mine)
    while pipes:
        for pipe in wait(pipes):
            try:
                yield pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                pipes.remove(pipe)  # type: ignore[arg-type]
    if any(child.wait() for child in children):
        raise RuntimeError("a process of this script failed")


def try_many(
    cases: Mapping[int, Case], jobs: int, thorough: bool
) -> Iterator[dict[str, Any]]:
    """Run some cases; yield their results."""

    def work(job: int) -> Iterator[dict[str, Any]]:
        for number in list(cases)[job::jobs]:
            trial = try_case(cases[number], number, thorough)
            result = dict(vars(trial), number=number, case=trial.case.command)
            result["kinds"] = sorted(set(trial.case.kinds()))
            if trial.problems:
                smaller, problems = shrink(trial.case, number)
                result |= {"smaller": smaller.command, "smaller_problems": problems}
            yield result

    return in_parallel(jobs, work)


def find_plant(name: str, cases: int) -> dict[str, Any]:
    """Plant a bug and return the first case that finds it, None if none does."""
    PLANTS[name]()
    for number in range(cases):
        problems = try_case(draw_case(number), number).problems
        if problems:
            return {"plant": name, "case": number, "problem": problems[0]}
    return {"plant": name, "case": None, "problem": ""}


def find_plants(names: Sequence[str], cases: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Look for planted bugs, each in a separate process."""

    def work(job: int) -> Iterator[dict[str, Any]]:
        for name in names[job::jobs]:
            yield from in_parallel(1, lambda _: iter([find_plant(name, cases)]))  # noqa: B023

    return in_parallel(jobs, work)


# Reports.


def show(console: Console, trials: Sequence[dict[str, Any]]) -> None:
    """Print how many cases had each feature, what happened, and what failed."""
    kinds = Counter(kind for trial in trials for kind in trial["kinds"])
    notes: Counter[str] = Counter()
    for trial in trials:
        notes.update(trial["notes"])
    for title, counts in (("cases with", kinds), ("what happened", notes)):
        table = Table(title, "times")
        for name, count in sorted(counts.items()):
            table.add_row(name, str(count))
        console.print(table)
    failed = [trial for trial in trials if trial["problems"]]
    for trial in failed:
        console.print(f"\ncase {trial['number']}:", *trial["problems"][:4], sep="\n  ")
        console.print(
            f"  shrunk: {trial['smaller']}", *trial["smaller_problems"][:2], sep="\n  "
        )
    console.print(f"\n{len(trials)} cases, {len(failed)} with unexplained differences")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="in parallel")
    parser.add_argument("--case", type=int, help="run only this case, without shrinking")
    parser.add_argument("--plant", choices=["all", *PLANTS], help="find this bug")
    parser.add_argument("--line", help="run only this command: rookery train …")
    parser.add_argument(
        "--thorough", action="store_true", help="do everything in every case"
    )
    parser.add_argument(
        "--found", action="store_true", help="run the cases of drawn_found.txt"
    )
    parser.add_argument(
        "--keep", action="store_true", help="add failing cases to drawn_found.txt"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def run_single(options: argparse.Namespace, console: Console) -> bool:
    """Run one case; return whether it has no problems."""
    case = parse_case(options.line) if options.line else draw_case(options.case)
    trial = try_case(case, options.case or 0, options.thorough)
    console.print(trial.case.command, dict(trial.notes), *trial.problems, sep="\n")
    return not trial.problems


def run_plants(options: argparse.Namespace, console: Console) -> bool:
    """Plant bugs; return whether all were found."""
    names = list(PLANTS) if options.plant == "all" else [options.plant]
    results = []
    for result in find_plants(names, options.cases, options.jobs):
        results.append(result)
        case = "NOT FOUND" if result["case"] is None else f"case {result['case']}"
        console.print(f"{result['plant']:40} {case:10} {result['problem'][:90]}")
    _write(options.out, results)
    return all(result["case"] is not None for result in results)


def run_many(options: argparse.Namespace, console: Console) -> bool:
    """Run many cases; return whether none has problems."""
    numbers = range(options.first, options.first + options.cases)
    cases = {number: draw_case(number) for number in numbers}
    if options.found:
        cases = dict(enumerate(cases_failed_before()))
    trials: list[dict[str, Any]] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("drawn cases", total=len(cases))
        for trial in try_many(cases, options.jobs, options.thorough):
            trials.append(trial)
            progress.advance(task)
            if not sys.stderr.isatty() and len(trials) % 50 == 0:
                print(f"{len(trials)} of {len(cases)} cases", file=sys.stderr, flush=True)
            if trial["problems"]:
                smaller, problem = trial["smaller"], trial["smaller_problems"][0]
                console.print(f"case {trial['number']}: {smaller}\n    {problem[:300]}")
                if options.keep:
                    keep_case(parse_case(smaller), problem[:80])
    show(console, trials)
    _write(options.out, trials)
    return not any(trial["problems"] for trial in trials)


def main() -> None:
    """Run what the options say, report, and exit with 1 if something is wrong."""
    options, console = parse(), Console(highlight=False, markup=False)
    if options.case is not None or options.line:
        is_right = run_single(options, console)
    elif options.plant:
        is_right = run_plants(options, console)
    else:
        is_right = run_many(options, console)
    sys.exit(not is_right)


def _write(path: Path | None, report: Any) -> None:
    if path:
        path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

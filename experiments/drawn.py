"""Configurations that a machine draws: whatever calls itself exact must be exact.

    python experiments/drawn.py [--cases 1000] [--first 0] [--jobs 2] [--out FILE.json]
    python experiments/drawn.py --plant all [--cases 200]
    python experiments/drawn.py --case NUMBER | --line "rookery train …" [--thorough]

Each drawn case is trained in one process, with every agent computed alone, with one
worker, with two (of which some process may be killed), and once more with main killed at
some moment and the run resumed with another number of workers. All must leave the same
digests, metrics, episodes, evaluations, recordings and weights, or say that they are not
exact, and why. Row hashes must be those of the rows, evaluations those of the kept weights;
an edited config.toml and a damaged row must be refused; every death must be on record; and
in some cases agents are altered to see that the others do not notice.

What fails is shrunk to one line that can be run by hand; `--keep` adds it to
drawn_found.txt, which the tests run from then on. `--plant` puts bugs into the program and
looks how many cases it takes to find each.
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
    fork,
    hash_problems,
    outcome_of,
    replayed_problems,
    unrecorded_deaths,
)
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

FOUND = Path(__file__).with_name("drawn_found.txt")
TRIES = 30
"""Cases that are tried to make a failing one simpler."""


@dataclass
class Trial:
    """What became of a case."""

    case: Case
    problems: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    """What happened, counted: refused, killed, not exact and why."""
    seconds: float = 0.0


class Bench:
    """Runs all that must agree of one case, in a folder of its own."""

    def __init__(
        self, case: Case, folder: Path, draw: random.Random, thorough: bool
    ) -> None:
        self._case, self._folder, self._draw = case, folder, draw
        self._thorough = thorough
        self.trial = Trial(case)

    def run(self) -> Trial:
        """Try everything; stop at what makes the rest meaningless."""
        started = time.monotonic()
        reference = self._reference()
        if reference is not None:
            self._compare("alone", self._train("alone", 0, alone=True), reference)
            for workers in (1, 2):
                self._with_workers(workers, reference)
            self._killed(reference)
            self._independence()
        self.trial.seconds = time.monotonic() - started
        return self.trial

    def _happens(self, chance: float) -> bool:
        """Whether to do something that is not done to every case."""
        return self._thorough or self._draw.random() < chance

    def _fail(self, where: str, what: str) -> None:
        self.trial.problems.append(f"{where}: {what}")

    def _start(self, name: str, workers: int, alone: bool = False) -> Command:
        run = ["--run", str(self._folder / name), "--json"]
        words = ["train", self._case.game, *self._case.words, f"workers={workers}", *run]
        return Command(words, self._folder / f"{name}.said", alone)

    def _train(self, name: str, workers: int, alone: bool = False) -> Ended:
        return self._start(name, workers, alone).finish()

    def _outcome(self, name: str, ended: Ended) -> Outcome | None:
        """Return what a command left behind; None, and a problem, if it failed."""
        if ended.code != 0:
            self._fail(name, f"exit code {ended.code}: {ended.said[-600:]}")
            return None
        return outcome_of(self._folder / name, self._case)

    def _reference(self) -> Outcome | None:
        ended = self._train("one", 0)
        if ended.is_refusal:
            self.trial.notes[f"refused: {ended.said[:90]}"] += 1
            return None
        found = self._outcome("one", ended)
        if found is None:
            return None
        updates = sum(
            agent.get("updates") or 0
            for line in found.files["metrics.jsonl"]
            for agent in line["agents"].values()
        )
        self.trial.notes["made updates" if updates else "made no update"] += 1
        for problem in hash_problems(self._folder / "one", self._case):
            self._fail("one", problem)
        for problem in replayed_problems(self._folder / "one", self._case):
            self._fail("one", problem)
        return found

    def _compare(self, name: str, ended: Ended, reference: Outcome) -> None:
        found = self._outcome(name, ended)
        if found is None:
            return
        if not found.is_exact and not found.digest["why"]:
            self._fail(name, "it says that it is not exact, and not why")
        if not (found.is_exact and reference.is_exact):
            self.trial.notes[f"not exact: {found.digest['why']}"] += 1
            if found.is_exact != reference.is_exact and name in ("alone", "workers 1"):
                self._fail(name, f"not exact, but unbroken: {found.digest['why']}")
            return
        self.trial.notes["compared"] += 1
        for difference in differences(reference, found):
            self._fail(name, difference)

    def _with_workers(self, workers: int, reference: Outcome) -> None:
        """Train with workers; in half of the cases with two a process is killed."""
        name, victim, killed_at = f"workers {workers}", None, 0.0
        command = self._start(name, workers)
        if workers == 2 and self._happens(0.5):
            self._await_moment(command, name)
            victim, killed_at = command.kill_one(self._draw), time.time()
        self._compare(name, command.finish(), reference)
        if victim is not None:
            self.trial.notes["killed a process of the run"] += 1
            for problem in unrecorded_deaths(self._folder / name, victim, killed_at):
                self._fail(name, problem)

    def _await_moment(self, command: Command, name: str) -> None:
        """Wait for a random moment of a run."""
        metrics = self._folder / name / "metrics.jsonl"
        rounds = int((SMALLEST | self._case.settings)["rounds"])
        lines, delay = self._draw.randrange(rounds), self._draw.random() * 0.03
        command.wait_for(
            lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= lines
        )
        time.sleep(delay)

    def _killed(self, reference: Outcome) -> None:
        """Kill main, perhaps twice, and go on with other numbers of workers."""
        name, folder = "killed", self._folder / "killed"
        workers = self._draw.sample([0, 1, 2], 3)
        command = self._start(name, workers[0])
        for number in workers[1:]:
            self._await_moment(command, name)
            left = command.kill()
            if left:
                self._fail(name, f"processes {left} outlive main")
            if not (folder / "config.toml").exists():
                self.trial.notes["killed before there was a run"] += 1
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
        words = ["resume", str(self._folder / "killed"), f"workers={workers}", "--json"]
        return Command([*words, *self._case.code], self._folder / "killed.said")

    def _refuses_edits(self) -> bool:
        """Whether a run whose config.toml was edited is refused; it is put back then."""
        folder = self._folder / "killed"
        key, text = edit_config(folder, self._draw)
        ended = self._resume(0).finish()
        refused = ended.is_refusal and key in ended.said
        if not refused:
            self._fail("edited", f"{key} was edited, and resume said: {ended.said[-300:]}")
        (folder / "config.toml").write_text(text)
        self.trial.notes["edited config.toml"] += 1
        return refused

    def _refuses_damage(self) -> bool:
        """Whether a damaged row ends the run, if there is one to damage; it is mended."""
        bit = Flip(self._folder / "killed", self._case, self._draw)
        if not bit.is_possible:
            return True
        bit.flip()
        ended = self._resume(self._draw.choice([0, 2])).finish()
        bit.flip()
        refused = ended.code != 0 and "is damaged" in ended.said
        if not refused:
            self._fail(
                "damaged", f"a row was damaged, and resume said: {ended.said[-300:]}"
            )
        self.trial.notes["damaged a row"] += 1
        return refused

    def _independence(self) -> None:
        """Alter one agent after the other, in some of the cases; it takes a while."""
        if self._happens(0.2):
            words = ["independence", str(self._folder / "one"), "--json", *self._case.code]
            ended = Command(words, self._folder / "independence.said").finish()
            self.trial.notes["altered agents"] += 1
            if ended.code != 0:
                self._fail("independence", ended.said[-600:])


def try_case(case: Case, number: int, thorough: bool = False) -> Trial:
    """Try a case; the number decides where it is killed."""
    draw = random.Random(f"moments {number}")
    with tempfile.TemporaryDirectory(prefix="drawn-") as folder:
        bench = Bench(case, Path(folder), draw, thorough)
        try:
            return bench.run()
        except Exception:
            bench.trial.problems.append(traceback.format_exc())
            return bench.trial


def shrink(case: Case, number: int) -> tuple[Case, list[str]]:
    """Return the simplest case found that fails, too, and how."""
    problems, tries, is_simpler = try_case(case, number).problems, 0, True
    while is_simpler and tries < TRIES:
        is_simpler = False
        for smaller in itertools.islice(case.smaller(), TRIES - tries):
            tries += 1
            found = try_case(smaller, number).problems
            if found:
                case, problems, is_simpler = smaller, found, True
                break
    return case, problems


def found_cases() -> list[Case]:
    """Return the cases that have failed once."""
    lines = FOUND.read_text().splitlines() if FOUND.exists() else []
    return [parse_case(line) for line in lines if line and not line.startswith("#")]


def parse_case(line: str) -> Case:
    """Return the case of a command; HERE stands for the folder of this file."""
    words = shlex.split(line.replace("HERE", str(ODD.parent)))
    game, *settings = words[words.index("train") + 1 :]
    return Case(game, dict(word.split("=", 1) for word in settings))


def keep_case(case: Case, why: str) -> None:
    """Let the tests run a case from now on."""
    line = case.command.replace(str(ODD.parent), "HERE")
    with FOUND.open("a") as file:
        file.write(f"\n# {why}\n{line}\n")


# Many cases at a time.


def in_parallel(jobs: int, work: Callable[[int], Iterator[Any]]) -> Iterator[Any]:
    """Give what several processes yield, each called with its number."""

    def job(number: int, end: Connection) -> None:
        for one in work(number):
            end.send(one)

    pipes, children = [], []
    for number in range(jobs):
        mine, theirs = Pipe(duplex=False)
        children.append(fork(lambda n=number, end=theirs: job(n, end)))
        theirs.close()  # so that the last word of a child ends its pipe
        pipes.append(mine)
    while pipes:
        for pipe in wait(pipes):
            try:
                yield pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                pipes.remove(pipe)  # type: ignore[arg-type]
    if any(child.wait() for child in children):
        raise RuntimeError("a process of the benchmark itself failed")


def try_many(
    cases: Mapping[int, Case], jobs: int, thorough: bool
) -> Iterator[dict[str, Any]]:
    """Try some cases, by number; give what became of each."""

    def work(job: int) -> Iterator[dict[str, Any]]:
        for number in list(cases)[job::jobs]:
            trial = try_case(cases[number], number, thorough)
            about = dict(vars(trial), case=trial.case.command)
            about["kinds"] = sorted(set(trial.case.kinds()))
            if trial.problems:
                smaller, problems = shrink(trial.case, number)
                about |= {"smaller": smaller.command, "smaller_problems": problems}
            yield {"number": number, **about}

    return in_parallel(jobs, work)


def find_plant(name: str, cases: int) -> dict[str, Any]:
    """Plant a bug and return in which case it was found, None if in none."""
    PLANTS[name]()
    for number in range(cases):
        problems = try_case(draw_case(number), number).problems
        if problems:
            return {"plant": name, "case": number, "problem": problems[0]}
    return {"plant": name, "case": None, "problem": ""}


def find_plants(names: Sequence[str], cases: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Look for some planted bugs, each in a process that has just that one."""

    def work(job: int) -> Iterator[dict[str, Any]]:
        for name in names[job::jobs]:
            yield from in_parallel(1, lambda _: iter([find_plant(name, cases)]))  # noqa: B023

    return in_parallel(jobs, work)


# Reports.


def show(console: Console, trials: Sequence[dict[str, Any]]) -> None:
    """Print how many cases of each kind there were, and what failed."""
    kinds = Counter(kind for one in trials for kind in one["kinds"])
    notes: Counter[str] = Counter()
    for one in trials:
        notes.update(one["notes"])
    for title, counts in (("cases with", kinds), ("what happened", notes)):
        table = Table(title, "times")
        for name, count in sorted(counts.items()):
            table.add_row(name, str(count))
        console.print(table)
    failed = [one for one in trials if one["problems"]]
    for one in failed:
        console.print(f"\ncase {one['number']}:", *one["problems"][:4], sep="\n  ")
        console.print(
            f"  shrunk: {one['smaller']}", *one["smaller_problems"][:2], sep="\n  "
        )
    console.print(f"\n{len(trials)} cases, {len(failed)} with unexplained differences")


def parse() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", type=int, help="only this one, without shrinking")
    parser.add_argument("--plant", choices=["all", *PLANTS])
    parser.add_argument("--line", help="only this one, as a command: rookery train …")
    parser.add_argument("--thorough", action="store_true", help="do all to every case")
    parser.add_argument("--found", action="store_true", help="those of drawn_found.txt")
    parser.add_argument("--keep", action="store_true", help="keep what fails for the tests")
    parser.add_argument("--out", type=Path, help="JSON to write")
    return parser.parse_args()


def main() -> None:
    """Draw, try and report."""
    asked, console = parse(), Console(highlight=False, markup=False)
    if asked.case is not None or asked.line:
        case = parse_case(asked.line) if asked.line else draw_case(asked.case)
        trial = try_case(case, asked.case or 0, asked.thorough)
        console.print(trial.case.command, dict(trial.notes), *trial.problems, sep="\n")
        sys.exit(bool(trial.problems))
    if asked.plant:
        names = list(PLANTS) if asked.plant == "all" else [asked.plant]
        report, missed = [], 0
        for found in find_plants(names, asked.cases, asked.jobs):
            report.append(found)
            missed += found["case"] is None
            where = f"case {found['case']}" if found["case"] is not None else "NOT FOUND"
            console.print(f"{found['plant']:40} {where:10} {found['problem'][:90]}")
        _write(asked.out, report)
        sys.exit(bool(missed))
    numbers = range(asked.first, asked.first + asked.cases)
    cases = {number: draw_case(number) for number in numbers}
    if asked.found:
        cases = dict(enumerate(found_cases()))
    trials: list[dict[str, Any]] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("drawn cases", total=len(cases))
        for one in try_many(cases, asked.jobs, asked.thorough):
            trials.append(one)
            progress.advance(task)
            if not sys.stderr.isatty() and len(trials) % 50 == 0:
                print(f"{len(trials)} of {len(cases)} cases", file=sys.stderr, flush=True)
            if one["problems"]:
                console.print(f"case {one['number']}: {one['smaller']}")
                console.print(f"    {one['smaller_problems'][0][:300]}")
                if asked.keep:
                    keep_case(parse_case(one["smaller"]), one["smaller_problems"][0][:80])
    show(console, trials)
    _write(asked.out, trials)
    sys.exit(any(one["problems"] for one in trials))


def _write(path: Path | None, report: Any) -> None:
    if path:
        path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

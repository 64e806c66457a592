"""Submitting a sweep to Slurm: a job array whose tasks take cells until none is free.

Any number of tasks can share a sweep, so an array needs no relation between its indices and
cells. Its tasks save and go back into the queue when their time is over, and continue with
whatever cell is free then.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rookery.config.messages import shown
from rookery.errors import ConfigError, RookeryError
from rookery.printing import command
from rookery.runs.folder import SWEEP
from rookery.storage.files import replace_whole
from rookery.sweeps.cells import FAILED, STOPPED, WAITING, forget_failures, state_of
from rookery.sweeps.plan import Plan
from rookery.sweeps.saving import saving_seconds
from rookery.sweeps.slurm_script import SCRIPT, SLURM, script_text

MARGIN_SECONDS = 30.0
"""From a signal to the start of saving, and from its end to the task's."""
NAME = re.compile(r"[a-z][a-z0-9-]+")
ARRAY = "array"
INDICES = re.compile(r"%[1-9]\d*|\d[\d,:-]*(%[1-9]\d*)?")
OURS = {
    "chdir": "files of yours are found from the folder where the command is run",
    "no-requeue": "a task whose time is over is put back into the queue",
    "open-mode": "a task that is started again continues its log",
    "parsable": "the id of the job is read from what sbatch prints",
    "requeue": "it is always set",
    "test-only": "use --dry-run",
    "wait": "the command returns at once",
    "wrap": "the script is that of the sweep",
}
"""Options of sbatch that cannot be chosen, and why."""


class Refused(RookeryError):
    """Slurm did not accept a job."""


@dataclass(frozen=True)
class Option:
    """An option of sbatch, without its dashes."""

    name: str
    value: str | None

    def __str__(self) -> str:
        return f"--{self.name}" + ("" if self.value is None else f"={self.value}")


@dataclass(frozen=True)
class Job:
    """A job array that Slurm has accepted."""

    id: str
    array: str
    """Its indices, as Slurm writes them."""


@dataclass(frozen=True)
class Submission:
    """What was submitted."""

    cells: int
    """How many cells are left to train."""
    jobs: tuple[Job, ...]
    script: Path
    notes: tuple[str, ...]
    """What Slurm said besides, and what it did not accept."""


def parse_option(word: str) -> Option:
    """Return an option of sbatch, written as account=NAME or --account=NAME.

    Raises:
        ConfigError: if it is not one, or cannot be chosen.
    """
    name, equals, value = word.removeprefix("--").partition("=")
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--slurm {shown(word)} is not an option of sbatch: write its long name, such "
            "as account=NAME, partition=NAME, time=4:00:00 or exclusive."
        )
    if name in OURS:
        raise ConfigError(f"--slurm {name} cannot be given: {OURS[name]}.")
    if name == ARRAY and not INDICES.fullmatch(value):
        raise ConfigError(
            f"--slurm {shown(word)} is not an array: write array=%20 for 20 tasks at a "
            "time, or indices, such as array=0-9."
        )
    return Option(name, value if equals else None)


def check_slurm() -> None:
    """Check that this machine can submit jobs.

    Raises:
        ConfigError: if it has no sbatch, or no cluster answers.
    """
    largest_array()


def largest_array() -> int:
    """Return how many tasks a job array of this cluster can have."""
    text = _run(["scontrol", "show", "config"]).stdout
    limits = re.findall(r"\b(?:MaxArraySize *=|max_array_tasks=) *(\d+)", text)
    if not limits:
        raise ConfigError(
            "`scontrol show config` does not say how large job arrays may be "
            "(MaxArraySize): ask who runs the cluster."
        )
    if min(map(int, limits)) < 1:
        raise ConfigError(
            "this cluster has no job arrays (MaxArraySize is 0): start `rookery sweep "
            "work FOLDER` in jobs of your own."
        )
    return min(map(int, limits))


def arrays(cells: int, wanted: str | None, largest: int) -> list[str]:
    """Return the indices of every job array that is needed, as sbatch takes them.

    Args:
        cells: how many are left; more tasks would have nothing to do.
        wanted: what the user has asked for: indices, or %N for N tasks at the same time.
        largest: how many tasks an array can have.
    """
    if wanted and not wanted.startswith("%"):
        return [wanted]
    if wanted:  # one array is enough: its tasks take cells until none is left
        return [f"0-{min(cells, largest) - 1}{wanted}"]
    sizes = [min(largest, cells - first) for first in range(0, cells, largest)]
    return [f"0-{size - 1}" for size in sizes]


def cells_left(plan: Plan) -> int:
    """Return how many cells nobody trains and that are not done."""
    states = [state_of(plan, cell) for cell in plan.cells]
    return sum(state in (WAITING, STOPPED, FAILED) for state in states)


def submit(plan: Plan, options: Sequence[Option]) -> Submission:
    """Submit all cells of a sweep that nobody trains; failed ones are tried again.

    Args:
        plan: of the sweep.
        options: for sbatch; they replace those that would be set otherwise.

    Raises:
        ConfigError: if this machine cannot submit jobs.
        Refused: if Slurm does not accept the job.
    """
    largest = largest_array()
    forget_failures(plan)
    # With links as they are: other nodes may have them lead elsewhere.
    sweep = Path(os.path.abspath(plan.folder))
    script, cells = sweep / SLURM / SCRIPT, cells_left(plan)
    if not cells:
        return Submission(0, (), script, ())
    wanted = {option.name: option.value for option in options}.get(ARRAY)
    indices = arrays(cells, wanted, largest)
    words = [str(x) for x in _with_defaults(plan, sweep, options) if x.name != ARRAY]
    script.parent.mkdir(exist_ok=True)
    first = _sbatch(words, indices[0], script)
    replace_whole(script, _script(plan, sweep, options, first).encode())
    jobs, notes = list[Job](), list[str]()
    for array in indices:
        try:
            job, said = _submit(_sbatch(words, array, script), array)
        except Refused as error:
            if not jobs:
                again = _again(plan, plan.folder, options)
                raise Refused(f"{error}; then: {again}") from None
            left = len(indices) - len(jobs)
            notes.append(
                f"{left} of {len(indices)} job arrays were not submitted ({error}): the "
                "tasks of the others train their cells."
            )
            break
        jobs.append(job)
        notes += said
    return Submission(cells, tuple(jobs), script, tuple(notes))


def _with_defaults(plan: Plan, sweep: Path, options: Sequence[Option]) -> list[Option]:
    """Return all options of sbatch except the array."""
    seconds = math.ceil(saving_seconds(plan) + MARGIN_SECONDS)
    logs = str(sweep / SLURM).replace("%", "%%") + "/%A_%a.log"
    defaults = [
        Option("job-name", sweep.name),
        Option("cpus-per-task", str(processes_per_cell(plan))),
        Option("output", logs),
        Option("signal", f"B:USR1@{seconds}"),
    ]
    given = {option.name for option in options}
    fixed = [
        Option("requeue", None),
        Option("open-mode", "append"),
        Option("chdir", os.getcwd()),
    ]
    return [*(x for x in defaults if x.name not in given), *options, *fixed]


def processes_per_cell(plan: Plan) -> int:
    """Return how many processes the cell with the most has."""
    most = 1
    for cell in {cell.group.folder: cell for cell in plan.cells}.values():
        workers, actors = cell.config.workers, cell.config.actors
        if isinstance(workers, int) and workers:
            most = max(most, workers + (actors if isinstance(actors, int) else 1))
    return most


def _sbatch(words: Sequence[str], array: str, script: Path) -> list[str]:
    """Return the command: arguments take precedence over SBATCH_… in the environment."""
    return ["sbatch", "--parsable", *words, f"--{ARRAY}={array}", str(script)]


def _script(
    plan: Plan, sweep: Path, options: Sequence[Option], submission: Sequence[str]
) -> str:
    # With -P, files in the current folder cannot shadow modules.
    python = [sys.executable, "-P", "-m", "rookery"]
    names = [name for name in ("PYTHONPATH",) if name in os.environ]
    return script_text(
        sweep=sweep,
        train=[*python, "sweep", "work", str(sweep), *plan.named.arguments()],
        submission=submission,
        again=_again(plan, sweep, options),
        environment={name: os.environ[name] for name in names},
        chdir=Path.cwd(),
        plan=SWEEP,
    )


def _again(plan: Plan, sweep: Path, options: Sequence[Option]) -> str:
    """Return the command that submits what is left."""
    words = [word for option in options for word in ("--slurm", str(option)[2:])]
    named = plan.named.arguments()
    return command("sweep", "go", sweep, *named, "--on", "slurm", *words)


def _submit(words: Sequence[str], array: str) -> tuple[Job, list[str]]:
    """Submit a job; return it, and what Slurm said besides."""
    done = _run(words)
    job = done.stdout.strip().rpartition("\n")[2].partition(";")[0]
    if not job.isdecimal():
        raise Refused(f"sbatch printed no job id but {shown(done.stdout.strip())}")
    return Job(job, array), _lines(done.stderr)


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm.

    Raises:
        ConfigError: if it is not there.
        Refused: if it fails, in its own words.
    """
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ConfigError(
            f"Slurm's {words[0]} cannot be run here ({error.strerror}): submit from a "
            "machine of the cluster, or train on this one with --on local."
        ) from error
    if done.returncode:
        said = "; ".join(_lines(done.stderr) or _lines(done.stdout))
        said = said or f"exit code {done.returncode}"
        raise Refused(f"{words[0]} failed: {said.rstrip('.')}")
    return done


def _lines(text: str) -> list[str]:
    """Return the lines of a message of Slurm, without the name of its program."""
    lines = (re.sub(r"^\w+: (error: )?", "", x.strip()) for x in text.splitlines())
    return [line for line in lines if line]

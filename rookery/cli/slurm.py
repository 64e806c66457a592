"""`rookery sweep … --on slurm`: submit a sweep, and return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.errors import ConfigError
from rookery.printing import command, print_json, say, tell

if TYPE_CHECKING:
    from rookery.sweeps.plan import Plan
    from rookery.sweeps.slurm import Option

SlurmOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--slurm",
        metavar="OPTION",
        help="With --on slurm, an option of sbatch: account=NAME, partition=NAME, "
        "time=4:00:00, mem=4G, array=%20 for 20 tasks at a time. Can be repeated.",
    ),
]


def options_of(words: Sequence[str] | None, until: str | None) -> list[Option]:
    """Return the options for sbatch; called before anything is written.

    Raises:
        ConfigError: if one is wrong, or there is no Slurm.
    """
    if until is not None:
        raise ConfigError(
            "--until does not go with --on slurm: give tasks a time limit, such as "
            "--slurm time=4:00:00; when it is over, they go on later."
        )
    from rookery.sweeps.slurm import check_slurm, parse_option

    options = [parse_option(word) for word in words or []]
    check_slurm()
    return options


def submit_sweep(plan: Plan, options: Sequence[Option], as_json: bool) -> None:
    """Submit what is left of a sweep, and say how to look at it."""
    from rookery.sweeps.slurm import submit

    submission = submit(plan, options)
    for note in submission.notes:
        say(f"warning: {note}")
    if as_json:
        print_json(
            {
                "sweep": str(plan.folder),
                "cells": submission.cells,
                "jobs": [asdict(job) for job in submission.jobs],
                "script": str(submission.script),
            }
        )
        return
    status = command("sweep", "status", plan.folder)
    if not submission.jobs:
        tell(f"{plan.folder}: no cell is left that nobody trains. Look with: {status}")
        return
    jobs = " and ".join(f"job {job.id} (tasks {job.array})" for job in submission.jobs)
    ids = ",".join(job.id for job in submission.jobs)
    cells = "1 cell" if submission.cells == 1 else f"{submission.cells} cells"
    tell(
        f"{plan.folder}: submitted {jobs} for {cells}. Look with: {status}, "
        f"squeue --job={ids}"
    )

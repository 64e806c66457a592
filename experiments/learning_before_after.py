"""Whether agents still learn as well as in an earlier version of the code.

    git worktree add /tmp/before 3b77b4c
    python experiments/learning_before_after.py --before /tmp/before --out FOLDER

Both versions train the same settings with the same seeds, on the same interpreter and
libraries. Where arithmetic or exploration has changed, runs with one seed have nothing in
common any more, so seeds are not paired. Printed for every part: both means, their
difference and its one-sided 95 % bound.

FOLDER/runs.jsonl gets a line per finished run. Finished runs are not repeated, so the
script can be interrupted and restarted at any time; runs of another commit count as others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cartpole
import numpy as np
import published
from batch import overrides, rookery, run_all
from comparisons import unpaired_difference
from rich.console import Console
from rich.table import Table

AFTER = Path(__file__).resolve().parents[1]
SIDES = ("before", "after")
NAMES = ("part", "commit", "seed", "rounds", "episodes")
"""What a run is recognised by."""
Run = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A game, its settings, and what is required of the difference."""

    game: str
    settings: Mapping[str, Any]
    seeds: int
    episodes: int
    tolerated: float | None
    """The lowest acceptable bound; None if the means are only reported."""
    goal: float | None = None
    """Differences are shares of the way from random play to this score."""


def cartpole_part(algorithm: str) -> Part:
    """Return four CartPoles with one algorithm."""
    settings = {
        **cartpole.CARTPOLES,
        **cartpole.SETTINGS[algorithm],
        "algorithm": algorithm,
    }
    return Part(cartpole.CARTPOLE_GAME, settings, 20, cartpole.EPISODES, -0.03)


SPREAD = published.CASES["spread"]
PARTS = {
    "treasurehunt": Part("treasurehunt", {"rounds": 60, "workers": 0}, 20, 50, -0.03),
    "cartpole, dqn": cartpole_part("dqn"),
    "cartpole, ppo": cartpole_part("ppo"),
    "spread, dqn": Part(
        SPREAD.game,
        {
            "algorithm": "dqn",
            **published.COMMON,
            **SPREAD.settings,
            **published.SETTINGS["spread", "dqn"],
        },
        5,
        published.EPISODES,
        -0.10,
        goal=SPREAD.published,
    ),
    "demo": Part("treasurehunt", {"rounds": 170, "workers": 0}, 10, 50, None),
}
"""`demo` is what `make demo` trains."""


def train(
    checkouts: Mapping[str, Path],
    name: str,
    commit: str,
    seed: int,
    rounds: int,
    episodes: int,
) -> Run:
    """Train and evaluate one run; return the mean returns of trained and random agents."""
    part, checkout = PARTS[name], checkouts[commit]
    settings = {**part.settings, "rounds": rounds, "seed": seed}
    call = partial(rookery, checkout=checkout)
    with tempfile.TemporaryDirectory() as folder:
        run, started = Path(folder) / "run", time.monotonic()
        call("train", part.game, *overrides(settings), "--run", run)
        seconds = time.monotonic() - started
        result = call("evaluate", run, "--game", part.game, f"evaluate.episodes={episodes}")
    means = {name: play["mean"] for name, play in result["players"].items()}
    return {"score": means["trained"], "random": means["random"], "seconds": seconds}


def commit_of(checkout: Path) -> str:
    """Return the commit of a checkout, after checking that its code is what runs."""
    command = [sys.executable, "-P", "-c", "import rookery; print(rookery.__file__)"]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    expected = str(checkout / "rookery" / "__init__.py")
    if done.stdout.strip() != expected:
        raise SystemExit(
            f"`import rookery` gives {done.stdout.strip() or 'an error'}, expected "
            f"{expected}: --before must be the folder of a checkout."
        )
    describe = [
        "git",
        "-C",
        str(checkout),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
    ]
    return subprocess.run(
        describe, capture_output=True, text=True, check=True
    ).stdout.strip()


def compare(part: Part, before: Sequence[Run], after: Sequence[Run]) -> dict[str, Any]:
    """Return both means, their difference and its bound, and whether that is enough."""
    scores = [[run["score"] for run in runs] for runs in (before, after)]
    scale = None
    if part.goal is not None:
        scale = part.goal - float(np.mean([run["random"] for run in (*before, *after)]))
    difference, bound = unpaired_difference(scores[1], scores[0], scale)
    return {
        "before": scores[0],
        "after": scores[1],
        "difference": difference,
        "lower_bound": bound,
        "tolerated": part.tolerated,
        "holds": None if part.tolerated is None else bound > part.tolerated,
    }


def show(console: Console, report: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the comparison of every part."""
    table = Table(
        "part", "seeds", "before", "after", "difference", "bound", "required", "", box=None
    )
    for name, result in report.items():
        counts = {len(result[side]) for side in SIDES}
        required, verdict = "", ""
        if result["tolerated"] is not None:
            required = f"above {result['tolerated']:+.0%}"
            verdict = "holds" if result["holds"] else "does not hold"
        table.add_row(
            name,
            " and ".join(map(str, sorted(counts))),
            *(f"{np.mean(result[side]):.2f}" for side in SIDES),
            f"{result['difference']:+.1%}",
            f"{result['lower_bound']:+.1%}",
            required,
            verdict,
        )
    console.print(table)


def main() -> None:
    """Train the runs that are not finished, and report."""
    options = parse()
    folders = (options.before.resolve(), AFTER)
    commits = dict(zip(SIDES, map(commit_of, folders), strict=True))
    if commits["before"] == commits["after"]:
        raise SystemExit(f"both sides are commit {commits['after']}: nothing to compare.")
    checkouts = dict(zip(commits.values(), folders, strict=True))
    jobs = []
    for name in options.parts.split(";"):
        part = PARTS[name]
        sizes = (
            options.rounds or part.settings["rounds"],
            options.episodes or part.episodes,
        )
        for seed in range(options.seeds or part.seeds):
            jobs += [(name, commit, seed, *sizes) for commit in commits.values()]
    train_job = partial(train, checkouts)
    path = options.out / "runs.jsonl"
    finished = run_all(jobs, NAMES, train_job, path, options.at_once)
    runs = {tuple(run[key] for key in NAMES): run for run in finished}
    report = {}
    for name in options.parts.split(";"):
        sides = [
            [runs[job] for job in jobs if job[:2] == (name, commit)]
            for commit in commits.values()
        ]
        report[name] = compare(PARTS[name], *sides)
    show(Console(), report)
    text = json.dumps({"commits": commits, "parts": report}, indent=2)
    (options.out / "report.json").write_text(text + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--parts", default=";".join(PARTS), help="separated by semicolons")
    parser.add_argument("--at-once", type=int, default=2, help="runs in parallel")
    for name in ("seeds", "rounds", "episodes"):
        parser.add_argument(f"--{name}", type=int, help="instead of a part's own number")
    return parser.parse_args()


if __name__ == "__main__":
    main()

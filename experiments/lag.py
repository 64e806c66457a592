"""How lag affects actor-critic algorithms: the same seeds under each schedule.

    python experiments/lag.py [--seeds 5] [--rounds 60] [--out lag.json]

In `sync` the weights that learn from a round are those that played it; in `pipelined` they
are one round of updates ahead; in `async` it depends on the machine. The score is the mean
return in the last quarter of the training rounds: two agents in treasurehunt, short runs,
every seed shown.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from rookery.studies.statistics import bootstrap

GAME = "treasurehunt"
ALGORITHMS = ("ppo", "vtrace")
SCHEDULES = ("sync", "pipelined", "async")
SETTINGS: dict[str, Any] = {
    "turns_per_round": 50,
    "worlds": 8,
    "frames": 1,
    "network.width": 64,
    "learning_rate": 1e-3,
    "game.agents": 2,
}

console = Console()


def score(algorithm: str, schedule: str, seed: int, rounds: int) -> dict[str, Any]:
    """Train a run; return its mean return in the last quarter of the rounds."""
    import rookery  # imported late, so that --help does not load torch

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = rookery.train(
            GAME,
            run=Path(folder) / "run",
            algorithm=algorithm,
            schedule=schedule,
            seed=seed,
            rounds=rounds,
            workers=1 if schedule == "async" else 0,
            **SETTINGS,
        )
        episodes = run.episodes()
    last = episodes[episodes["round"] > 0.75 * rounds]
    return {
        "algorithm": algorithm,
        "schedule": schedule,
        "seed": seed,
        "return": float(last["return"].mean()),
        "seconds": time.perf_counter() - started,
    }


def show(results: list[dict[str, Any]]) -> None:
    """Print means over seeds with 95 % intervals, and the score of every seed."""
    table = Table("algorithm", "schedule", "mean return", "95 %", "seeds")
    for algorithm in ALGORITHMS:
        for schedule in SCHEDULES:
            scores = [
                result["return"]
                for result in results
                if (result["algorithm"], result["schedule"]) == (algorithm, schedule)
            ]
            if scores:
                low, high = bootstrap(scores, partial(np.mean, axis=-1))
                table.add_row(
                    algorithm,
                    schedule,
                    f"{np.mean(scores):.2f}",
                    f"{low:.2f} to {high:.2f}",
                    "  ".join(f"{score:.2f}" for score in scores),
                )
    console.print(table)


def main() -> None:
    """Train all runs, then print and write the scores."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--schedules", default=",".join(SCHEDULES), help="separated by commas"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("lag.json"), help="JSON file to write"
    )
    options = parser.parse_args()
    results = []
    for seed in range(options.seeds):
        for algorithm in ALGORITHMS:
            for schedule in options.schedules.split(","):
                results.append(score(algorithm, schedule, seed, options.rounds))
                options.out.write_text(json.dumps(results, indent=2))
    show(results)


if __name__ == "__main__":
    main()

"""Whether every algorithm solves four CartPoles at once, over five seeds.

    python experiments/cartpole.py [--seeds 5] [--algorithms "dqn;ppo"] [--out FILE]

`gymnasium:CartPole-v1 game.copies=4`: four agents, each with its own pole. An agent's score
is its mean return over 20 greedy episodes; the maximum is 500, and 475 counts as solved in
Gymnasium. Every seed and every agent is shown.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rookery.reproduction.published import (
    ACTOR_CRITICS,
    CARTPOLE_GAME,
    CARTPOLES,
    VALUE_BASED,
)

COPIES, EPISODES, SOLVED = 4, 20, 475.0
EVALUATION_SEED = 1_000_003
SETTINGS: dict[str, dict[str, Any]] = {
    "iqn": VALUE_BASED,
    "dqn": VALUE_BASED,
    "dqn, retrace": {**VALUE_BASED, "dqn.retrace": 0.9, "n_step": 5},
    "ppo": ACTOR_CRITICS,
    "vtrace": {
        **ACTOR_CRITICS,
        "rounds": 500,
        "learning_rate": 1e-3,
        "vtrace.passes": 2,
    },
    "recurrent_dqn": {**VALUE_BASED, "updates_per_round": 32, "batch_size": 16},
    "recurrent_ppo": ACTOR_CRITICS,
}
"""By name; the algorithm comes before the comma."""

console = Console()


def score(name: str, seed: int) -> dict[str, Any]:
    """Train four agents, play greedily, and return the mean return of each."""
    import rookery  # imported late, so that --help does not load torch

    started = time.perf_counter()
    settings = {
        **CARTPOLES,
        **SETTINGS[name],
        "algorithm": name.split(",")[0],
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as folder:
        run = rookery.train(CARTPOLE_GAME, run=Path(folder) / "run", **settings)
        seconds = time.perf_counter() - started
        match = rookery.play(
            CARTPOLE_GAME,
            run.players(),
            episodes=EPISODES,
            seed=EVALUATION_SEED,
            game={"copies": COPIES},
        )
    turns = settings["rounds"] * settings["turns_per_round"] * settings["worlds"]
    means = [float(mean) for mean in match.returns.mean(axis=0)]
    return {
        "algorithm": name,
        "seed": seed,
        "agents": means,
        "solved": sum(mean >= SOLVED for mean in means),
        "turns": turns,
        "seconds": seconds,
        "turns_per_second": turns / seconds,
    }


def show(results: list[dict[str, Any]]) -> None:
    """Print the score of every seed and agent."""
    table = Table("algorithm", "seed", "agents' means", "solved", "turns", "seconds")
    for result in results:
        means = "  ".join(f"{mean:5.1f}" for mean in result["agents"])
        table.add_row(
            result["algorithm"],
            str(result["seed"]),
            means,
            f"{result['solved']} of {COPIES}",
            f"{result['turns']:,}",
            f"{result['seconds']:.0f}",
        )
    console.print(table)


def main() -> None:
    """Train all runs, then print and write the scores."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--algorithms", default=";".join(SETTINGS), help="separated by semicolons"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("cartpole.json"), help="JSON file to write"
    )
    options = parser.parse_args()
    results = []
    for name in options.algorithms.split(";"):
        for seed in range(options.seeds):
            results.append(score(name, seed))
            options.out.write_text(json.dumps(results, indent=2))
            console.print(f"{name}, seed {seed}: {results[-1]['agents']}")
    show(results)


if __name__ == "__main__":
    main()

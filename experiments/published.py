"""Independent learners on games with published results: foraging and simple spread.

    python experiments/published.py --out FOLDER [--games foraging,spread] [--seeds 3]

Agents share only the reward, which is the sum over all agents, as in the published runs.
FOLDER/runs.jsonl gets a line per finished run. Finished runs are not repeated, so the
script can be interrupted and restarted at any time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from batch import overrides, rookery, run_all
from rich.console import Console
from rich.table import Table

from rookery.reproduction.published import (
    COMMON,
    FORAGING,
    FORAGING_GAME,
    SPREAD,
    SPREAD_GAME,
)

EPISODES = 1_000
"""Greedy episodes after training, with other seeds than in training."""


@dataclass(frozen=True)
class Case:
    """A game, and the published score to reach."""

    game: str
    published: float
    settings: dict[str, Any]


CASES = {
    "foraging": Case(FORAGING_GAME, 0.9, {}),
    "spread": Case(SPREAD_GAME, -11.3, {"game.max_cycles": 25}),
}
POLICY = {
    "rounds": 1_000,
    "learning_rate": 1e-3,
    "rate.schedule": "linear",
    "network.width": 128,
    "discount": 0.9,
    "ppo.gae": 0.8,
    "ppo.clip": 0.3,
    "ppo.passes": 8,
}
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("foraging", "dqn"): FORAGING,
    ("foraging", "iqn"): {
        **FORAGING,
        "rounds": 1_200,
        "batch_size": 256,
        "epsilon.steps": 800_000,
        "network.quantiles": 4,
        "iqn.threshold": 10,
        "iqn.gap": 0.5,
        "epsilon.temperature": 0.2,
    },
    ("foraging", "ppo"): {**POLICY, "reward.scale": 10, "ppo.entropy": 0.02},
    ("spread", "dqn"): {**SPREAD, "dqn.gap": 0.8},
    ("spread", "iqn"): {
        **SPREAD,
        "rounds": 2_000,
        "network.quantiles": 4,
        "iqn.gap": 0.8,
    },
    ("spread", "ppo"): {**POLICY, "reward.scale": 0.1, "ppo.entropy": 0.001},
}
"""By case and algorithm; a round has 800 turns."""


def run(case: str, algorithm: str, seed: int) -> dict[str, Any]:
    """Train and evaluate one run; return its scores."""
    game = CASES[case].game
    settings = {**COMMON, "checkpoints.replay": "false", "seed": seed}
    settings |= {**CASES[case].settings, **SETTINGS[case, algorithm]}
    turns = settings["rounds"] * settings["worlds"] * settings["turns_per_round"]
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name) / "run", time.monotonic()
        settings = {"algorithm": algorithm, **settings}
        rookery("train", game, *overrides(settings), "--run", folder)
        seconds = time.monotonic() - started
        episodes = f"evaluate.episodes={EPISODES}"
        result = rookery("evaluate", folder, "--game", game, episodes)
    players = result["players"]
    return {
        "score": score_of(case, players["trained"]["agents"]),
        "exploring": score_of(case, players["as_trained"]["agents"]),
        "random": score_of(case, players["random"]["agents"]),
        "seconds": seconds,
        "turns": turns,
        "turns/s": turns / seconds,
    }


def score_of(case: str, agents: dict[str, float]) -> float:
    """Return a score in the unit of the published one."""
    values = list(agents.values())
    return float(np.sum(values) if case == "foraging" else np.mean(values))


def report(console: Console, runs: list[dict[str, Any]]) -> None:
    """Print every score, and whether it reaches the published one."""
    table = Table(box=None, header_style="bold")
    names = (
        "game",
        "algorithm",
        "greedy",
        "exploring",
        "published",
        "",
        "turns",
        "s",
        "/s",
    )
    for name in names:
        table.add_column(name, justify="left" if name in ("game", "algorithm") else "right")
    for case, algorithm in sorted({(run["case"], run["algorithm"]) for run in runs}):
        seeds = [r for r in runs if (r["case"], r["algorithm"]) == (case, algorithm)]
        scores, published = [run["score"] for run in seeds], CASES[case].published
        table.add_row(
            case,
            algorithm,
            " ".join(f"{score:.2f}" for score in scores),
            " ".join(f"{run['exploring']:.2f}" for run in seeds),
            f"{published}",
            "reached" if min(scores) >= published else "not reached",
            f"{seeds[0]['turns']:,}",
            f"{np.mean([run['seconds'] for run in seeds]):.0f}",
            f"{np.mean([run['turns/s'] for run in seeds]):,.0f}",
        )
    console.print(table)


def main() -> None:
    """Train the runs that are not finished, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--games", default=",".join(CASES), help="separated by commas")
    parser.add_argument("--algorithms", default="iqn,dqn,ppo", help="separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2, help="runs in parallel")
    options = parser.parse_args()
    jobs = [
        (case, algorithm, seed)
        for seed in range(options.seeds)
        for case in options.games.split(",")
        for algorithm in options.algorithms.split(",")
    ]
    names = ("case", "algorithm", "seed")
    runs = run_all(jobs, names, run, options.out / "runs.jsonl", options.at_once)
    report(Console(), runs)


if __name__ == "__main__":
    main()

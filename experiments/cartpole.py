"""Whether every algorithm learns to balance four poles at once, over five seeds.

    python experiments/cartpole.py [--seeds 5] [--algorithms "dqn;ppo"] [--out FILE]

`gymnasium:CartPole-v1 game.copies=4`: four agents, each with a pole of its own. An agent's
score is its mean return over 20 greedy episodes; 500 is the most there is, and 475 is what
Gymnasium calls solved. Every seed and every agent is shown.
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

GAME = "gymnasium:CartPole-v1"
COPIES, EPISODES, SOLVED = 4, 20, 475.0
EVALUATION_SEED = 1_000_003
COMMON: dict[str, Any] = {
    "worlds": 8,
    "turns_per_round": 32,
    "frames": 1,
    "network.width": 64,
    "learning_rate": 2e-3,
    "game.copies": COPIES,
    "workers": 0,
}
VALUES: dict[str, Any] = {
    "rounds": 250,
    "updates_per_round": 100,
    "network.width": 128,
    "rate.schedule": "linear",
    "rate.end": 0.02,
    "reward.scale": 0.1,
    "epsilon.steps": 8_000,
    "epsilon.end": 0.04,
    "target.rate": 0.03,
    "replay.warmup": 200,
}
POLICIES: dict[str, Any] = {"rounds": 300, "reward.scale": 0.1}
SETTINGS: dict[str, dict[str, Any]] = {
    "iqn": VALUES,
    "dqn": VALUES,
    "dqn, retrace": {**VALUES, "dqn.retrace": 0.9, "n_step": 5},
    "ppo": POLICIES,
    "vtrace": {
        **POLICIES,
        "rounds": 500,
        "learning_rate": 1e-3,
        "vtrace.passes": 2,
    },
    "recurrent_dqn": {**VALUES, "updates_per_round": 32, "batch_size": 16},
    "recurrent_ppo": POLICIES,
}
"""By name; the first word is the algorithm."""

console = Console()


def score(name: str, seed: int) -> dict[str, Any]:
    """Train four agents and play them greedily; return each one's mean."""
    import rookery  # here, because reading the options needs no torch

    started = time.perf_counter()
    chosen = {**COMMON, **SETTINGS[name], "algorithm": name.split(",")[0], "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        run = rookery.train(GAME, run=Path(folder) / "run", **chosen)
        seconds = time.perf_counter() - started
        match = rookery.play(
            GAME, run.players(), episodes=EPISODES, seed=EVALUATION_SEED, copies=COPIES
        )
    turns = chosen["rounds"] * chosen["turns_per_round"] * chosen["worlds"]
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


def show(found: list[dict[str, Any]]) -> None:
    """Print every seed and every agent."""
    table = Table("algorithm", "seed", "agents' means", "solved", "turns", "seconds")
    for one in found:
        means = "  ".join(f"{mean:5.1f}" for mean in one["agents"])
        table.add_row(
            one["algorithm"],
            str(one["seed"]),
            means,
            f"{one['solved']} of {COPIES}",
            f"{one['turns']:,}",
            f"{one['seconds']:.0f}",
        )
    console.print(table)


def main() -> None:
    """Run, print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--algorithms", default=";".join(SETTINGS), help="by ;")
    parser.add_argument("--out", type=Path, default=Path("cartpole.json"))
    chosen = parser.parse_args()
    found = []
    for name in chosen.algorithms.split(";"):
        for seed in range(chosen.seeds):
            found.append(score(name, seed))
            chosen.out.write_text(json.dumps(found, indent=2))
            console.print(f"{name}, seed {seed}: {found[-1]['agents']}")
    show(found)


if __name__ == "__main__":
    main()

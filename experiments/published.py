"""Independent learners on games with published results: foraging and spreading out.

    python experiments/published.py --out FOLDER [--games foraging,spread] [--seeds 3]

Nothing is shared between agents but the reward, which is the sum of all agents' (as the
published runs had it). FOLDER/runs.jsonl gets a line per finished run, and what is there is
not run again: stop it at any time and go on later.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from batch import carry_out, rookery, words_of
from rich.console import Console
from rich.table import Table

EPISODES = 1_000
"""Greedy ones after training, in worlds that training did not see."""
COMMON = {
    "game.reward": "sum",
    "workers": 0,
    "worlds": 16,
    "turns_per_round": 50,
    "frames": 1,
    "checkpoints.weights_every_rounds": 0,
    "checkpoints.replay": "false",
}


@dataclass(frozen=True)
class Case:
    """A game, and the score that is asked for."""

    game: str
    wanted: float
    settings: dict[str, Any]


CASES = {
    "foraging": Case("gymnasium:lbforaging/Foraging-8x8-2p-2f-coop-v3", 0.9, {}),
    "spread": Case(
        "pettingzoo:mpe2.simple_spread_v3",
        -11.3,
        {"game.max_cycles": 25},
    ),
}
FORAGING = {
    "rounds": 1_500,
    "batch_size": 512,
    "updates_per_round": 50,
    "learning_rate": 3e-4,
    "rate.schedule": "linear",
    "rate.end": 0.05,
    "discount": 0.9,
    "n_step": 2,
    "target.rate": 0.03,
    "reward.scale": 10,
    "replay.kind": "prioritised",
    "replay.capacity": 250_000,
    "replay.exponent": 0.9,
    "replay.correction": 0,
    "epsilon.start": 0.1,
    "epsilon.end": 0.01,
    "epsilon.steps": 1_000_000,
    "epsilon.temperature": 0.1,
    "network.width": 128,
}
SPREAD = {
    "rounds": 2_500,
    "batch_size": 256,
    "updates_per_round": 25,
    "learning_rate": 1e-3,
    "rate.schedule": "linear",
    "rate.end": 0.05,
    "discount": 0.8,
    "n_step": 1,
    "target.rate": 0.02,
    "reward.scale": 0.3,
    "replay.capacity": 100_000,
    "epsilon.end": 0.02,
    "epsilon.steps": 100_000,
    "network.width": 128,
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
    """Train and evaluate one run; return what came of it."""
    about = CASES[case]
    settings = {**COMMON, **about.settings, **SETTINGS[case, algorithm], "seed": seed}
    turns = settings["rounds"] * settings["worlds"] * settings["turns_per_round"]
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name) / "run", time.monotonic()
        words = words_of({"algorithm": algorithm, **settings})
        rookery("train", about.game, *words, "--run", folder)
        seconds = time.monotonic() - started
        words = ["--game", about.game, f"evaluate.episodes={EPISODES}"]
        found = rookery("evaluate", folder, *words)
    players = found["players"]
    return {
        "score": score_of(case, players["trained"]["agents"]),
        "exploring": score_of(case, players["as_trained"]["agents"]),
        "random": score_of(case, players["random"]["agents"]),
        "seconds": seconds,
        "turns": turns,
        "turns/s": turns / seconds,
    }


def score_of(case: str, agents: dict[str, float]) -> float:
    """Return a score in the unit in which it was published."""
    values = list(agents.values())
    return float(np.sum(values) if case == "foraging" else np.mean(values))


def report(console: Console, runs: list[dict[str, Any]]) -> None:
    """Print every score, and whether it is what has been published."""
    table = Table(box=None, header_style="bold")
    names = ("game", "algorithm", "greedy", "exploring", "wanted", "", "turns", "s", "/s")
    for name in names:
        table.add_column(name, justify="left" if name in ("game", "algorithm") else "right")
    for case, algorithm in sorted({(one["case"], one["algorithm"]) for one in runs}):
        mine = [r for r in runs if (r["case"], r["algorithm"]) == (case, algorithm)]
        scores, wanted = [one["score"] for one in mine], CASES[case].wanted
        table.add_row(
            case,
            algorithm,
            " ".join(f"{score:.2f}" for score in scores),
            " ".join(f"{one['exploring']:.2f}" for one in mine),
            f"{wanted}",
            "reached" if min(scores) >= wanted else "not reached",
            f"{mine[0]['turns']:,}",
            f"{np.mean([one['seconds'] for one in mine]):.0f}",
            f"{np.mean([one['turns/s'] for one in mine]):,.0f}",
        )
    console.print(table)


def main() -> None:
    """Train what is left, two at a time, and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--games", default=",".join(CASES))
    parser.add_argument("--algorithms", default="iqn,dqn,ppo")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2)
    asked = parser.parse_args()
    jobs = [
        (case, algorithm, seed)
        for seed in range(asked.seeds)
        for case in asked.games.split(",")
        for algorithm in asked.algorithms.split(",")
    ]
    names = ("case", "algorithm", "seed")
    runs = carry_out(jobs, names, run, asked.out / "runs.jsonl", asked.at_once)
    report(Console(), runs)


if __name__ == "__main__":
    main()

"""Sweeps from the literature on social dilemmas, reproduced in shape.

    python benchmarks/literature.py --out FOLDER [--parts gathering,stag] [--seeds 3]

`gathering`: do learners zap more when apples are scarcer? `harvest`: do selfish learners
let the commons collapse? `cleanup`: do they clean? `stag`: how often do they end in stag,
as it gets riskier? FOLDER gets a line per run and a picture per part. What is there is not
made again: stop it at any time and go on later.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from batch import carry_out, rookery, words_of
from rich.console import Console
from rich.table import Table

import rookery as library

LAST = 0.25
"""The share of a run's episodes, at its end, that is looked at."""
COMMON = {
    "algorithm": "dqn",
    "workers": 0,
    "worlds": 16,
    "turns_per_round": 50,
    "updates_per_round": 50,
    "frames": 1,
    "network.width": 64,
    "batch_size": 64,
    "learning_rate": 0.0005,
    "epsilon.end": 0.02,
    "checkpoints.weights_every_rounds": 0,
    "checkpoints.replay": "false",
}
Episodes = Sequence[dict[str, Any]]


def per_turn(episodes: Episodes, count: str) -> float:
    """Return how often something happened, per agent and 100 turns."""
    happened = sum(sum(one["counts"][count].values()) for one in episodes)
    turns = sum(one["turns"] * len(one["returns"]) for one in episodes)
    return 100.0 * happened / turns


def both(episodes: Episodes) -> float:
    """Return the return of all agents together, per episode."""
    return float(np.mean([sum(one["returns"].values()) for one in episodes]))


def share_of_stags(episodes: Episodes) -> float:
    """Return which share of the catches were stags."""
    stags, hares = (per_turn(episodes, name) for name in ("stags", "hares"))
    return stags / (stags + hares) if stags + hares else 0.0


@dataclass(frozen=True)
class Sweep:
    """A game, the setting that is varied, and what is measured."""

    game: str
    setting: str
    values: tuple[float, ...]
    measures: dict[str, Callable[[Episodes], float]]
    rounds: int
    settings: dict[str, Any] = field(default_factory=dict)
    players: tuple[str, ...] = ()
    """Scripted players to compare with."""
    logarithmic: bool = False


SWEEPS = {
    "gathering": Sweep(
        "gathering",
        "regrow",
        (0.005, 0.02, 0.08),
        {"zaps per 100 turns": lambda e: per_turn(e, "zaps")},
        200,
        {"game.agents": 2, "epsilon.steps": 60_000},
        logarithmic=True,
    ),
    "harvest": Sweep(
        "harvest",
        "regrow",
        (0.002, 0.004, 0.01),
        {"return of all, per episode": both},
        200,
        {"epsilon.steps": 60_000},
        ("sharer", "eater"),
        logarithmic=True,
    ),
    "cleanup": Sweep(
        "cleanup",
        "pollution",
        (0.005, 0.02),
        {
            "return of all, per episode": both,
            "cleaned per 100 turns": lambda e: per_turn(e, "cleaned"),
        },
        200,
        {"epsilon.steps": 60_000},
        ("cleaner", "eater"),
        logarithmic=True,
    ),
    "stag": Sweep(
        "staghunt",
        "risk",
        (0.0, 0.5, 2.0),
        {"share of stags among catches": share_of_stags},
        150,
        {"epsilon.steps": 40_000},
    ),
}


def run(part: str, value: float, seed: int) -> dict[str, Any]:
    """Train one run; return what its last episodes show."""
    sweep = SWEEPS[part]
    settings = {**COMMON, **sweep.settings, f"game.{sweep.setting}": value, "seed": seed}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        words = words_of({**settings, "rounds": sweep.rounds})
        done = rookery("train", sweep.game, *words, "--run", folder)
        lines = (folder / "episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    last = [e for e in episodes if e["round"] > (1 - LAST) * sweep.rounds]
    found: dict[str, Any] = {name: of(last) for name, of in sweep.measures.items()}
    return found | {"seconds": done["seconds"], "turns": done["turns"]}


def scripted(sweep: Sweep, player: str, value: float, name: str) -> float:
    """Return what scripted players get or do in the same game."""
    settings = {sweep.setting: value}
    match = library.play(sweep.game, player, episodes=32, seed=0, **settings)
    ids = [str(i) for i in range(len(match.episodes[0].returns))]
    lines = [
        {
            "turns": one.turns,
            "returns": dict(zip(ids, one.returns.tolist(), strict=True)),
            "counts": {k: dict(zip(ids, c, strict=True)) for k, c in one.counts.items()},
        }
        for one in match.episodes
    ]
    return sweep.measures[name](lines)


def draw(part: str, runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw every seed, their middle, and scripted players beside them."""
    sweep = SWEEPS[part]
    figure, panels = plt.subplots(
        1, len(sweep.measures), figsize=(4.6 * len(sweep.measures), 3.2), dpi=120
    )
    for axes, name in zip(np.atleast_1d(panels), sweep.measures, strict=True):
        for one in runs:
            axes.plot(one["value"], one[name], "o", color="#2456b8", alpha=0.45, ms=5)
        values = sorted({one["value"] for one in runs})
        middle = [np.median([r[name] for r in runs if r["value"] == v]) for v in values]
        axes.plot(values, middle, color="#2456b8", label="learners, every seed")
        for player, style in zip(sweep.players, (":", "--"), strict=False):
            theirs = [scripted(sweep, player, v, name) for v in values]
            axes.plot(values, theirs, style, color="0.45", label=f"scripted: {player}")
        axes.set_xscale("log" if sweep.logarithmic else "linear")
        axes.set_xlabel(f"game.{sweep.setting}")
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(panels)[0].legend(frameon=False, fontsize=8)
    figure.suptitle(sweep.game, x=0.02, ha="left", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)


def report(part: str, runs: Sequence[dict[str, Any]]) -> None:
    """Print every seed."""
    sweep = SWEEPS[part]
    table = Table(box=None, header_style="bold")
    for name in (f"{sweep.game}.{sweep.setting}", *sweep.measures):
        table.add_column(name)
    for value in sorted({one["value"] for one in runs}):
        mine = [one for one in runs if one["value"] == value]
        cells = [" ".join(f"{one[name]:.2f}" for one in mine) for name in sweep.measures]
        table.add_row(str(value), *cells)
    Console().print(table)


def main() -> None:
    """Train what is left, two at a time; draw and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--parts", default=",".join(SWEEPS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2)
    asked = parser.parse_args()
    for part in asked.parts.split(","):
        jobs = [
            (part, value, seed)
            for seed in range(asked.seeds)
            for value in SWEEPS[part].values
        ]
        path, names = asked.out / f"{part}.jsonl", ("part", "value", "seed")
        runs = carry_out(jobs, names, run, path, asked.at_once)
        report(part, runs)
        draw(part, runs, asked.out / f"sweep-{part}.png")


if __name__ == "__main__":
    main()

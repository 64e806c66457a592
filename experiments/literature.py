"""Sweeps from the literature on social dilemmas, reproduced qualitatively.

    python experiments/literature.py --out FOLDER [--parts gathering,stag] [--seeds 3]

`gathering`: do learners zap more when apples are scarcer? `harvest`: do selfish learners
let the commons collapse? `cleanup`: do they clean? `stag`: how many seeds end in stag, as
it gets riskier? FOLDER gets a line per run and a picture per part. Finished
runs are not repeated, so the script can be interrupted and restarted at any time.
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
from batch import overrides, rookery, run_all
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

import rookery as library

LAST = 0.25
"""The share of a run's rounds, and of an episode's turns, that counts as its end."""
EPISODES = 32
"""Episodes played after training, and by scripted players."""
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
BLUE = "#2456b8"
Episodes = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """Episodes of learners or of scripted players."""

    episodes: Episodes
    """Lines of episodes.jsonl."""
    rewards: np.ndarray
    """Rewards of a match, (episodes, turns, agents)."""

    def per_100_turns(self, count: str) -> float:
        """Return a count of the game, per agent and 100 turns."""
        total = sum(sum(episode["counts"][count].values()) for episode in self.episodes)
        turns = sum(episode["turns"] * len(episode["returns"]) for episode in self.episodes)
        return 100.0 * total / turns

    def total_return(self) -> float:
        """Return the mean sum of the returns of all agents, per episode."""
        sums = [sum(episode["returns"].values()) for episode in self.episodes]
        return float(np.mean(sums))

    def late_reward(self) -> float:
        """Return the reward in the last quarter of episodes, per agent and 100 turns."""
        start = int((1 - LAST) * self.rewards.shape[1])
        return float(100.0 * self.rewards[:, start:].mean())


@dataclass(frozen=True)
class Sweep:
    """A game, the setting that is varied, and what is measured."""

    game: str
    setting: str
    values: tuple[float, ...]
    measures: dict[str, Callable[[Outcome], float]]
    rounds: int
    settings: dict[str, Any] = field(default_factory=dict)
    players: tuple[str, ...] = ()
    """Scripted players to compare with."""
    seeds: int = 3
    logarithmic: bool = False
    inverted: bool = False
    """Whether smaller values are drawn further right."""
    share: bool = False
    """Whether to draw the share of seeds above one half instead of every seed."""

    @property
    def game_settings(self) -> dict[str, Any]:
        """The settings of the game that are not varied."""
        items = self.settings.items()
        return {k.removeprefix("game."): v for k, v in items if k.startswith("game.")}


SWEEPS = {
    "gathering": Sweep(
        "gathering",
        "regrow",
        (0.002, 0.01, 0.05),
        {
            "zaps per 100 turns": lambda o: o.per_100_turns("zaps"),
            "apples per 100 turns": lambda o: o.per_100_turns("apples"),
        },
        150,
        {
            "game.agents": 2,
            "game.turns": 300,
            "game.hits": 1,
            "game.out": 50,
            "epsilon.steps": 60_000,
        },
        logarithmic=True,
    ),
    "harvest": Sweep(
        "harvest",
        "regrow",
        (0.002, 0.005, 0.02),
        {
            "return of all, per episode": Outcome.total_return,
            "apples per 100 turns, last quarter": Outcome.late_reward,
        },
        200,
        {"epsilon.steps": 60_000},
        ("sharer", "eater"),
        logarithmic=True,
    ),
    "cleanup": Sweep(
        "cleanup",
        "pollution",
        (0.005, 0.02, 0.05),
        {
            "return of all, per episode": Outcome.total_return,
            "cleaned per 100 turns": lambda o: o.per_100_turns("cleaned"),
        },
        200,
        {"epsilon.steps": 60_000},
        ("cleaner", "eater"),
        logarithmic=True,
    ),
    "stag": Sweep(
        "iterated_stag_hunt",
        "betrayed",
        (1.0, 0.75, 0.5, 0.25, 0.0, -1.0),
        {"share of seeds that end in stag": lambda o: o.per_100_turns("stag") / 100},
        80,
        {
            "game.turns": 20,
            "game.both_second": 1.0,
            "game.tempted": 1.6,
            "turns_per_round": 20,
            "worlds": 1,
            "n_step": 1,
            "discount": 0.5,
            "batch_size": 32,
            "learning_rate": 0.002,
            "updates_per_round": 10,
            "network.width": 16,
            "epsilon.steps": 800,
            "replay.warmup": 40,
            "replay.capacity": 400,
        },
        seeds=20,
        inverted=True,
        share=True,
    ),
}


def run(part: str, value: float, seed: int) -> dict[str, Any]:
    """Train one run; return the measures of its last episodes."""
    sweep = SWEEPS[part]
    settings = {**COMMON, **sweep.settings, f"game.{sweep.setting}": value, "seed": seed}
    with tempfile.TemporaryDirectory() as name:
        folder, settings = Path(name) / "run", {**settings, "rounds": sweep.rounds}
        done = rookery("train", sweep.game, *overrides(settings), "--run", folder)
        lines = (folder / "episodes.jsonl").read_text().splitlines()
        learners = library.Run(folder).players()
        for agent in learners.values():
            agent.exploration = COMMON["epsilon.end"]
        match = play(sweep, value, learners)
    episodes = [json.loads(line) for line in lines]
    last = [e for e in episodes if e["round"] > (1 - LAST) * sweep.rounds]
    outcome = Outcome(last, rewards_of(match))
    measures = {name: measure(outcome) for name, measure in sweep.measures.items()}
    return measures | {"seconds": done["seconds"]}


def play(sweep: Sweep, value: float, players: Any) -> library.Match:
    """Play and record some episodes with one value of the varied setting."""
    settings = {**sweep.game_settings, sweep.setting: value}
    return library.play(
        sweep.game, players, episodes=EPISODES, seed=1_000_003, record=True, game=settings
    )


def rewards_of(match: library.Match) -> np.ndarray:
    """Return the rewards of a match, (episodes, turns, agents)."""
    return np.stack([recording.arrays["rewards"] for recording in match.recordings])


def scripted(sweep: Sweep, player: str, value: float) -> Outcome:
    """Return the episodes of scripted players in the same game."""
    match = play(sweep, value, player)
    ids = [spec.id for spec in match.agents]
    lines = [
        {
            "turns": e.turns,
            "returns": dict(zip(ids, e.returns.tolist(), strict=True)),
            "counts": {k: dict(zip(ids, c, strict=True)) for k, c in e.counts.items()},
        }
        for e in match.episodes
    ]
    return Outcome(lines, rewards_of(match))


def draw(part: str, runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw learners and scripted players over the varied setting."""
    sweep = SWEEPS[part]
    size = (4.4 * len(sweep.measures), 3.3)
    figure, panels = plt.subplots(1, len(sweep.measures), figsize=size, dpi=120)
    values = sorted({run["value"] for run in runs})
    baselines = {p: [scripted(sweep, p, v) for v in values] for p in sweep.players}
    for axes, (name, measure) in zip(
        np.atleast_1d(panels), sweep.measures.items(), strict=True
    ):
        for style, (player, outcomes) in zip((":", "--"), baselines.items(), strict=False):
            measured = [measure(outcome) for outcome in outcomes]
            axes.plot(values, measured, style, color="0.45", label=f"scripted {player}")
        draw_learners(axes, sweep, name, runs)
        axes.set_xscale("log" if sweep.logarithmic else "linear")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        axes.set_xlabel(f"game.{sweep.setting}")
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_ylim(bottom=0)
        if sweep.inverted:
            axes.invert_xaxis()
        axes.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(panels)[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def draw_learners(
    axes: Axes, sweep: Sweep, name: str, runs: Sequence[dict[str, Any]]
) -> None:
    """Draw every seed and their median, or the share of seeds above one half."""
    values = sorted({run["value"] for run in runs})
    groups = [[run[name] for run in runs if run["value"] == value] for value in values]
    if sweep.share:
        shares = [np.mean(np.array(group) > 0.5) for group in groups]
        label = f"learners, {len(groups[0])} seeds each"
        axes.plot(values, shares, "o-", color=BLUE, label=label)
        axes.set_ylim(top=1)
        return
    for value, group in zip(values, groups, strict=True):
        axes.plot([value] * len(group), group, "o", color=BLUE, alpha=0.45, ms=5)
    medians = [float(np.median(group)) for group in groups]
    axes.plot(values, medians, color=BLUE, label="learners, every seed")


def report(part: str, runs: Sequence[dict[str, Any]]) -> None:
    """Print the measures of every seed."""
    sweep = SWEEPS[part]
    table = Table(box=None, header_style="bold")
    for name in (f"game.{sweep.setting}", *sweep.measures):
        table.add_column(name)
    for value in sorted({run["value"] for run in runs}):
        seeds = [run for run in runs if run["value"] == value]
        cells = [" ".join(f"{run[name]:.2f}" for run in seeds) for name in sweep.measures]
        table.add_row(f"{value:g}", *cells)
    Console().print(table)


def main() -> None:
    """Train the runs that are not finished; draw and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--parts", default=",".join(SWEEPS), help="separated by commas")
    parser.add_argument("--seeds", type=int, help="default: 20 for stag, 3 otherwise")
    parser.add_argument("--at-once", type=int, default=2, help="runs in parallel")
    options = parser.parse_args()
    for part in options.parts.split(","):
        jobs = [
            (part, value, seed)
            for seed in range(options.seeds or SWEEPS[part].seeds)
            for value in SWEEPS[part].values
        ]
        path, names = options.out / f"{part}.jsonl", ("part", "value", "seed")
        runs = run_all(jobs, names, run, path, options.at_once)
        report(part, runs)
        draw(part, runs, options.out / f"sweep-{part}.png")


if __name__ == "__main__":
    main()

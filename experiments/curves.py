"""Draws learning curves: the return of every agent, round by round.

    python experiments/curves.py RUN PICTURE.png [--game NAME]

Dashed lines are the returns of the game's scripted players in the same seats. For a folder
of seeds, a line is the mean over seeds, and the band goes from the lowest to the highest.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas

import rookery
from rookery.evaluation.play import assign_seats, play_match
from rookery.games.gridworld.tiles import AGENT_COLOURS

EPISODES = 32


def main() -> None:
    """Draw one picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path, help="a run, or a folder of seeds")
    parser.add_argument("picture", type=Path)
    parser.add_argument(
        "--game", default=None, help="the run's game, if it is not built in"
    )
    arguments = parser.parse_args()
    folders = sorted(arguments.run.glob("seed-*")) or [arguments.run]
    runs = [rookery.Run(folder, arguments.game) for folder in folders]
    figure, axes = plt.subplots(figsize=(7, 3.5), dpi=120)
    draw_agents(axes, runs)
    draw_players(axes, runs[0])
    axes.set_xlabel("round")
    axes.set_ylabel("return per episode")
    seeds = f"{len(runs)} seeds" if len(runs) > 1 else f"seed {runs[0].config.seed}"
    axes.set_title(f"{runs[0].entry.name}, {seeds}", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center right")
    figure.tight_layout()
    figure.savefig(arguments.picture)


def draw_agents(axes: plt.Axes, runs: list[rookery.Run]) -> None:
    """Draw one line per agent, and a band if there are several seeds."""
    episodes = pandas.concat(run.episodes().assign(seed=run.config.seed) for run in runs)
    window = max(3, runs[0].config.rounds // 20)
    for number, (agent, own) in enumerate(episodes.groupby("agent")):
        returns = own.pivot_table("return", "round", "seed").ffill()
        curves = returns.rolling(window, min_periods=1).mean()
        colour = [channel / 255 for channel in AGENT_COLOURS[number % len(AGENT_COLOURS)]]
        mean = curves.mean(axis=1)
        axes.plot(mean.index, mean.values, color=colour, label=f"agent {agent}")
        if len(runs) > 1:
            low, high = curves.min(axis=1), curves.max(axis=1)
            axes.fill_between(mean.index, low, high, color=colour, alpha=0.15, linewidth=0)


def draw_players(axes: plt.Axes, run: rookery.Run) -> None:
    """Draw a dashed line for each scripted player of the game."""
    specs = [agent.spec for agent in run.agents]
    for name in run.entry.players:
        match = play_match(
            run.entry, run.config, assign_seats(specs, name), episodes=EPISODES
        )
        mean = match.summary()["mean"]
        axes.axhline(mean, color="0.6", linewidth=0.8, linestyle="--")
        where = {"xycoords": axes.get_yaxis_transform(), "va": "center"}
        axes.annotate(name, (1.01, mean), fontsize=8, color="0.4", **where)


if __name__ == "__main__":
    main()

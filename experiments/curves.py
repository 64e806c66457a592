"""Draw the learning curves of a run: the return of every agent in every round.

    python experiments/curves.py RUN PICTURE.png [--game NAME]

The grey lines are the mean returns of the game's scripted players.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import rookery
from rookery.evaluation.play import lineup, play_match
from rookery.games.gridworld.tiles import AGENT_COLOURS

EPISODES = 32


def main() -> None:
    """Draw the curves of one run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("--game", help="the game of the run, if it is not built in")
    options = parser.parse_args()
    run = rookery.Run(options.run, options.game)
    figure, axes = plt.subplots(figsize=(7, 3.5), dpi=120)
    _draw_agents(axes, run)
    _draw_players(axes, run)
    axes.set_xlabel("round")
    axes.set_ylabel("return per episode")
    axes.set_title(f"{run.entry.name}, seed {run.config.seed}", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(options.picture)


def _draw_agents(axes: plt.Axes, run: rookery.Run) -> None:
    episodes = run.episodes()
    window = max(3, run.config.rounds // 20)
    for i, (agent, rows) in enumerate(episodes.groupby("agent")):
        curve = rows.groupby("round")["return"].mean().rolling(window, min_periods=1).mean()
        colour = [channel / 255 for channel in AGENT_COLOURS[i % len(AGENT_COLOURS)]]
        axes.plot(curve.index, curve.values, color=colour, label=f"agent {agent}")


def _draw_players(axes: plt.Axes, run: rookery.Run) -> None:
    specs = [agent.spec for agent in run.agents]
    for name in run.entry.players:
        match = play_match(run.entry, run.config, lineup(specs, name), episodes=EPISODES)
        mean = match.summary()["mean"]
        axes.axhline(mean, color="0.6", linewidth=0.8, linestyle="--")
        axes.annotate(name, (0, mean), fontsize=7, color="0.4", va="bottom")


if __name__ == "__main__":
    main()

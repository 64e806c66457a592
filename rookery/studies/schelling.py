"""Schelling diagrams: what cooperating and defecting bring, by how many others cooperate.

In comes a game with two scripted players, out go mean returns for every mix of the two.
They tell whether a game is the dilemma it is meant to be, before anybody learns in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.evaluation.images import save_figure
from rookery.evaluation.play import Seat, play, player_name
from rookery.specs import Array

COOPERATOR, DEFECTOR = "#2456b8", "#d8692a"


@dataclass
class Schelling:
    """What one agent gets by cooperating, and by defecting.

    Entry i of each array is for i others who cooperate, from none to all of them.
    """

    game: str
    cooperator: str
    defector: str
    cooperating: Array
    """(agents,) mean return per episode."""
    defecting: Array
    cooperating_error: Array
    """(agents,) standard error of the mean."""
    defecting_error: Array
    episodes: int

    @property
    def gain(self) -> Array:
        """What an agent gets more by defecting, (agents,)."""
        return self.defecting - self.cooperating

    @property
    def greed(self) -> bool:
        """Whether it pays to defect when all others cooperate."""
        return bool(self.gain[-1] > 0)

    @property
    def fear(self) -> bool:
        """Whether it pays to defect when all others defect."""
        return bool(self.gain[0] > 0)

    @property
    def is_dilemma(self) -> bool:
        """Whether all would fare better together, and one is tempted all the same.

        That is: all cooperating beats all defecting, and beats being the only one who
        cooperates, and there is greed or fear.
        """
        together = self.cooperating[-1]
        better = together > self.defecting[0] and together > self.cooperating[0]
        return bool(better and (self.greed or self.fear))

    def __str__(self) -> str:
        lines = [f"{'others':>6} {self.cooperator:>16} {self.defector:>16}"]
        for i in range(len(self.gain)):
            kind = f"{self.cooperating[i]:8.2f} ± {self.cooperating_error[i]:<5.2f}"
            other = f"{self.defecting[i]:8.2f} ± {self.defecting_error[i]:<5.2f}"
            lines.append(f"{i:>6} {kind:>16} {other:>16}")
        return "\n".join(lines)

    def draw(self, path: str | Path) -> None:
        """Write the diagram as a picture (needs matplotlib)."""
        figure = _figure()(figsize=(5, 3.4), dpi=120, layout="constrained")
        axes = figure.subplots()
        others = np.arange(len(self.gain))
        for name, means, errors, colour in (
            (self.cooperator, self.cooperating, self.cooperating_error, COOPERATOR),
            (self.defector, self.defecting, self.defecting_error, DEFECTOR),
        ):
            axes.errorbar(others, means, 2 * errors, color=colour, marker="o", label=name)
        axes.set_xticks(others)
        axes.set_xlabel(f"others who play {self.cooperator}")
        axes.set_ylabel("return per episode")
        axes.set_title(self.game, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        save_figure(figure, path)


def schelling(
    game: str,
    cooperator: Seat,
    defector: Seat,
    *,
    episodes: int = 64,
    worlds: int = 64,
    seed: int = 0,
    **settings: Any,
) -> Schelling:
    """Play every mix of two scripted players, and return what each kind gets.

    Args:
        game: a name from `rookery games`, or `./mine.py:Zap`.
        cooperator: a player's name, or a class of players.
        defector: the other player.
        episodes: how many to play of each mix.
        worlds: how many to play at once, at most.
        seed: where all random numbers come from.
        **settings: the game's own.
    """

    def returns(seats: list[Seat]) -> Array:
        match = play(game, seats, episodes=episodes, worlds=worlds, seed=seed, **settings)
        return match.returns

    every = [returns([cooperator])]
    agents = every[0].shape[1]
    for some in range(agents - 1, -1, -1):
        every.insert(0, returns([cooperator] * some + [defector] * (agents - some)))
    kind = [every[some][:, :some].mean(axis=1) for some in range(1, agents + 1)]
    other = [every[some][:, some:].mean(axis=1) for some in range(agents)]
    names = player_name(cooperator), player_name(defector)
    figures = *_means(kind), *_means(other)
    means, errors, defecting, defecting_errors = figures
    return Schelling(game, *names, means, defecting, errors, defecting_errors, episodes)


def _means(returns: list[Array]) -> tuple[Array, Array]:
    """Return the mean over episodes, and its standard error, of each entry."""
    table = np.stack(returns)
    spread = table.std(axis=1, ddof=1) if table.shape[1] > 1 else 0 * table[:, 0]
    return table.mean(axis=1), spread / np.sqrt(table.shape[1])


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "diagrams need matplotlib: pip install 'rookery[analysis]' brings it."
        ) from error
    return Figure

"""Schelling diagrams: returns of cooperators and defectors by how many others cooperate.

A game is played with every mix of two scripted players. The diagram shows whether the game
is the dilemma it is meant to be, before any agent learns in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.evaluation.images import save_figure
from rookery.evaluation.play import Seat, play, player_name
from rookery.games.registry import find
from rookery.specs import Array

COOPERATOR, DEFECTOR = "#2456b8", "#d8692a"


@dataclass(repr=False)
class Schelling:
    """The mean return of one agent that cooperates, and of one that defects.

    Entry i of each array is for i other agents that cooperate, from none to all of them.
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
        """What an agent gains by defecting, (agents,)."""
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
        """Whether agents do best if all cooperate, and yet are tempted to defect.

        That is: mutual cooperation beats mutual defection and being the only cooperator,
        and there is greed or fear.
        """
        mutual = self.cooperating[-1]
        is_best = mutual > self.defecting[0] and mutual > self.cooperating[0]
        return bool(is_best and (self.greed or self.fear))

    def __repr__(self) -> str:
        motives = [name for name in ("greed", "fear") if getattr(self, name)]
        kind = f"a dilemma of {' and '.join(motives)}" if self.is_dilemma else "no dilemma"
        players = f"{self.cooperator} and {self.defector}"
        return f"<Schelling {self.game}: {players}, {len(self.gain)} agents, {kind}>"

    def __str__(self) -> str:
        lines = [f"{'others':>6} {self.cooperator:>16} {self.defector:>16}"]
        for i in range(len(self.gain)):
            cooperator = f"{self.cooperating[i]:8.2f} ± {self.cooperating_error[i]:<5.2f}"
            defector = f"{self.defecting[i]:8.2f} ± {self.defecting_error[i]:<5.2f}"
            lines.append(f"{i:>6} {cooperator:>16} {defector:>16}")
        lines.append("others that cooperate; mean return ± its standard error")
        return "\n".join(lines)

    def draw(self, path: str | Path) -> None:
        """Write the diagram as an image (needs matplotlib).

        Its bars are two standard errors of the mean to each side.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigError(
                "diagrams need matplotlib: pip install 'rookery[analysis]'."
            ) from error
        figure = Figure(figsize=(5, 3.4), dpi=120, layout="constrained")
        axes = figure.subplots()
        others = np.arange(len(self.gain))
        for name, means, errors, colour in (
            (self.cooperator, self.cooperating, self.cooperating_error, COOPERATOR),
            (self.defector, self.defecting, self.defecting_error, DEFECTOR),
        ):
            axes.errorbar(others, means, 2 * errors, color=colour, marker="o", label=name)
        axes.plot([], [], " ", label=f"bars: ± 2 standard errors, {self.episodes} episodes")
        axes.set_xticks(others)
        axes.set_xlabel(f"others that play {self.cooperator}")
        axes.set_ylabel("return per agent and episode")
        axes.set_title(self.game, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        save_figure(figure, path)


def schelling(
    game: str | type,
    /,
    cooperator: Seat,
    defector: Seat,
    *,
    episodes: int = 64,
    worlds: int = 64,
    seed: int = 0,
    **settings: Any,
) -> Schelling:
    """Play every mix of two scripted players, and return the mean returns of both.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or the class itself.
        cooperator: a player's name, or a class of players.
        defector: the other player.
        episodes: how many to play of each mix.
        worlds: how many to play at once, at most.
        seed: the seed of all random numbers.
        **settings: as in `rookery.play`: `game={"turns": 50}`.
    """

    def returns(seats: list[Seat]) -> Array:
        match = play(game, seats, episodes=episodes, worlds=worlds, seed=seed, **settings)
        return match.returns

    mixes = [returns([cooperator])]  # by the number of cooperators
    agents = mixes[0].shape[1]
    for count in range(agents - 1, -1, -1):
        mixes.insert(0, returns([cooperator] * count + [defector] * (agents - count)))
    cooperating, cooperating_error = _means(
        [mixes[count][:, :count].mean(axis=1) for count in range(1, agents + 1)]
    )
    defecting, defecting_error = _means(
        [mixes[count][:, count:].mean(axis=1) for count in range(agents)]
    )
    return Schelling(
        find(game).name,
        player_name(cooperator),
        player_name(defector),
        cooperating,
        defecting,
        cooperating_error,
        defecting_error,
        episodes,
    )


def _means(returns: list[Array]) -> tuple[Array, Array]:
    """Return the mean over episodes of each entry, and its standard error."""
    table = np.stack(returns)
    spread = table.std(axis=1, ddof=1) if table.shape[1] > 1 else 0 * table[:, 0]
    return table.mean(axis=1), spread / np.sqrt(table.shape[1])

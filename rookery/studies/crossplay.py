"""Crossplay: how agents do in a group of agents that were trained elsewhere.

A *population* is a run, several seeds of one, or a scripted player. A *focal* agent of each
population plays with *background* agents of each, in all seats that it was trained for, in
the same games. The unit is the seed: every seed of one population is paired with every seed
of the other; within a population, a seed is compared with the other seeds.

The JSON and the columns of `table` call the focal agent the guest, the background agents
its hosts, and populations camps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.errors import ConfigError, nearest
from rookery.evaluation.images import save_figure
from rookery.evaluation.play import Seat, play_match, player_name
from rookery.evaluation.tables import pandas_or_advice
from rookery.runs.folder import is_run, seeds_of
from rookery.runs.run import Run
from rookery.specs import Array
from rookery.studies.statistics import (
    Interval,
    bootstrap,
    gini,
    interquartile_mean,
    pair_interval,
)

if TYPE_CHECKING:
    from pandas import DataFrame

Population = str | Path | Run | Sequence[Run] | Seat
"""A run or its folder, a folder of seeds, runs that differ in their seed, or a player."""


@dataclass
class _Team:
    """The agents of one seed of a population, or a scripted player in all seats."""

    population: int
    name: str
    run: Run | None
    seats: Mapping[str, Seat]
    """The player of every seat, by agent id."""
    focal_seats: Collection[str]
    """The seats that its focal agent can take: those with a trained agent."""


@dataclass
class Pairing:
    """The episodes of one focal agent with one background team."""

    focal_population: int
    background_population: int
    focal: str
    background: str
    returns: Array
    """(episodes, agents)."""
    seats: Array
    """(episodes,) the seat of the focal agent."""
    cut: int = 0
    """The number of episodes that were cut off because they lasted too long."""

    @property
    def focal_returns(self) -> Array:
        """The return of the focal agent, (episodes,)."""
        return self.returns[np.arange(len(self.seats)), self.seats]

    @property
    def mean(self) -> float:
        """The mean return of the focal agent."""
        return float(self.focal_returns.mean())

    def metrics(self) -> dict[str, float]:
        """Return the means of the focal agent and of the others, and of the whole group."""
        count = self.returns.shape[1]
        others = (self.returns.sum(axis=1) - self.focal_returns) / max(1, count - 1)
        return {
            "return": self.mean,
            "others": float(others.mean()) if count > 1 else float("nan"),
            "sum": float(self.returns.sum(axis=1).mean()),
            "minimum": float(self.returns.min(axis=1).mean()),
            "gini": float(np.mean(gini(self.returns))),
        }


def crossplay(
    populations: Sequence[Population],
    episodes: int = 50,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
    *,
    game: str | None = None,
    algorithm: str | Sequence[str] | None = None,
) -> Crossplay:
    """Play a focal agent of each population with background agents of each.

    Args:
        populations: runs or their folders, folders of seeds, lists of runs that differ in
            their seed, or players by name or as classes.
        episodes: how many to play for each pairing of seeds, over all seats together.
        seed: the seed of the games; all pairings play the same ones.
        progress: called with the number of pairings played, and of all pairings.
        game: the runs' game as named in training, if it is not built in.
        algorithm: the same for one or several algorithms.
    """
    opened = [_runs_of(population, game, algorithm) for population in populations]
    runs = [run for seeds in opened for run in seeds]
    if not runs:
        listed = ", ".join(f"'{population}'" for population in populations) or "nothing"
        raise ConfigError(f"there is no run in {listed}: name at least one.")
    _check_games(runs)
    teams = _teams(populations, opened)
    pairings: list[Pairing] = []
    for focal in teams:
        for background in teams:
            home = background.run or focal.run or runs[0]
            pairings.append(_play_pairing(focal, background, home, episodes, seed))
            progress(len(pairings), len(teams) ** 2)
    names = [_name_of(population) for population in populations]
    return Crossplay(names, runs[0].entry.name, episodes, pairings)


def _runs_of(
    population: Population,
    game: str | None = None,
    algorithm: str | Sequence[str] | None = None,
) -> list[Run]:
    """Return the runs of a population; none for a player."""
    if isinstance(population, Run):
        return [population]
    if isinstance(population, str | Path):
        path = Path(population)
        if not is_run(path):
            return [Run(path)] if isinstance(population, Path) else []
        return [Run(seed, game, algorithm) for seed in seeds_of(path) or [path]]
    if isinstance(population, Sequence):
        return [run for run in population if isinstance(run, Run)]
    return []


def _name_of(population: Population) -> str:
    if isinstance(population, Run):
        return str(population.path)
    if isinstance(population, str | Path):
        return str(population)
    if isinstance(population, Sequence):
        return str(_runs_of(population)[0].path.parent)
    return player_name(population)


def _check_games(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs:
        if run.entry.name != first.entry.name:
            raise ConfigError(
                f"{first.path} was trained in '{first.entry.name}' and {run.path} in "
                f"'{run.entry.name}': crossplay needs one game."
            )


def _teams(
    populations: Sequence[Population], opened: Sequence[Sequence[Run]]
) -> list[_Team]:
    all_runs = [run for runs in opened for run in runs]
    teams = []
    for number, (population, runs) in enumerate(zip(populations, opened, strict=True)):
        for run in runs:
            trained = run.players()
            scripted = {
                agent.id: agent.player or "random"
                for agent in run.agents
                if agent.id not in trained
            }
            seats: dict[str, Seat] = {**trained, **scripted}
            teams.append(_Team(number, str(run.path), run, seats, set(trained)))
        if not runs:
            player: Any = population
            players = all_runs[0].entry.players
            if isinstance(player, str) and player not in players:
                raise ConfigError(
                    f"'{player}' is neither a run nor a player of "
                    f"'{all_runs[0].entry.name}': {nearest(player, players)}"
                )
            seats = {agent.id: player for run in all_runs for agent in run.agents}
            teams.append(_Team(number, player_name(player), None, seats, set(seats)))
    return teams


def _play_pairing(
    focal: _Team, background: _Team, home: Run, episodes: int, seed: int
) -> Pairing:
    """Play the focal agent in each seat that it can take, the background in all others."""
    ids = [agent.id for agent in home.agents]
    focal_seats = [i for i in ids if i in focal.focal_seats]
    if not focal_seats:
        raise ConfigError(f"{focal.name} has no trained agent for a seat of {home.path}.")
    config = home.config.model_copy(update={"seed": seed})
    returns, seats, cut = [], [], 0
    for number, seat in enumerate(focal_seats):
        share = episodes // len(focal_seats) + (number < episodes % len(focal_seats))
        if share:
            match = play_match(
                home.entry,
                config,
                [(focal if i == seat else background).seats.get(i, "random") for i in ids],
                episodes=share,
                round_number=home.rounds_with_weights[-1],
            )
            returns.append(match.returns)
            seats += [ids.index(seat)] * len(match.episodes)
            cut += match.cut
    return Pairing(
        focal.population,
        background.population,
        focal.name,
        background.name,
        np.concatenate(returns),
        np.array(seats),
        cut,
    )


@dataclass(repr=False)
class Crossplay:
    """The returns of focal agents of each population among those of each other."""

    populations: list[str]
    game: str
    episodes: int
    pairings: list[Pairing]

    def __post_init__(self) -> None:
        size = len(self.populations)
        self.means, self.low, self.high = (np.zeros((size, size)) for _ in range(3))
        """(populations, populations): the interquartile mean over seeds of the return of a
        row's focal agents among a column's background agents, and its 95 % interval."""
        for i in range(size):
            for j in range(size):
                self.means[i, j], interval = self._cell(i, j)
                self.low[i, j], self.high[i, j] = interval

    def _between(self, i: int, j: int) -> list[Pairing]:
        return [
            pairing
            for pairing in self.pairings
            if (pairing.focal_population, pairing.background_population) == (i, j)
        ]

    def _cell(self, i: int, j: int) -> tuple[float, Interval]:
        pairings = self._between(i, j)
        if len(pairings) == 1:
            returns = pairings[0].focal_returns
            return float(returns.mean()), bootstrap(returns, _mean)
        if i == j:  # without a seed's own agents, which it was trained with
            by_focal: dict[str, list[float]] = {}
            for pairing in pairings:
                if pairing.focal != pairing.background:
                    by_focal.setdefault(pairing.focal, []).append(pairing.mean)
            means = [float(np.mean(values)) for values in by_focal.values()]
            return float(interquartile_mean(means)), bootstrap(means)
        backgrounds = len({pairing.background for pairing in pairings})
        return pair_interval(
            np.reshape([pairing.mean for pairing in pairings], (-1, backgrounds))
        )

    def among_own(self, population: int) -> tuple[float, Interval] | None:
        """Return the mean return of agents among those they were trained with.

        It is None where the matrix shows it already: for a single run, and for players.
        """
        means = [
            pairing.mean
            for pairing in self._between(population, population)
            if pairing.focal == pairing.background
        ]
        if len(means) == 1:
            return None
        return float(interquartile_mean(means)), bootstrap(means)

    @property
    def unit(self) -> str:
        """The unit of the intervals: seeds, or episodes where there is one seed each."""
        populations = range(len(self.populations))
        several = [len(self._between(i, j)) > 1 for i in populations for j in populations]
        if all(several):
            return "seeds"
        return "seeds or episodes" if any(several) else "episodes"

    @property
    def cut(self) -> int:
        """The number of episodes that were cut off because they lasted too long."""
        return sum(pairing.cut for pairing in self.pairings)

    def __repr__(self) -> str:
        names = ", ".join(self.populations)
        return f"<Crossplay {self.game}: {names}; {self.episodes} episodes per pairing>"

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.note])

    @property
    def note(self) -> str:
        """An explanation of the numbers in the table."""
        notes = ["rows are focal agents, columns the agents they play with"]
        if "seeds" in self.unit:
            notes.append("interquartile mean over seeds [95 % interval]")
        if "episodes" in self.unit:
            where = "with one seed on each side, " if "seeds" in self.unit else ""
            over = "95 % interval over episodes: one seed says nothing about others"
            notes.append(f"{where}mean [{over}]")
        if self.cut:
            notes.append(f"episodes cut off because they did not end: {self.cut}")
        return "; ".join(notes)

    def rows(self) -> list[list[str]]:
        """Return the matrix as text, with a header row."""
        own = [self.among_own(i) for i in range(len(self.populations))]
        rows = [["focal", *self.populations, *(["trained with"] if any(own) else [])]]
        for i, name in enumerate(self.populations):
            cells = [
                _shown(self.means[i, j], self.low[i, j], self.high[i, j])
                for j in range(len(self.populations))
            ]
            if any(own):
                estimate = own[i]
                cells.append(_shown(estimate[0], *estimate[1]) if estimate else "")
            rows.append([name, *cells])
        return rows

    def table(self) -> DataFrame:
        """Return one row for every pairing of two seeds (needs pandas).

        `sum`, `minimum` and `gini` are over all agents of an episode.
        """
        return pandas_or_advice().DataFrame(self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        return [
            {
                "guest_camp": self.populations[pairing.focal_population],
                "host_camp": self.populations[pairing.background_population],
                "guest": pairing.focal,
                "host": pairing.background,
                "episodes": len(pairing.returns),
                **pairing.metrics(),
            }
            for pairing in self.pairings
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "game": self.game,
            "episodes": self.episodes,
            "unit": self.unit,
            **({"cut": self.cut} if self.cut else {}),
            "camps": self.populations,
            "mean": self.means.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "meetings": [
                {key: None if value != value else value for key, value in line.items()}
                for line in self._lines()
            ],
        }

    def heat_map(self, path: str | Path) -> None:
        """Write the matrix as an image (needs matplotlib)."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigError(
                "crossplay images need matplotlib: pip install 'rookery[analysis]'."
            ) from error
        size = len(self.populations)
        figure = Figure(figsize=(2.6 + 1.5 * size, 1.8 + 1.0 * size), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(self.means, cmap="viridis")
        names = _short(self.populations)
        axes.set_xticks(range(size), names, rotation=30, ha="right")
        axes.set_yticks(range(size), names)
        axes.set_xlabel("background")
        axes.set_ylabel("focal")
        axes.set_title(f"{self.game}: return of the focal agent")
        middle = (self.means.min() + self.means.max()) / 2
        for i in range(size):
            for j in range(size):
                mean, low, high = self.means[i, j], self.low[i, j], self.high[i, j]
                text = f"{mean:.2f}\n[{low:.2f}, {high:.2f}]"
                colour = "white" if mean <= middle else "black"
                axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=9)
        figure.colorbar(image, ax=axes, label=f"mean return, 95 % over {self.unit}")
        save_figure(figure, path)


def _short(names: Sequence[str]) -> list[str]:
    """Return the last parts of paths, if they differ."""
    last = [name.rsplit("/", 1)[-1] for name in names]
    return last if len(set(last)) == len(last) else list(names)


def _mean(values: Array) -> Array:
    return np.asarray(values.mean(axis=-1))


def _shown(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"

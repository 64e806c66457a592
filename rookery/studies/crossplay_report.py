"""What came of crossplay: a matrix with intervals, every meeting, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.errors import ConfigError
from rookery.evaluation.images import save_figure
from rookery.evaluation.tables import pandas_or_advice
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


@dataclass
class Pairing:
    """What a guest and its hosts got."""

    guest_camp: int
    host_camp: int
    focal: str
    background: str
    returns: Array
    """(episodes, agents)."""
    seats: Array
    """(episodes,): where the guest sat."""
    cut: int = 0
    """How many of the episodes were cut off, because they lasted too long."""

    @property
    def own(self) -> Array:
        """What the guest got in each episode."""
        return self.returns[np.arange(len(self.seats)), self.seats]

    def figures(self) -> dict[str, float]:
        """Return what the guest got, what its hosts got, and how it was shared out."""
        count = self.returns.shape[1]
        others = (self.returns.sum(axis=1) - self.own) / max(1, count - 1)
        return {
            "return": float(self.own.mean()),
            "others": float(others.mean()) if count > 1 else float("nan"),
            "sum": float(self.returns.sum(axis=1).mean()),
            "minimum": float(self.returns.min(axis=1).mean()),
            "gini": float(np.mean(gini(self.returns))),
        }


@dataclass
class Crossplay:
    """What guests of some camps get among hosts of others."""

    populations: list[str]
    game: str
    episodes: int
    meetings: list[Pairing]

    def __post_init__(self) -> None:
        shape = (len(self.populations), len(self.populations))
        self.means, self.low, self.high = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        """(camps, camps): the interquartile mean over seeds of what a guest of the row's
        camp gets among hosts of the column's, and the 95 % interval of it."""
        for i in range(len(self.populations)):
            for j in range(len(self.populations)):
                self.means[i, j], between = self._cell(i, j)
                self.low[i, j], self.high[i, j] = between

    def _between(self, i: int, j: int) -> list[Pairing]:
        return [m for m in self.meetings if (m.guest_camp, m.host_camp) == (i, j)]

    def _cell(self, i: int, j: int) -> tuple[float, Interval]:
        found = self._between(i, j)
        if len(found) == 1:
            return float(found[0].own.mean()), bootstrap(found[0].own, _mean)
        if i == j:  # agents of one seed know each other
            by_guest: dict[str, list[float]] = {}
            for one in found:
                if one.focal != one.background:
                    by_guest.setdefault(one.focal, []).append(float(one.own.mean()))
            means = [float(np.mean(each)) for each in by_guest.values()]
            return float(interquartile_mean(means)), bootstrap(means)
        backgrounds = len({one.background for one in found})
        return pair_interval(
            np.reshape([one.own.mean() for one in found], (-1, backgrounds))
        )

    def own_company(self, population: int) -> tuple[float, Interval] | None:
        """Return what a camp's agents get among those they were trained with.

        It is None where the matrix says so already: for a single run, and for players.
        """
        found = [
            m for m in self._between(population, population) if m.focal == m.background
        ]
        if len(found) == 1:
            return None
        means = [float(one.own.mean()) for one in found]
        return float(interquartile_mean(means)), bootstrap(means)

    @property
    def unit(self) -> str:
        """What intervals are over: seeds, or episodes where one seed meets one only."""
        populations = range(len(self.populations))
        several = [len(self._between(i, j)) > 1 for i in populations for j in populations]
        if all(several):
            return "seeds"
        return "seeds or episodes" if any(several) else "episodes"

    @property
    def cut(self) -> int:
        """How many episodes were cut off, because they lasted too long."""
        return sum(one.cut for one in self.meetings)

    def __str__(self) -> str:
        header, *rows = self.rows()
        table = [header, *rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in table
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.note])

    @property
    def note(self) -> str:
        """What the table's figures are."""
        said = ["rows are guests, columns their hosts"]
        if "seeds" in self.unit:
            said.append("interquartile mean over seeds [95 % interval]")
        if "episodes" in self.unit:
            where = "where one meets one, " if "seeds" in self.unit else ""
            over = "95 % interval over episodes: one seed says nothing of others"
            said.append(f"{where}mean [{over}]")
        if self.cut:
            said.append(f"episodes cut off because they did not end: {self.cut}")
        return "; ".join(said)

    def rows(self) -> list[list[str]]:
        """Return the matrix as text, with a header."""
        own = [self.own_company(i) for i in range(len(self.populations))]
        extra = ["own company"] if any(own) else []
        found = [["guest", *self.populations, *extra]]
        for i, name in enumerate(self.populations):
            cells = [
                _shown(self.means[i, j], self.low[i, j], self.high[i, j])
                for j in range(len(self.populations))
            ]
            one = own[i]
            last = [_shown(one[0], *one[1]) if one else ""] if extra else []
            found.append([name, *cells, *last])
        return found

    def table(self) -> DataFrame:
        """Return every meeting of two seeds, one row each (needs pandas).

        `sum`, `minimum` and `gini` are over all agents of an episode, guest and hosts.
        """
        return pandas_or_advice().DataFrame(self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        return [
            {
                "guest_camp": self.populations[one.guest_camp],
                "host_camp": self.populations[one.host_camp],
                "guest": one.focal,
                "host": one.background,
                "episodes": len(one.returns),
                **one.figures(),
            }
            for one in self.meetings
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        meetings = [
            {k: None if v != v else v for k, v in line.items()} for line in self._lines()
        ]
        matrix = {
            "mean": self.means.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }
        about: dict[str, Any] = {"game": self.game, "episodes": self.episodes}
        about |= {"unit": self.unit, **({"cut": self.cut} if self.cut else {})}
        return {**about, "camps": self.populations, **matrix, "meetings": meetings}

    def heat_map(self, path: str | Path) -> None:
        """Write the matrix as a picture (needs matplotlib)."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigError(
                "pictures of crossplay need matplotlib: pip install 'rookery[analysis]' "
                "brings it."
            ) from error
        save_figure(_draw(self, Figure), path)


def _draw(found: Crossplay, figure: Any) -> Any:
    size = len(found.populations)
    made = figure(figsize=(2.6 + 1.5 * size, 1.8 + 1.0 * size), layout="constrained")
    axes = made.subplots()
    image = axes.imshow(found.means, cmap="viridis")
    names = _short(found.populations)
    axes.set_xticks(range(size), names, rotation=30, ha="right")
    axes.set_yticks(range(size), names)
    axes.set_xlabel("hosts")
    axes.set_ylabel("guest")
    axes.set_title(f"{found.game}: what the guest gets")
    middle = (found.means.min() + found.means.max()) / 2
    for i in range(size):
        for j in range(size):
            text = (
                f"{found.means[i, j]:.2f}\n[{found.low[i, j]:.2f}, {found.high[i, j]:.2f}]"
            )
            colour = "white" if found.means[i, j] <= middle else "black"
            axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=9)
    made.colorbar(image, ax=axes, label=f"mean return, 95 % over {found.unit}")
    return made


def _short(names: Sequence[str]) -> list[str]:
    """Return names without what they begin with in common."""
    last = [name.rsplit("/", 1)[-1] for name in names]
    return last if len(set(last)) == len(last) else list(names)


def _mean(values: Array) -> Array:
    return np.asarray(values.mean(axis=-1))


def _shown(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"

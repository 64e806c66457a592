"""Performance profiles of a sweep: a table, and a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rookery.api.sweep_plots import draw_profiles
from rookery.evaluation.tables import pandas_or_advice
from rookery.studies.aggregates import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(repr=False)
class Profiles:
    """Performance profiles: the fraction of runs above every score, for each variant."""

    score: str
    """The name of the score."""
    profiles: dict[str, Profile]
    """With `thresholds`, `fraction`, `low` and `high`, by variant."""
    seeds: dict[str, int]
    """The smallest number of seeds on any task, by variant."""
    tasks: tuple[str, ...]

    def __repr__(self) -> str:
        variants, tasks = len(self.profiles), len(self.tasks)
        return f"<Profiles of {self.score}: {variants} variants, {tasks} tasks>"

    def table(self) -> DataFrame:
        """Return one row per variant and threshold (needs pandas)."""
        rows = [
            {"variant": variant, "threshold": tau, "fraction": x, "low": low, "high": high}
            for variant, profile in self.profiles.items()
            for tau, x, low, high in zip(*profile, strict=True)
        ]
        return pandas_or_advice().DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw all profiles with their 95 % bands, and return the axes (needs matplotlib).

        Args:
            ax: the axes to draw in; by default new ones.
        """
        seeds = {x: f"{n} seed{'s' if n != 1 else ''}" for x, n in self.seeds.items()}
        return draw_profiles(self.profiles, seeds, f"{self.score} score", ax)

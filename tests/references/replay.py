"""Prioritised replay (Schaul et al., 2016), as a plain list of priorities."""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

import numpy as np

from rookery.config.agent import ReplayConfig

SMALLEST = 1e-3
"""ε of section 3.3: what is added to every error."""

RowKey = tuple[int, int]
"""Turn and world in which a transition opened."""


class PlainPriorities:
    """p^α of each transition of one agent's replay."""

    def __init__(self, settings: ReplayConfig, slots: int, worlds: int) -> None:
        self._settings, self._slots, self._worlds = settings, slots, worlds
        self.weights: dict[RowKey, float] = {}
        self.largest = 1.0

    def _slot(self, row: RowKey) -> int:
        """Return a transition's slot in memory; draws go through them in this order."""
        turn, world = row
        return turn % self._slots * self._worlds + world

    def take_in(self, usable: list[RowKey]) -> None:
        """Drop transitions that left; new ones get the largest priority so far."""
        self.weights = {row: self.weights.get(row, self.largest) for row in usable}

    def draw(self, numbers: np.ndarray) -> tuple[list[RowKey], list[float]]:
        """Return transitions i ~ P(i) = p_i^α / Σ p_k^α (eq. 1), and importance weights.

        w_i = (N · P(i))^−β, divided by the largest of the batch (section 3.4).
        """
        rows = sorted(self.weights, key=self._slot)
        total = sum(self.weights[row] for row in rows)
        drawn = [self._at(rows, number * total) for number in numbers]
        probabilities = [self.weights[row] / total for row in drawn]
        w = [(len(rows) * p) ** -self._settings.correction for p in probabilities]
        return drawn, [each / max(w) for each in w]

    def _at(self, rows: list[RowKey], wanted: float) -> RowKey:
        total = 0.0
        for row in rows:
            total += self.weights[row]
            if total > wanted:
                return row
        return rows[-1]

    def update(self, rows: list[RowKey], errors: list[float]) -> None:
        """Set p_i to |δ_i| + ε (section 3.3, proportional)."""
        for row, error in zip(rows, errors, strict=True):
            weight = (abs(error) + SMALLEST) ** self._settings.exponent
            self.weights[row] = weight
            self.largest = max(self.largest, weight)

    def in_memory(self) -> np.ndarray:
        """Return the weight of each slot; 0: no transition."""
        leaves = np.zeros(self._slots * self._worlds)
        for row, weight in self.weights.items():
            leaves[self._slot(row)] = weight
        return leaves

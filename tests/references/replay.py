"""Prioritised replay (Schaul et al., 2016), as a plain list of priorities."""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

import numpy as np

from rookery.config.agent import ReplayConfig

SMALLEST = 1e-3
"""ε of section 3.3: what is added to every error."""

Place = tuple[int, int]
"""Turn and world in which a step opened."""


class PlainPriorities:
    """p^α of each step of one agent's replay."""

    def __init__(self, settings: ReplayConfig, slots: int, worlds: int) -> None:
        self._settings, self._slots, self._worlds = settings, slots, worlds
        self.weights: dict[Place, float] = {}
        self.largest = 1.0

    def _spot(self, place: Place) -> int:
        """Return where a step lies in memory: in this order draws go through them."""
        turn, world = place
        return turn % self._slots * self._worlds + world

    def take_in(self, usable: list[Place]) -> None:
        """Forget steps that left, and let new ones have the largest priority so far."""
        self.weights = {place: self.weights.get(place, self.largest) for place in usable}

    def draw(self, numbers: np.ndarray) -> tuple[list[Place], list[float]]:
        """Return steps i ~ P(i) = p_i^α / Σ p_k^α (eq. 1), and importance weights.

        w_i = (N · P(i))^−β, divided by the largest of the batch (section 3.4).
        """
        places = sorted(self.weights, key=self._spot)
        total = sum(self.weights[place] for place in places)
        drawn = [self._at(places, number * total) for number in numbers]
        chances = [self.weights[place] / total for place in drawn]
        w = [(len(places) * chance) ** -self._settings.correction for chance in chances]
        return drawn, [each / max(w) for each in w]

    def _at(self, places: list[Place], wanted: float) -> Place:
        running = 0.0
        for place in places:
            running += self.weights[place]
            if running > wanted:
                return place
        return places[-1]

    def update(self, places: list[Place], errors: list[float]) -> None:
        """Let p_i be |δ_i| + ε (section 3.3, proportional)."""
        for place, error in zip(places, errors, strict=True):
            weight = (abs(error) + SMALLEST) ** self._settings.exponent
            self.weights[place] = weight
            self.largest = max(self.largest, weight)

    def in_memory(self) -> np.ndarray:
        """Return what each place of the memory weighs; 0: nothing to learn from."""
        found = np.zeros(self._slots * self._worlds)
        for place, weight in self.weights.items():
            found[self._spot(place)] = weight
        return found

"""Scripted players of tag: both run away, one of them also runs after others."""

from __future__ import annotations

import numpy as np

from rookery.games.gridworld.walker import FAR, WAYS, Walker
from rookery.games.players import Observation, pick
from rookery.specs import Array


class Idler(Walker):
    """Runs away from who is it; when it is it, wanders."""

    blocks = ("wall", "tree")

    def act(self, observation: Observation, turn: int) -> Array:
        """Flee, or wander."""
        draws = self.draw(turn)[:, 0]
        it = observation.parts["self"][:, 0] > 0
        danger = self.sees(observation, "flag") & ~it[:, None, None]
        flees = danger.any(axis=(1, 2))
        return np.where(
            flees, self._flee(observation, danger, draws), self.idle(observation, draws)
        )

    def idle(self, observation: Observation, draws: Array) -> Array:
        """Return what it does when nobody is after it."""
        return self.wander(observation, draws)

    def _flee(self, observation: Observation, danger: Array, draws: Array) -> Array:
        """Return the free move that ends farthest away."""
        distances = np.stack([self._distance(danger, way) for way in WAYS], axis=1)
        distances[self.blocked(observation)] = -1
        return pick(distances == distances.max(axis=1, keepdims=True), draws)

    def _distance(self, danger: Array, way: tuple[int, int]) -> Array:
        steps = abs(self.down - way[0]) + abs(self.right - way[1])
        return np.where(danger, steps, FAR).min(axis=(1, 2))


class Sprinter(Idler):
    """Runs away from who is it; when it is it, runs after the nearest."""

    def idle(self, observation: Observation, draws: Array) -> Array:
        """Chase where it is it and sees somebody."""
        others = self.sees(observation, self.spec.role)
        to_other, any_other = self._chase(observation, others, draws)
        chases = any_other & (observation.parts["self"][:, 0] > 0)
        return np.where(chases, to_other, self.wander(observation, draws))

    def _chase(
        self, observation: Observation, others: Array, draws: Array
    ) -> tuple[Array, Array]:
        """Go to the nearest, into it if it is next to one."""
        move, found = self.towards(observation, others, draws)
        beside = np.stack([others[self.ahead(way, 1)] for way in range(4)], axis=1)
        return np.where(beside.any(axis=1), beside.argmax(axis=1), move), found

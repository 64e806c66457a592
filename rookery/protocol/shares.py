"""Shares: how the worlds of a run are divided among its actors.

A share is a contiguous range of worlds. A world has the same number, and so the same random
numbers, in any share.
"""

from __future__ import annotations

from dataclasses import dataclass

from rookery.config.run import MOST_ACTORS

LEAST_WORLDS = 4
"""The fewest worlds of a share: networks compute fewer than 4 rows with other bits."""


@dataclass(frozen=True)
class Share:
    """The worlds that one actor plays."""

    number: int
    """Of the share, from 0, and of its actor."""
    count: int
    """How many shares there are."""
    first_world: int
    worlds: int
    """How many worlds, from `first_world` on."""

    @property
    def slice(self) -> slice:
        """The worlds, as an index of arrays of all worlds."""
        return slice(self.first_world, self.first_world + self.worlds)


def shares_of(worlds: int, actors: int) -> list[Share]:
    """Return the shares of so many actors; they differ by at most one world."""
    bounds = [i * worlds // actors for i in range(actors + 1)]
    return [Share(i, actors, bounds[i], bounds[i + 1] - bounds[i]) for i in range(actors)]


def most_shares(worlds: int) -> int:
    """Return how many shares so many worlds can be divided into."""
    return min(MOST_ACTORS, max(1, worlds // LEAST_WORLDS))


def commit_counter(share: int) -> str:
    """Return the name of the counter of the turns that an actor has committed."""
    return f"commit {share}"


def snapshot_counter(share: int) -> str:
    """Return the name of the counter of the newest snapshot of a share, + 1."""
    return f"snapshot {share}"

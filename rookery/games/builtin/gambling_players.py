"""Scripted players of gambling: each draws from the nearest deck of its taste."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array


class Safe(Walker):
    """Draws from the decks that pay little and win in the end."""

    blocks: tuple[str, ...] = ("wall", "deck_a", "deck_b")
    tastes: ClassVar[tuple[str, ...]] = ("deck_c", "deck_d")

    def act(self, observation: Observation, turn: int) -> Array:
        """Go to the nearest deck and on drawing from it."""
        draws = self.draw(turn)[:, 0]
        decks = np.logical_or.reduce([self.sees(observation, deck) for deck in self.tastes])
        to_deck, any_deck = self.towards(observation, decks, draws)
        return np.where(any_deck, to_deck, self.wander(observation, draws))


class Risky(Safe):
    """Draws from the decks that pay much and lose in the end."""

    blocks = ("wall", "deck_c", "deck_d")
    tastes = ("deck_a", "deck_b")

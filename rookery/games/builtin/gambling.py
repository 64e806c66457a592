"""Gambling: four decks of cards; two pay well and lose overall, two pay little and win.

Modelled on the Iowa gambling task.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array


class Safe(Walker):
    """Draws from the decks that pay little and win overall."""

    blocks: tuple[str, ...] = ("wall", "deck_a", "deck_b")
    prefers: ClassVar[tuple[str, ...]] = ("deck_c", "deck_d")

    def act(self, observation: Observation, turn: int) -> Array:
        """Go to the nearest preferred deck and draw from it."""
        draws = self.draw(turn)[:, 0]
        decks = np.logical_or.reduce(
            [self.sees(observation, deck) for deck in self.prefers]
        )
        to_deck, any_deck = self.towards(observation, decks, draws)
        return np.where(any_deck, to_deck, self.wander(observation, draws))


class Risky(Safe):
    """Draws from the decks that pay well and lose overall."""

    blocks = ("wall", "deck_c", "deck_d")
    prefers = ("deck_a", "deck_b")


BAD, GOOD = (196, 84, 70), (74, 116, 190)


class Gambling(grid.GridGame):
    """Walk to a deck and draw cards; every card pays, and some also cost."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=1, le=8, description="Number of agents.")
        good_gain: float = Field(0.5, description="What every card of a good deck pays.")
        bad_gain: float = Field(1.0, description="What every card of a bad deck pays.")
        good_mean: float = Field(0.25, description="Mean reward of a card of a good deck.")
        bad_mean: float = Field(-0.25, description="Mean reward of a card of a bad deck.")
        often: float = Field(
            0.5, gt=0, le=1, description="Probability of a loss in decks a and c."
        )
        seldom: float = Field(
            0.1, gt=0, le=1, description="Probability of a loss in decks b and d."
        )
        vision: int = Field(3, ge=1, le=50, description="How far an agent sees, in cells.")

    settings: Settings
    players = {"safe": Safe, "risky": Risky}
    training = {"discount": 0.9, "rate.schedule": "linear"}
    counts = ("draws_a", "draws_b", "draws_c", "draws_d")
    map = """
#########
#a.....b#
#.......#
#..P.P..#
#.P...P.#
#..P.P..#
#..P.P..#
#c.....d#
#########"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.deck_a = self._deck("a", BAD)
        self.deck_b = self._deck("b", BAD)
        self.deck_c = self._deck("c", GOOD)
        self.deck_d = self._deck("d", GOOD)
        self.card = grid.PerAgent()
        view = grid.Window(self.settings.vision)
        self.gambler = grid.Body(
            actions=(*grid.MOVES, "stay"), sees={"view": view, "self": grid.Vector("card")}
        )

    def _deck(self, char: str, colour: tuple[int, int, int]) -> grid.Kind:
        return grid.Kind(solid=True, layer="decks", char=char, tile="deck", colour=colour)

    def act(self, world: grid.World, me: grid.Me) -> None:
        luck = world.uniform()
        me.card = 0
        for deck, (gain, mean, odds) in self._decks().items():
            draws = world.has(getattr(self, f"deck_{deck}"), me.target)
            loss = (luck < odds) * (gain - mean) / odds
            me.card += draws * (gain - loss)
            count = getattr(me, f"draws_{deck}")
            count += draws
        me.reward += me.card
        me.move()

    def _decks(self) -> dict[str, tuple[float, float, float]]:
        """Return for each deck: gain of a card, mean reward, probability of a loss."""
        s = self.settings
        return {
            "a": (s.bad_gain, s.bad_mean, s.often),
            "b": (s.bad_gain, s.bad_mean, s.seldom),
            "c": (s.good_gain, s.good_mean, s.often),
            "d": (s.good_gain, s.good_mean, s.seldom),
        }

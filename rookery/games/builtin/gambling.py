"""Gambling: four decks of cards; two look generous and lose, two look dull and win."""

from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.builtin.gambling_players import Risky, Safe

BAD, GOOD = (196, 84, 70), (74, 116, 190)


class Gambling(grid.GridGame):
    """Walk to a deck and draw cards; each pays at once, and some cost later."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=1, le=8, description="How many agents play.")
        good_gain: float = Field(0.5, description="What a card of a good deck pays.")
        bad_gain: float = Field(1.0, description="What a card of a bad deck pays.")
        good_mean: float = Field(0.25, description="What it brings in the mean.")
        bad_mean: float = Field(-0.25, description="What a bad one brings in the mean.")
        often: float = Field(
            0.5, gt=0, le=1, description="Chance of a loss with the decks that lose often."
        )
        seldom: float = Field(
            0.1, gt=0, le=1, description="Chance of a loss with the decks that do not."
        )
        vision: int = Field(3, ge=1, le=50, description="How many cells away one sees.")

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
        """Return what a card pays, brings in the mean, and how often it loses."""
        some = self.settings
        return {
            "a": (some.bad_gain, some.bad_mean, some.often),
            "b": (some.bad_gain, some.bad_mean, some.seldom),
            "c": (some.good_gain, some.good_mean, some.often),
            "d": (some.good_gain, some.good_mean, some.seldom),
        }

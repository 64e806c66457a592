"""A stag hunt for two, written by following docs/your-first-game.md."""

from pydantic import Field

from rookery.games import gridworld as grid


class StagHunt(grid.GridGame):
    """A stag takes two hunters at the same moment; a hare takes one."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=2, le=2, description="How many agents hunt.")
        stag: float = Field(5.0, description="Reward of each hunter for a stag.")
        regrow: float = Field(0.1, ge=0, le=1, description="Probability that prey is back.")

    settings: Settings
    counts = ("stags", "hares")
    map = """
#########
#P..h..P#
#.......#
#..hSh..#
#.......#
#P..h..P#
#########"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.stag = grid.Kind(solid=True, layer="game", char="S")
        self.hare = grid.Kind(value=1.0, layer="game", char="h")
        self.hares_here = grid.PerCell(bool)
        self.stags_here = grid.PerCell(bool)
        self.at_stag = grid.PerAgent(bool)
        self.hunter = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=3)})

    def start(self, world: grid.World) -> None:
        world.hares_here = world.mask(self.hare)
        world.stags_here = world.mask(self.stag)

    def before(self, world: grid.World) -> None:
        chance = self.settings.regrow
        world.sprinkle(self.hare, chance=chance, mask=world.hares_here)
        world.sprinkle(self.stag, chance=chance, mask=world.stags_here)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.at_stag = world.has(self.stag, me.target)
        me.move()
        me.hares += world.has(self.hare, me.cell)
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="game", where=me.present)

    def after(self, world: grid.World) -> None:
        one, other = world.agents
        caught = one.at_stag & other.at_stag
        for me in world.agents:
            me.reward += caught * self.settings.stag
            me.stags += caught
        world.clear(one.target, layer="game", where=caught)

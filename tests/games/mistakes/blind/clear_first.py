"""Pickers, with a mistake of somebody who had not seen the check."""

from pydantic import Field

from rookery.games import gridworld as grid


class Pickers(grid.GridGame):
    """Pick berries; whoever picks one is rewarded."""

    class Settings(grid.GridSettings):
        agents: int = Field(2, ge=1, description="Number of agents.")

    settings: Settings
    map = """
#########
#P..*..P#
#..*.*..#
#P..*..P#
#########"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries", char="*")
        self.bush = grid.PerCell(bool)
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

    def start(self, world: grid.World) -> None:
        world.bush = world.mask(self.berry)

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.berry, chance=0.05, mask=world.bush)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        world.clear(me.cell, layer="berries")
        me.reward += world.value(me.cell)

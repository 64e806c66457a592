"""Finish, with a mistake of somebody who had not seen the check."""

from pydantic import Field

from rookery.games import gridworld as grid


class Finish(grid.GridGame):
    """The episode ends when all berries are gone."""

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
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

    def after(self, world: grid.World) -> None:
        world.end = ~world.mask(self.berry).any(axis=1)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")

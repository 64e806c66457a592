"""Two rooms, one agent in each: nobody can see, meet or hinder anybody."""

from rookery.games import gridworld as grid


class Rooms(grid.GridGame):
    """Pick berries that grow back, each in a room of one's own."""

    map = """
#############
#P..#####..P#
#...#####...#
#############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(2)})

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.berry, chance=0.1)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")

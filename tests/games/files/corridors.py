"""Two corridors, one agent in each: the best possible return is known exactly."""

from rookery.games import gridworld as grid


class Corridors(grid.GridGame):
    """Walk to the flag at the end; every turn costs."""

    map = """
#######
#P...f#
#######
#P...f#
#######"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.flag = grid.Kind(value=1.0, layer="flags")
        self.walker = grid.Body(grid.MOVES, sees={"view": grid.Window(2)})

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell) - 0.1 * me.present
        me.end(where=world.has(self.flag, me.cell))


BEST = 1.0 - 4 * 0.1
"""Four moves to the flag, each of which costs a tenth."""

"""A game that changes from round to round."""

from rookery.games import gridworld as grid


class School(grid.GridGame):
    """Every round brings more berries, and a higher wage."""

    chance = 0.0

    class Settings(grid.GridSettings):
        steep: float = 0.02
        height: int = 6
        width: int = 6

    def declare(self):
        self.berry = grid.Kind(layer="berries")
        self.pupil = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def begin_round(self, number):
        self.chance = min(0.5, self.settings.steep * number)

    def before(self, world):
        world.sprinkle(self.berry, chance=self.chance)

    def act(self, world, me):
        me.reward += self.chance
        world.clear(me.target, layer="berries")
        me.move()

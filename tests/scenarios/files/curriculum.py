"""A game that changes from round to round."""

from rookery.games import gridworld as grid


class Curriculum(grid.GridGame):
    """Every round has more berries and pays a higher wage."""

    wage = 0.0

    class Settings(grid.GridSettings):
        slope: float = 0.02
        height: int = 6
        width: int = 6

    def declare(self):
        self.berry = grid.Kind(layer="berries")
        self.pupil = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def begin_round(self, number):
        self.wage = min(0.5, self.settings.slope * number)

    def before(self, world):
        world.sprinkle(self.berry, chance=self.wage)

    def act(self, world, me):
        me.reward += self.wage
        world.clear(me.target, layer="berries")
        me.move()

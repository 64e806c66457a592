"""Treasurehunt: gems and food are worth having, bones are not, walls hurt."""

from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.builtin.treasurehunt_players import Forager


class Treasurehunt(grid.GridGame):
    """Collect treasure in a walled field that fills up by itself."""

    class Settings(grid.GridSettings):
        height: int = Field(21, ge=3, le=200, description="Rows, walls included.")
        width: int = Field(21, ge=3, le=200, description="Columns, walls included.")
        gem: float = Field(10.0, description="Reward for a gem.")
        food: float = Field(5.0, description="Reward for food.")
        bone: float = Field(-10.0, description="Reward for a bone.")
        bump: float = Field(-1.0, description="Reward for running into a wall.")
        spawn: float = Field(0.005, ge=0, le=1, description="Chance that a cell fills.")
        vision: int = Field(2, ge=1, le=50, description="How many cells away one sees.")

    settings: Settings
    players = {"forager": Forager}
    training = {"reward.scale": 0.1, "discount": 0.97, "rate.schedule": "linear"}

    def declare(self) -> None:
        worth = self.settings
        self.wall = grid.Kind(solid=True, value=worth.bump, layer="walls", char="#")
        self.gem = grid.Kind(value=worth.gem, layer="loot")
        self.food = grid.Kind(value=worth.food, layer="loot")
        self.bone = grid.Kind(value=worth.bone, layer="loot")
        self.hunter = grid.Body(grid.MOVES, sees={"view": grid.Window(worth.vision)})

    def start(self, world: grid.World) -> None:
        world.fence(self.wall)

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.gem, self.food, self.bone, chance=self.settings.spawn)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += world.value(me.target)
        world.clear(me.target, layer="loot")
        me.move()

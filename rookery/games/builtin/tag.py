"""Tag: the agent that is "it" chases the others; the one it touches is "it" next."""

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.gridworld.walker import FAR, WAYS, Walker
from rookery.games.players import Observation, pick
from rookery.specs import Array


class Idler(Walker):
    """Runs away from the agent that is it; wanders when it is it itself."""

    blocks = ("wall", "tree")

    def act(self, observation: Observation, turn: int) -> Array:
        """Flee, or wander."""
        draws = self.draw(turn)[:, 0]
        it = observation.parts["self"][:, 0] > 0
        danger = self.sees(observation, "flag") & ~it[:, None, None]
        flees = danger.any(axis=(1, 2))
        return np.where(
            flees, self._flee(observation, danger, draws), self.idle(observation, draws)
        )

    def idle(self, observation: Observation, draws: Array) -> Array:
        """Return the moves where no chaser is in sight."""
        return self.wander(observation, draws)

    def _flee(self, observation: Observation, danger: Array, draws: Array) -> Array:
        """Return the free move that ends farthest from the chaser."""
        distances = np.stack([self._distance(danger, way) for way in WAYS], axis=1)
        distances[self.blocked(observation)] = -1
        return pick(distances == distances.max(axis=1, keepdims=True), draws)

    def _distance(self, danger: Array, way: tuple[int, int]) -> Array:
        steps = abs(self.down - way[0]) + abs(self.right - way[1])
        return np.where(danger, steps, FAR).min(axis=(1, 2))


class Sprinter(Idler):
    """Runs away from the agent that is it; chases the nearest when it is it itself."""

    def idle(self, observation: Observation, draws: Array) -> Array:
        """Return moves that chase, where it is it and sees another agent."""
        others = self.sees(observation, self.spec.role)
        to_other, any_other = self._chase(observation, others, draws)
        chases = any_other & (observation.parts["self"][:, 0] > 0)
        return np.where(chases, to_other, self.wander(observation, draws))

    def _chase(
        self, observation: Observation, others: Array, draws: Array
    ) -> tuple[Array, Array]:
        """Return the move to the nearest agent, and where there is one."""
        move, any_other = self.towards(observation, others, draws)
        beside = np.stack([others[self.ahead(way, 1)] for way in range(4)], axis=1)
        return np.where(beside.any(axis=1), beside.argmax(axis=1), move), any_other


class Tag(grid.GridGame):
    """Touch another agent while you are it, and keep away from it otherwise."""

    class Settings(grid.GridSettings):
        agents: int = Field(3, ge=2, le=8, description="Number of agents.")
        touch: float = Field(1.0, description="Reward for touching another agent.")
        touched: float = Field(-1.0, description="Reward for being touched.")
        free: float = Field(0.05, description="Reward for every turn of not being it.")
        stumble: float = Field(
            0.3,
            ge=0,
            le=1,
            description="Probability that an agent that is not it fails to move.",
        )
        pause: int = Field(
            3, ge=0, le=100, description="Turns for which a touched agent cannot move."
        )
        vision: int = Field(4, ge=1, le=50, description="How far an agent sees, in cells.")

    settings: Settings
    players = {"sprinter": Sprinter, "idler": Idler}
    training = {"discount": 0.95, "rate.schedule": "linear"}
    counts = ("touches", "turns_it")
    map = """
#############
#P....P....P#
#..t.....t..#
#.....t.....#
#P.........P#
#...t...t...#
#P.........P#
#.....t.....#
#..t.....t..#
#P....P....P#
#############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.tree = grid.Kind(solid=True, layer="walls", char="t")
        self.it = grid.PerAgent(np.bool_)
        self.rest = grid.PerAgent(np.int16)
        self.child = grid.Body(
            actions=(*grid.MOVES, "stay"),
            sees={
                "view": grid.Window(self.settings.vision),
                "self": grid.Vector("it", "rest"),
            },
        )
        self.flag = grid.Kind(layer="flags")

    def start(self, world: grid.World) -> None:
        first = world.integers(len(world.agents))
        for me in world.agents:
            me.it = first == me.number

    def before(self, world: grid.World) -> None:
        self._show(world)

    def act(self, world: grid.World, me: grid.Me) -> None:
        awake = me.rest == 0
        me.rest -= ~awake
        touching = me.it & awake
        for other in world.agents:
            if other is not me:
                self._touch(me, other, touching & (other.cell == me.target))
        stumbles = world.chance(self.settings.stumble) & ~me.it
        me.move(where=awake & ~stumbles)

    def _touch(self, me: grid.Me, other: grid.Me, where: np.ndarray) -> None:
        me.it &= ~where
        other.it |= where
        np.copyto(other.rest, self.settings.pause, where=where)
        me.touches += where
        me.reward += where * self.settings.touch
        other.reward += where * self.settings.touched

    def after(self, world: grid.World) -> None:
        for me in world.agents:
            me.reward += ~me.it * self.settings.free
            me.turns_it += me.it
        self._show(world)

    def _show(self, world: grid.World) -> None:
        """Put the flag on the agent that is it."""
        world.layer("flags")[...] = 0
        for me in world.agents:
            world.put(self.flag, me.cell, where=me.it)

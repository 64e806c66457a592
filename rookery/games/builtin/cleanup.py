"""Cleanup: apples grow only while agents clean the river, which pays nothing."""

from typing import Any

import numpy as np
from pydantic import Field

from rookery.games import gridworld as grid
from rookery.games.gridworld.walker import Walker
from rookery.games.players import Observation
from rookery.specs import Array

WEST, EAST = -1, 1
ENOUGH = 3
"""A cleaner that sees at least this many dirty cells stops eating and cleans."""


class Eater(Walker):
    """Goes to the nearest visible apple; if there is none, waits in the orchard."""

    blocks = ("wall", "water")

    def act(self, observation: Observation, turn: int) -> Array:
        """Eat, or walk to the orchard."""
        return self._eat(observation, self.draw(turn)[:, 0])

    def _eat(self, observation: Observation, draws: Array) -> Array:
        """Return the move to an apple, else east, and random moves in the orchard."""
        is_east = self._is_east(observation)
        to_apple, any_apple = self.towards(
            observation, self.sees(observation, "apple"), draws
        )
        east = self.go(observation, 0 * is_east, 0 * is_east + EAST, draws)
        idle = np.where(is_east, self.wander(observation, draws), east)
        return np.where(any_apple, to_apple, idle)

    def _is_east(self, observation: Observation) -> Array:
        """Return in which worlds the eastern wall is at most three cells away."""
        walls = self.sees(observation, "wall") & (self.down == 0)
        return np.asarray((walls & (self.right > 0) & (self.right <= 3)).any(axis=(1, 2)))


class Cleaner(Eater):
    """Cleans dirt that it sees; goes to look at the river when no apple is in sight."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        settings: Any = self.settings
        self._length = settings.length
        self.memory["inspects"] = np.zeros(self.worlds, np.bool_)

    def act(self, observation: Observation, turn: int) -> Array:
        """Clean, eat, or walk to the river."""
        draws = self.draw(turn)[:, 0]
        dirt = self.sees(observation, "dirt")
        dirty = dirt.sum(axis=(1, 2)) >= ENOUGH
        inspects = self._inspects(observation, dirty)
        west = self.go(observation, 0 * draws, 0 * draws + WEST, draws)
        eats = self._eat(observation, draws)
        idle = np.where(inspects, west, eats)
        return np.where(dirty, self._clean(observation, dirt, draws), idle)

    def _inspects(self, observation: Observation, dirty: Array) -> Array:
        """Return in which worlds it is walking to the river, having found no apple."""
        apples = self.sees(observation, "apple").any(axis=(1, 2))
        inspects = self.memory["inspects"]
        inspects |= ~apples & self._is_east(observation)
        inspects &= ~(self.sees(observation, "water")[self.ahead(3, 1)] | dirty)
        return inspects.copy()

    def _clean(self, observation: Observation, dirt: Array, draws: Array) -> Array:
        """Return `clean` if dirt is straight ahead, else a move that lines up with dirt."""
        facing = observation.parts["self"][:, :4].argmax(axis=1)
        lines = np.stack(
            [self._in_line(observation, dirt, way) for way in range(4)], axis=1
        )
        ahead = lines[np.arange(self.worlds), facing]
        to_dirt, _ = self.towards(observation, dirt, draws)
        turned = np.where(lines.any(axis=1), lines.argmax(axis=1), to_dirt)
        return np.where(ahead, self.does["clean"], turned)

    def _in_line(self, observation: Observation, dirt: Array, way: int) -> Array:
        """Return in which worlds a beam that way reaches dirt before another agent."""
        reaches = np.zeros(self.worlds, np.bool_)
        is_clear = ~reaches
        others = self.sees(observation, self.spec.role)
        for steps in range(1, min(self._length, self.reach) + 1):
            cell = self.ahead(way, steps)
            is_clear &= ~others[cell]
            reaches |= is_clear & dirt[cell]
        return reaches


COMPASS = np.eye(4, dtype=np.float32)


class Cleanup(grid.GridGame):
    """Eat apples that need a clean river; cleaning it feeds all agents and costs time."""

    class Settings(grid.GridSettings):
        agents: int = Field(4, ge=1, le=12, description="Number of agents.")
        turns: int = Field(
            200, ge=1, le=1_000_000, description="Turns until an episode is truncated."
        )
        growth: float = Field(
            0.05,
            ge=0,
            le=1,
            description="Probability per turn that an apple grows when the river is clean.",
        )
        pollution: float = Field(
            0.02,
            ge=0,
            le=1,
            description="Probability per turn that a river cell gets dirty.",
        )
        threshold: float = Field(
            0.5,
            gt=0,
            le=1,
            description="Dirty fraction of the river at which apples stop growing.",
        )
        dirt: float = Field(
            0.0, ge=0, le=1, description="Dirty fraction of the river at the start."
        )
        length: int = Field(
            3, ge=1, le=100, description="Length of the cleaning beam, in cells."
        )
        vision: int = Field(4, ge=1, le=50, description="How far an agent sees, in cells.")

    settings: Settings
    players = {"cleaner": Cleaner, "eater": Eater}
    training = {"discount": 0.97, "rate.schedule": "linear"}
    counts = ("apples", "cleaned")
    map = """
##############
#~~~.P.P.aaaa#
#~~~.....aaaa#
#~~~.P.P.aaaa#
#~~~.....aaaa#
#~~~.P.P.aaaa#
#~~~.....aaaa#
#~~~.P.P.aaaa#
#~~~.P.P.aaaa#
##############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.water = grid.Kind(layer="river", char="~")
        self.dirt = grid.Kind(layer="dirt")
        self.apple = grid.Kind(value=1.0, layer="apples")
        self.orchard = grid.PerCell(np.bool_)
        self.compass = grid.PerAgent(shape=(4,))
        view = grid.Window(self.settings.vision)
        self.villager = grid.Body(
            actions=(*grid.MOVES, "clean", "stay"),
            sees={"view": view, "self": grid.Vector("compass")},
        )
        self.beam = grid.Kind(layer="beams", lifetime=1, char="*")

    def start(self, world: grid.World) -> None:
        world.orchard = world.mask(self.apple)
        world.remove(self.apple, world.orchard)
        world.fill(self.dirt, world.lucky(self.settings.dirt) & world.mask(self.water))

    def before(self, world: grid.World) -> None:
        river = world.mask(self.water)
        world.fill(self.dirt, world.lucky(self.settings.pollution) & river)
        dirty = world.count(self.dirt) / river.sum(axis=1)
        clean = np.clip(1 - dirty / self.settings.threshold, 0, 1)
        growth = self.settings.growth * clean[:, None]
        world.sprinkle(self.apple, chance=growth, mask=world.orchard)
        for me in world.agents:
            me.compass = COMPASS[me.facing]

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move(where=~world.has(self.water, me.target))  # agents cannot swim
        me.apples += world.has(self.apple, me.cell)
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="apples")
        dirt = world.count(self.dirt)
        me.beam(self.beam, self.settings.length, where=me.does("clean"))
        world.remove(self.dirt, world.mask(self.beam))
        me.cleaned += dirt - world.count(self.dirt)

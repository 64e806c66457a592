"""One agent in all worlds, as the author of a grid game sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rookery.errors import ConfigError, nearest
from rookery.games.gridworld.layout import NOWHERE, Actions
from rookery.games.gridworld.rules import AGENTS, Body, Kind
from rookery.games.gridworld.state import Bound
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.games.gridworld.world import World


class Me(Bound):
    """An agent: its columns, and what it can do. Every array has one entry per world."""

    number: int
    body: Body
    cell: Array
    """Where it stands; 0 where it is out."""
    facing: Array
    """0 up, 1 right, 2 down, 3 left."""
    reward: Array
    """What this turn brings it; starts at 0."""
    score: Array
    """What to report for this turn, if the game is scored."""
    action: Array
    """What it chose; one past the last action where it is not there to act."""
    target: Array
    """The cell its move aims at; its own cell where the action is no move."""
    back: Array
    """The turn in which it comes back, where it is out for a while."""
    ended: Array
    _world: World
    _actions: Actions
    _ground: Array

    def __init__(self, world: World, number: int) -> None:
        layout = world.layout
        body = layout.roster[number]
        self.bind(
            number=number,
            body=body,
            action=np.zeros(world.worlds, np.int64),
            target=np.zeros(world.worlds, np.int64),
            _world=world,
            _actions=layout.actions[body.name],
            _ground=world.layer(AGENTS).reshape(-1),
        )

    def choose(self, actions: Array) -> None:
        """Take the agent's actions for this turn: it turns, and `target` is set."""
        meaning = self._actions
        np.copyto(self.action, actions)
        self.action[self.cell == NOWHERE] = meaning.count
        place = self.action
        if meaning.relative:
            place = self.facing * np.int64(meaning.count + 1) + place
        np.add(self.cell, meaning.toward.take(place), out=self.target)
        np.copyto(self.facing, meaning.turned.take(place))

    def wait(self) -> None:
        """Begin a turn: it has not acted yet."""
        self.action.fill(self._actions.count)
        np.copyto(self.target, self.cell)

    def does(self, name: str) -> Array:
        """Return where the action is, or contains, the one of this name."""
        meaning = self._actions.does.get(name)
        if meaning is None:
            raise ConfigError(
                f"nobody has an action '{name}': {nearest(name, self._actions.does)}"
            )
        return meaning.take(self.action)

    @property
    def present(self) -> Array:
        """Where it is on the map."""
        return self.cell != NOWHERE

    @property
    def front(self) -> Array:
        """The cell it faces; its own where it is out."""
        ahead = self._world.layout.directions.take(self.facing)
        return np.where(self.present, self.cell + ahead, self.cell)

    def move(self, where: Array | None = None) -> Array:
        """Go to `target` unless something solid is there; return where it went."""
        moved = ~self._world.solid(self.target)
        if where is not None:
            moved &= where
        # No mask for those who are out: their target is their own cell, which is solid.
        self._ground[(self._world.base + self.cell)[moved]] = 0
        self._settle(self.target, moved)
        return moved

    def place(self, cells: Array, where: Array | None = None) -> None:
        """Put it into cells, from wherever it is."""
        where = np.ones(self._world.worlds, bool) if where is None else where
        self._ground[(self._world.base + self.cell)[where & self.present]] = 0
        self._settle(cells, where)

    def _settle(self, cells: Array, where: Array) -> None:
        np.copyto(self.cell, cells, where=where)
        self._ground[(self._world.base + cells)[where]] = self.body.kind.id

    def leave(self, turns: int, where: Array) -> None:
        """Take it off the map for some turns; it comes back by itself."""
        leaving = where & self.present
        self._ground[(self._world.base + self.cell)[leaving]] = 0
        np.copyto(self.cell, NOWHERE, where=leaving)
        np.copyto(self.target, NOWHERE, where=leaving)  # it moves no more
        np.copyto(self.back, self._world.turn + turns + 1, where=leaving)

    def end(self, where: Array) -> None:
        """Take it off the map for the rest of the episode, as terminated."""
        self.leave(0, where)
        self.ended |= where

    def beam(
        self, kind: Kind, length: int, width: int = 1, where: Array | None = None
    ) -> Iterator[tuple[Me, Array]]:
        """Shoot a beam and go through the other agents with where each was hit.

        It flies straight ahead in `width` lanes, leaves things of `kind` behind, and ends
        at the first solid thing, which it still hits.
        """
        if width % 2 == 0:
            raise ConfigError(
                f"a beam of width {width} has no middle lane: give an odd width."
            )
        world = self._world
        firing = self.present if where is None else self.present & where
        hits = np.zeros(world.cell.shape, bool)
        if firing.any():
            for start, flying in self._lanes(width, firing):
                self._fly(start, flying, kind, length, hits)
        others = (other for other in world.agents if other is not self)
        return ((other, hits[other.number]) for other in others)

    def _lanes(self, width: int, firing: Array) -> Iterator[tuple[Array, Array]]:
        """Give the cell each lane starts behind, and where it is not blocked already."""
        yield self.cell, firing
        for quarter in (1, 3):
            side = self._world.layout.directions.take((self.facing + quarter) % 4)
            start, open_ = self.cell, firing
            for _ in range(width // 2):
                start = np.where(open_, start + side, start)
                open_ = open_ & ~self._world.solid(start)
                yield start, open_

    def _fly(
        self, cell: Array, flying: Array, kind: Kind, length: int, hits: Array
    ) -> None:
        world = self._world
        ahead = world.layout.directions.take(self.facing)
        for _ in range(length):
            cell = np.where(flying, cell + ahead, cell)
            hits |= (world.cell == cell) & flying
            flying = flying & ~world.solid(cell)
            world.put(kind, cell, where=flying)

"""One agent in all worlds, as the rules of a grid game use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rookery.errors import ConfigError, nearest
from rookery.games.gridworld import loops
from rookery.games.gridworld.layout import NOWHERE, ActionTable
from rookery.games.gridworld.names import AGENTS
from rookery.games.gridworld.rules import Body, Kind
from rookery.games.gridworld.state import StateView
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.games.gridworld.world import World


class Me(StateView):
    """An agent: its columns and what it can do. Every array has one entry per world."""

    _owners = "agents"
    _remedy = "declare it with PerAgent, or add it to counts"
    _close = 0.5

    number: int
    """Which agent it is, from 0; `world.agents[number]` is the agent itself."""
    body: Body
    """Its body, as `GridGame.roster` says."""
    cell: Array
    """The cell it is in; 0 where it is off the map."""
    facing: Array
    """0 up, 1 right, 2 down, 3 left."""
    reward: Array
    """Its reward in this turn; starts at 0. Any agent's can be changed at any time:
    `world.agents[1 - me.number].reward -= 2.0 * stolen`."""
    score: Array
    """The reward to report for this turn, if the game is `scored`."""
    action: Array
    """Its action; one past the last action where it cannot act."""
    target: Array
    """The cell its action moves to; its own cell where the action is not a move."""
    back: Array
    """The turn in which it returns, where it has left for a while."""
    ended: Array
    _world: World
    _actions: ActionTable
    _ground: Array

    def __init__(self, world: World, number: int) -> None:
        layout = world.layout
        body = layout.roster[number]
        self.bind(
            number=number,
            body=body,
            action=world.loop_arrays.actions[number],
            target=world.loop_arrays.targets[number],
            _world=world,
            _actions=layout.actions[body.name],
            _ground=world.layer(AGENTS).reshape(-1),
        )

    def choose(self, actions: Array) -> None:
        """Set the agent's actions for this turn; updates `facing` and `target`."""
        table = self._actions
        bad = loops.choose(
            np.ascontiguousarray(actions, np.int64),
            self.cell,
            self.action,
            self.target,
            self.facing,
            table.toward,
            table.turned,
            table.count,
            table.relative,
        )
        if bad != loops.OK:
            raise IndexError(
                f"action {actions[bad]} is out of bounds for axis 0 with size {table.count}"
            )

    def does(self, name: str) -> Array:
        """Return where its action is, or includes, the one with this name."""
        matches = self._actions.does.get(name)
        if not isinstance(name, str):
            raise ConfigError(f"does() got {name!r}, expected an action's name.")
        if matches is None:
            raise ConfigError(
                f"no Body has an action '{name}': {nearest(name, self._actions.does)}"
            )
        return matches.take(self.action)

    @property
    def present(self) -> Array:
        """Where it is on the map."""
        return self.cell != NOWHERE

    @property
    def front(self) -> Array:
        """The cell it faces; its own where it is off the map."""
        ahead = self._world.layout.directions.take(self.facing)
        return np.where(self.present, self.cell + ahead, self.cell)

    def move(self, where: Array | None = None) -> Array:
        """Move to `target` unless something solid is in it; return where it moved."""
        world = self._world
        moved = np.empty(world.worlds, np.bool_)
        # Agents off the map do not move: their target is their own cell, which is solid.
        bad = loops.move(
            world.loop_arrays.layers,
            self._ground,
            self.cell,
            self.target,
            world.loop_arrays.everywhere if where is None else world.checked(where),
            world.layout.solids,
            world.layout.cells,
            self.body.kind.id,
            moved,
        )
        world.check_cells(self.target, bad)
        return moved

    def place(self, cells: Array, where: Array | None = None) -> None:
        """Put it into cells, wherever it is now."""
        world = self._world
        where = world.loop_arrays.everywhere if where is None else world.checked(where)
        self._ground[(self._world.base + self.cell)[where & self.present]] = 0
        self._settle(cells, where)

    def _settle(self, cells: Array, where: Array) -> None:
        np.copyto(self.cell, cells, where=where)
        self._ground[(self._world.base + cells)[where]] = self.body.kind.id

    def leave(self, turns: int, where: Array) -> None:
        """Take it off the map for some turns, after which the engine puts it back."""
        leaving = self._world.checked(where) & self.present
        if not np.count_nonzero(leaving):
            return
        self._ground[(self._world.base + self.cell)[leaving]] = 0
        np.copyto(self.cell, NOWHERE, where=leaving)
        np.copyto(self.target, NOWHERE, where=leaving)  # so that `move` does nothing
        np.copyto(self.back, self._world.turn + turns + 1, where=leaving)

    def end(self, where: Array) -> None:
        """Take it off the map for the rest of the episode, as terminated."""
        self.leave(0, where)
        self.ended |= self._world.checked(where)

    def beam(
        self, kind: Kind, length: int, width: int = 1, where: Array | None = None
    ) -> Iterator[tuple[Me, Array]]:
        """Shoot a beam; iterate over the other agents with where each was hit.

        It goes straight ahead in `width` lanes, leaves things of `kind` in the cells that
        it passes, and ends at the first solid thing, which it still hits.
        """
        if width % 2 == 0:
            raise ConfigError(
                f"a beam has width {width}, expected an odd number, with a middle lane."
            )
        world = self._world
        firing = self.present if where is None else self.present & world.checked(where)
        hits = np.zeros(world.cell.shape, np.bool_)
        if np.count_nonzero(firing):
            for starts, flying in self._lanes(width, firing):
                self._fly(starts, flying, world.declared_kind(kind), length, hits)
        others = (other for other in world.agents if other is not self)
        return ((other, hits[other.number]) for other in others)

    def _lanes(self, width: int, firing: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the cell before each lane, and where the lane is not blocked already."""
        yield self.cell, firing
        for quarter in (1, 3):
            side = self._world.layout.directions.take((self.facing + quarter) % 4)
            start, open_ = self.cell, firing
            for _ in range(width // 2):
                start = np.where(open_, start + side, start)
                open_ = open_ & ~self._world.solid(start)
                yield start, open_

    def _fly(
        self, starts: Array, flying: Array, kind: Kind, length: int, hits: Array
    ) -> None:
        world, layout = self._world, self._world.layout
        loops.fly(
            world.loop_arrays.layers,
            world.flat_layer(kind.layer),
            starts,
            flying,
            self.facing,
            layout.directions,
            length,
            world.cell,
            layout.solids,
            layout.cells,
            kind.id,
            kind.lifetime or 0,
            world.turn,
            world.loop_arrays.expiry[kind.layer],
            hits,
        )

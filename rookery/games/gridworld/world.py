"""All worlds of a grid game at once, as its author sees them.

A cell is a number. Arguments called `cells` hold one cell per world, `where` one bool per
world, and `mask` one bool per world and cell. Nothing mentions which world is meant:
every operation acts in all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.games.gridworld.agent import Me
from rookery.games.gridworld.chance import Chance
from rookery.games.gridworld.layout import Layout
from rookery.games.gridworld.rules import AGENTS, Kind, PerAgent, PerCell, PerWorld
from rookery.games.gridworld.state import Bound, Columns
from rookery.specs import Array

NEVER = np.iinfo(np.int32).max


class World(Bound):
    """The state of all worlds, and what can be done with it."""

    layout: Layout
    worlds: int
    columns: Columns
    per_agent: list[str]
    per_world: list[str]
    agents: tuple[Me, ...]
    random: Chance
    turn: Array
    """Turns played in the present episode, this one included."""
    episode: Array
    """Episodes finished before the present one."""
    over: Array
    closing: Array
    ended: Array
    done: Array
    back: Array
    facing: Array
    cell: Array
    """Every agent's cell, (agents, worlds)."""
    base: Array
    """What to add to a cell to find it in a layer of all worlds."""
    layers: Array
    """Every layer, (layers, worlds, cells)."""
    _flat: Array
    _layer_base: Array

    def __init__(self, layout: Layout, seed: int, numbers: Array) -> None:
        worlds = len(numbers)
        columns = Columns(worlds)
        layers = columns.add("layers", np.uint8, (len(layout.layers),), (layout.cells,))
        self.bind(
            layout=layout,
            worlds=worlds,
            columns=columns,
            per_agent=[],
            per_world=[],
            base=np.arange(worlds) * layout.cells,
            layers=layers,
            _flat=layers.reshape(-1),
            _layer_base=(np.arange(len(layers)) * worlds * layout.cells)[:, None],
        )
        self.bind(agents=tuple(Me(self, i) for i in range(len(layout.roster))))
        self._add_columns()
        self.bind(random=Chance(seed, numbers, self.episode, self.turn))
        self.blank()

    def _add_columns(self) -> None:
        self._per_world("episode", np.int64, default=-1)
        self._per_world("turn", np.int64)
        self._per_world("over", np.bool_)
        self._per_world("closing", np.bool_)
        for name, dtype in (
            ("cell", np.int64),
            ("facing", np.int8),
            ("back", np.int64),
        ):
            self._per_agent(name, dtype)
        self._per_agent("ended", np.bool_)
        self._per_agent("done", np.bool_)
        for name in ("reward", "score", *self.layout.rules.counts):
            self._per_agent(name, np.float32)
        for number in self.layout.mortal_layers:
            self._per_cell(f"expiry_{number}", np.int32, NEVER)
        taken = {*dir(self), *dir(Me), *World.__annotations__, *Me.__annotations__}
        taken |= {*self.__dict__, *self.agents[0].__dict__}
        for name, column in self.layout.columns.items():
            if name in taken:
                raise ConfigError(
                    f"'{name}' cannot be a column of {type(self.layout.rules).__name__}: "
                    f"the engine has a '{name}' of its own; choose another name."
                )
            if isinstance(column, PerCell):
                self._per_cell(name, column.dtype, column.default, column.shape)
            elif isinstance(column, PerAgent):
                self._per_agent(name, column.dtype, column.shape, column.default)
            elif isinstance(column, PerWorld):
                self._per_world(name, column.dtype, column.shape, column.default)

    def _per_cell(
        self, name: str, dtype: Any, default: float = 0, shape: tuple[int, ...] = ()
    ) -> None:
        whole = (self.layout.cells, *shape)
        self.bind(**{name: self.columns.add(name, dtype, (), whole, default)})

    def _per_world(
        self, name: str, dtype: Any, shape: tuple[int, ...] = (), default: float = 0
    ) -> None:
        self.bind(**{name: self.columns.add(name, dtype, (), shape, default)})
        self.per_world.append(name)

    def _per_agent(
        self, name: str, dtype: Any, shape: tuple[int, ...] = (), default: float = 0
    ) -> None:
        array = self.columns.add(name, dtype, (len(self.agents),), shape, default)
        self.bind(**{name: array})
        self.per_agent.append(name)
        for me in self.agents:
            me.bind(**{name: array[me.number]})

    def blank(self) -> None:
        """Empty all worlds: no things, agents nowhere, columns at their defaults."""
        self.columns.blank()
        self.layer(AGENTS)[:, self.layout.outside] = self.layout.kinds[1].id

    # What lies where.

    def layer(self, name: str) -> Array:
        """Return one layer, (worlds, cells) of kinds' numbers; 0 is nothing."""
        return self.layers[self.layout.layer_number(name)]

    def kinds_at(self, cells: Array) -> Array:
        """Return the numbers of the kinds in these cells, (layers, worlds)."""
        return self._flat.take(self._layer_base + (self.base + cells))

    def value(self, cells: Array) -> Array:
        """Return what the things in these cells are worth together."""
        return np.add.reduce(self.layout.values.take(self.kinds_at(cells)), axis=0)

    def solid(self, cells: Array) -> Array:
        """Return whether something solid is in these cells."""
        return np.logical_or.reduce(self.layout.solids.take(self.kinds_at(cells)), axis=0)

    def has(self, kind: Kind, cells: Array) -> Array:
        """Return whether a thing of this kind is in these cells."""
        there = self.layer(kind.layer).reshape(-1).take(self.base + cells)
        return np.asarray(there == kind.id)

    def mask(self, kind: Kind) -> Array:
        """Return where things of this kind are, (worlds, cells) bool."""
        return np.asarray(self.layer(kind.layer) == kind.id)

    def near(self, kind: Kind, radius: int = 1) -> Array:
        """Count a kind's things within `radius` steps of each cell, (worlds, cells)."""
        height, width = self.layout.height, self.layout.width
        there = self.mask(kind)[:, self.layout.inside].reshape(-1, height, width)
        padded = np.pad(there.astype(np.int16), ((0, 0), (radius,) * 2, (radius,) * 2))
        found = -there.astype(np.int16)  # the cell itself does not count
        for down in range(2 * radius + 1):
            slack = abs(down - radius)
            for right in range(slack, 2 * radius + 1 - slack):
                found += padded[:, down : down + height, right : right + width]
        whole = np.zeros((self.worlds, self.layout.cells), np.int16)
        whole[:, self.layout.inside] = found.reshape(self.worlds, -1)
        return whole

    def count(self, kind: Kind) -> Array:
        """Return how many things of a kind there are, per world."""
        return np.asarray(self.mask(kind).sum(axis=1))

    # Changing what lies where.

    def put(self, kind: Kind, cells: Array, where: Array | None = None) -> None:
        """Put a thing into a cell, in place of what its layer held there.

        Nothing is put beyond the map, where agents that are out are.
        """
        spots = self.base + cells
        there = ~self.layout.outside.take(spots - self.base)
        self._lay(kind, spots[there if where is None else there & where])

    def clear(self, cells: Array, layer: str, where: Array | None = None) -> None:
        """Take away what a layer holds in a cell."""
        if layer == AGENTS:
            raise ConfigError("agents are not cleared away: use me.leave or me.end.")
        spots = self.base + cells
        self.layer(layer).reshape(-1)[spots if where is None else spots[where]] = 0

    def fill(self, kind: Kind, mask: Array) -> None:
        """Put things of a kind into all cells of a mask, (worlds, cells) or (cells,)."""
        whole = np.broadcast_to(mask, (self.worlds, self.layout.cells))
        self._lay(kind, np.flatnonzero(whole & ~self.layout.outside))

    def remove(self, kind: Kind, mask: Array) -> None:
        """Take away a kind's things from the cells of a mask."""
        self.layer(kind.layer)[mask & self.mask(kind)] = 0

    def fence(self, kind: Kind) -> None:
        """Put things of a kind all around the edge of the map."""
        self.fill(kind, self.layout.edge)

    def sprinkle(self, *kinds: Kind, chance: Any, mask: Array | None = None) -> None:
        """Let each empty cell become one of `kinds`, equally likely, with some chance.

        Args:
            kinds: what may appear, all on one layer.
            chance: a number, or one per world and cell.
            mask: the cells it may happen in; by default all.
        """
        spots, shares = self._lucky(chance)
        keep = ~np.logical_or.reduce(self._flat.take(self._layer_base + spots), axis=0)
        if mask is not None:
            keep &= np.broadcast_to(mask, self.layer(AGENTS).shape).reshape(-1)[spots]
        chosen = (shares[keep] * len(kinds)).astype(np.int64)
        for i, kind in enumerate(kinds):
            self._lay(kind, spots[keep][chosen == i])

    def _lay(self, kind: Kind, spots: Array) -> None:
        self.layer(kind.layer).reshape(-1)[spots] = kind.id
        number = self.layout.layer_number(kind.layer)
        if number in self.layout.mortal_layers:
            turn = self.turn[spots // self.layout.cells]
            ends = NEVER if kind.lifetime is None else turn + kind.lifetime
            self.columns.arrays[f"expiry_{number}"].reshape(-1)[spots] = ends

    def _lucky(self, chance: Any) -> tuple[Array, Array]:
        """Draw for every cell; return the lucky ones, and a number in [0, 1) for each."""
        inside = self.layout.inside
        if np.ndim(chance):
            odds = np.broadcast_to(chance, (self.worlds, self.layout.cells))[:, inside]
            bits = self.random.bits(len(inside))
            rows, columns = np.nonzero(bits < odds * 2.0**32)
            shares = bits[rows, columns] / (odds[rows, columns] * 2.0**32)
        else:
            rows, columns, shares = self.random.skips(chance, len(inside))
        return rows * self.layout.cells + inside[columns], shares

    def lucky(self, chance: Any) -> Array:
        """Return where it happens, (worlds, cells) bool, in each cell with some chance."""
        happens = np.zeros((self.worlds, self.layout.cells), np.bool_)
        happens.reshape(-1)[self._lucky(chance)[0]] = True
        return happens

    # Random numbers, one per world.

    def uniform(self) -> Array:
        """Return a number in [0, 1)."""
        return np.asarray(self.random.bits(1)[:, 0] * 2.0**-32)

    def chance(self, probability: Any) -> Array:
        """Return True with some probability."""
        return np.asarray(self.uniform() < probability)

    def integers(self, below: int) -> Array:
        """Return a whole number in [0, below)."""
        return (self.uniform() * below).astype(np.int64)

    def end(self, where: Array) -> None:
        """End the episode, as terminated for every agent."""
        self.over |= where

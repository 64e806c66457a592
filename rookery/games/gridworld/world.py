"""All worlds of a grid game, as its rules use them.

A cell is a number. Arguments called `cells` have one cell per world, `where` one bool per
world, and `mask` one bool per world and cell. Every operation applies to all worlds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.games.gridworld.agent import Me
from rookery.games.gridworld.layout import Layout
from rookery.games.gridworld.names import AGENTS
from rookery.games.gridworld.random import WorldRandom
from rookery.games.gridworld.rules import Kind, PerAgent, PerCell, PerWorld
from rookery.games.gridworld.state import StateArrays, StateView
from rookery.games.sources import Sources
from rookery.specs import Array

NEVER = np.iinfo(np.int32).max


def _checked_mask(mask: Any) -> Any:
    """Return a mask if it is bools, or refuse it: cells have a number, masks a bool."""
    if np.asarray(mask).dtype != np.bool_:
        raise ConfigError(
            f"the mask is {np.asarray(mask).dtype}, expected bools, one per world and "
            "cell: make it with world.mask(kind) or by comparing; for single cells, use "
            "world.put."
        )
    return mask


def check_probability(probability: Any) -> None:
    """Raise a `ConfigError` for a number outside 0 … 1."""
    least = most = probability
    if np.ndim(probability):
        least, most = np.min(probability), np.max(probability)
    if not (least >= 0 and most <= 1):
        wrong = most if least >= 0 else least
        raise ConfigError(
            f"the probability is {wrong:.4g}, expected a number from 0 to 1: limit it, "
            "with np.clip or in the settings with Field(…, ge=0, le=1)."
        )


class World(StateView):
    """The state of all worlds, and the operations on it."""

    layout: Layout
    worlds: int
    """The number of worlds."""
    columns: StateArrays
    per_agent: list[str]
    per_world: list[str]
    agents: tuple[Me, ...]
    """All agents, in the order of their numbers."""
    random: WorldRandom
    turn: Array
    """Turns played in the current episode, including this one."""
    episode: Array
    """Episodes finished before the current one."""
    over: Array
    closing: Array
    ended: Array
    done: Array
    back: Array
    facing: Array
    cell: Array
    """Every agent's cell, (agents, worlds)."""
    base: Array
    """Offset of each world in a flattened layer, to be added to a cell."""
    layers: Array
    """All layers, (layers, worlds, cells)."""
    _flat: Array
    _layer_base: Array

    def __init__(self, layout: Layout, seed: int, numbers: Array) -> None:
        worlds = len(numbers)
        columns = StateArrays(worlds)
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
        self.bind(random=WorldRandom(seed, numbers, self.episode, self.turn))
        self.blank()

    def _add_columns(self) -> None:
        self._per_world("episode", np.int64, default=-1)
        self._per_world("turn", np.int64)
        self._per_world("over", np.bool_)
        self._per_world("closing", np.bool_)
        self._per_agent("cell", np.int64)
        self._per_agent("facing", np.int8)
        self._per_agent("back", np.int64)
        self._per_agent("ended", np.bool_)
        self._per_agent("done", np.bool_)
        for name in ("reward", "score"):
            self._per_agent(name, np.float32)
        for name in self.layout.rules.counts:
            self._check_free(name, "has a count", "counts")
            self._per_agent(name, np.float32)
        for number in self.layout.mortal_layers:
            self._per_cell(f"expiry_{number}", np.int32, NEVER)
        for name, column in self.layout.columns.items():
            self._check_free(name, "declares a column", "", column.place)
            if isinstance(column, PerCell):
                self._per_cell(name, column.dtype, column.default, column.shape)
            elif isinstance(column, PerAgent):
                self._per_agent(name, column.dtype, column.shape, column.default)
            elif isinstance(column, PerWorld):
                self._per_world(name, column.dtype, column.shape, column.default)

    def _check_free(self, name: str, what: str, attribute: str, place: str = "") -> None:
        """Refuse a name that is in use."""
        taken = {*World.__annotations__, *Me.__annotations__, *self.__dict__}
        if name not in taken and not hasattr(World, name) and not hasattr(Me, name):
            return
        rules = type(self.layout.rules)
        where = f"{place}: " if place else Sources(rules).prefix(attribute)
        is_count = not attribute and name in self.layout.rules.counts
        use = "is a count already" if is_count else "is in use"
        raise ConfigError(
            f"{where}{rules.__name__} {what} '{name}', but that name {use}: choose another."
        )

    def _per_cell(
        self, name: str, dtype: Any, default: float = 0, shape: tuple[int, ...] = ()
    ) -> None:
        per_world = (self.layout.cells, *shape)
        self.bind(**{name: self.columns.add(name, dtype, (), per_world, default)})

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
        """Empty all worlds: no things, agents off the map, columns at their defaults."""
        self.columns.blank()
        self.layer(AGENTS)[:, self.layout.outside] = self.layout.kinds[1].id

    def checked(self, where: Any) -> Any:
        """Return `where` if it is bools, one per world or one for all, or refuse it.

        Whole numbers would be taken for the numbers of worlds.
        """
        if isinstance(where, np.ndarray):
            if where.dtype == np.bool_ and where.shape in ((self.worlds,), ()):
                return where
            text = f"{where.shape} {where.dtype}"
        elif isinstance(where, bool | np.bool_):
            return np.full(self.worlds, where)
        else:
            text = f"a {type(where).__name__}"
        raise ConfigError(
            f"where is {text}, expected ({self.worlds},) bool, one per world: compare, as "
            "in where=me.marks > 0."
        )

    def _declared(self, kind: Any) -> Kind:
        """Return a kind if the game has declared it, or refuse it."""
        if not isinstance(kind, Kind):
            raise ConfigError(
                f"got {kind!r} for a kind, expected the Kind itself: pass self.NAME as "
                "assigned in declare."
            )
        if not kind.id:
            raise ConfigError(
                f"the Kind of {kind.place or 'this line'} was not declared: assign it to "
                "self in declare."
            )
        return kind

    # The contents of cells.

    def layer(self, name: str) -> Array:
        """Return one layer as (worlds, cells) ids of kinds; 0 is empty."""
        return self.layers[self.layout.layer_number(name)]

    def kinds_at(self, cells: Array) -> Array:
        """Return the ids of the kinds in these cells, (layers, worlds)."""
        return self._flat.take(self._layer_base + (self.base + cells))

    def value(self, cells: Array) -> Array:
        """Return the total value of the things in these cells."""
        return np.add.reduce(self.layout.values.take(self.kinds_at(cells)), axis=0)

    def solid(self, cells: Array) -> Array:
        """Return whether something solid is in these cells."""
        return np.logical_or.reduce(self.layout.solids.take(self.kinds_at(cells)), axis=0)

    def has(self, kind: Kind, cells: Array) -> Array:
        """Return whether a thing of this kind is in these cells."""
        kind = self._declared(kind)
        content = self.layer(kind.layer).reshape(-1).take(self.base + cells)
        return np.asarray(content == kind.id)

    def mask(self, kind: Kind) -> Array:
        """Return where things of this kind are, (worlds, cells) bool."""
        return np.asarray(self.layer(self._declared(kind).layer) == kind.id)

    def near(self, kind: Kind, radius: int = 1) -> Array:
        """Count things of a kind within `radius` steps of each cell, (worlds, cells)."""
        if radius < 0:
            raise ConfigError(f"near() got the radius {radius}, expected at least 0.")
        height, width = self.layout.height, self.layout.width
        present = self.mask(kind)[:, self.layout.inside].reshape(-1, height, width)
        padded = np.pad(present.astype(np.int16), ((0, 0), (radius,) * 2, (radius,) * 2))
        counts = -present.astype(np.int16)  # the cell itself does not count
        for down in range(2 * radius + 1):
            slack = abs(down - radius)
            for right in range(slack, 2 * radius + 1 - slack):
                counts += padded[:, down : down + height, right : right + width]
        result = np.zeros((self.worlds, self.layout.cells), np.int16)
        result[:, self.layout.inside] = counts.reshape(self.worlds, -1)
        return result

    def count(self, kind: Kind) -> Array:
        """Return the number of things of a kind in each world."""
        return np.asarray(self.mask(kind).sum(axis=1))

    # Changing the contents of cells.

    def put(self, kind: Kind, cells: Array, where: Array | None = None) -> None:
        """Put a thing into a cell, where it replaces the thing on the same layer.

        Nothing is put outside the map, which is where absent agents are.
        """
        spots = self.base + cells
        inside = ~self.layout.outside.take(spots - self.base)
        self._lay(kind, spots[inside if where is None else inside & self.checked(where)])

    def clear(self, cells: Array, layer: str, where: Array | None = None) -> None:
        """Remove the thing on a layer from a cell."""
        if layer == AGENTS:
            raise ConfigError("agents cannot be cleared: use me.leave or me.end.")
        spots = self.base + cells
        if where is not None:
            spots = spots[self.checked(where)]
        self.layer(layer).reshape(-1)[spots] = 0

    def fill(self, kind: Kind, mask: Array) -> None:
        """Put things of a kind into all cells of a mask, (worlds, cells) or (cells,)."""
        full = np.broadcast_to(_checked_mask(mask), (self.worlds, self.layout.cells))
        self._lay(kind, np.flatnonzero(full & ~self.layout.outside))

    def remove(self, kind: Kind, mask: Array) -> None:
        """Remove the things of a kind from the cells of a mask."""
        self.layer(kind.layer)[_checked_mask(mask) & self.mask(kind)] = 0

    def fence(self, kind: Kind) -> None:
        """Put things of a kind all around the edge of the map."""
        self.fill(kind, self.layout.edge)

    def sprinkle(self, *kinds: Kind, chance: Any, mask: Array | None = None) -> None:
        """Put one of `kinds`, equally likely, into each empty cell with some probability.

        A cell is empty if nothing is in it on any layer: no wall, no agent, no other thing.

        Args:
            kinds: what can appear, all on one layer.
            chance: the probability: a number, or one per world and cell.
            mask: the cells in which things can appear; by default all.
        """
        layers = list(dict.fromkeys(self._declared(kind).layer for kind in kinds))
        if len(layers) > 1:
            raise ConfigError(
                f"sprinkle() got kinds of the layers {', '.join(layers)}, expected one "
                "layer: give the kinds the same layer, or call sprinkle once per layer."
            )
        spots, shares = self._lucky(chance)
        keep = ~np.logical_or.reduce(self._flat.take(self._layer_base + spots), axis=0)
        if mask is not None:
            keep &= np.broadcast_to(_checked_mask(mask), self.layer(AGENTS).shape).reshape(
                -1
            )[spots]
        indices = (shares[keep] * len(kinds)).astype(np.int64)
        for i, kind in enumerate(kinds):
            self._lay(kind, spots[keep][indices == i])

    def _lay(self, kind: Kind, spots: Array) -> None:
        kind = self._declared(kind)
        self.layer(kind.layer).reshape(-1)[spots] = kind.id
        number = self.layout.layer_number(kind.layer)
        if number in self.layout.mortal_layers:
            turn = self.turn[spots // self.layout.cells]
            ends = NEVER if kind.lifetime is None else turn + kind.lifetime
            self.columns.arrays[f"expiry_{number}"].reshape(-1)[spots] = ends

    def _lucky(self, chance: Any) -> tuple[Array, Array]:
        """Draw for every cell; return those drawn, and a number in [0, 1) for each."""
        inside = self.layout.inside
        check_probability(chance)
        if np.ndim(chance):
            every_cell = np.broadcast_to(chance, (self.worlds, self.layout.cells))
            probability = every_cell[:, inside]
            bits = self.random.bits(len(inside))
            rows, columns = np.nonzero(bits < probability * 2.0**32)
            shares = bits[rows, columns] / (probability[rows, columns] * 2.0**32)
        else:
            rows, columns, shares = self.random.skips(chance, len(inside))
        return rows * self.layout.cells + inside[columns], shares

    def lucky(self, chance: Any) -> Array:
        """Return (worlds, cells) bool, True in each cell with some probability."""
        lucky = np.zeros((self.worlds, self.layout.cells), np.bool_)
        lucky.reshape(-1)[self._lucky(chance)[0]] = True
        return lucky

    # Random numbers, one per world.

    def uniform(self) -> Array:
        """Return a number in [0, 1)."""
        return np.asarray(self.random.bits(1)[:, 0] * 2.0**-32)

    def chance(self, probability: Any) -> Array:
        """Return True with this probability."""
        check_probability(probability)
        return np.asarray(self.uniform() < probability)

    def integers(self, below: int) -> Array:
        """Return an integer in [0, below)."""
        if np.min(below) < 1:
            raise ConfigError(f"integers() got {below}, expected at least 1.")
        return (self.uniform() * below).astype(np.int64)

    def end(self, where: Array) -> None:
        """End the episode where `where` is True; all agents are terminated."""
        self.over |= self.checked(where)

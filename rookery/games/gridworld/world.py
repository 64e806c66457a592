"""All worlds of a grid game, as its rules use them.

A cell is a number. Arguments called `cells` have one cell per world, `where` one bool per
world, and `mask` one bool per world and cell. Every operation applies to all worlds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.games.gridworld import loops
from rookery.games.gridworld.agent import Me
from rookery.games.gridworld.layout import Layout
from rookery.games.gridworld.names import AGENTS
from rookery.games.gridworld.random import WorldRandom
from rookery.games.gridworld.rules import Kind, PerAgent, PerCell, PerWorld
from rookery.games.gridworld.state import NO_LIFETIMES, LoopArrays, StateArrays, StateView
from rookery.games.sources import Sources
from rookery.specs import Array

CELLS = np.dtype(np.int64)
NOT_OUTSIDE = np.empty(0, np.bool_)
EVERY_CELL = np.ones((1, 1), np.bool_)


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
    if not isinstance(probability, int | float) and np.ndim(probability):
        numbers = np.asarray(probability)
        least, most = numbers.min(), numbers.max()
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
    loop_arrays: LoopArrays
    """Arrays that the compiled loops work on."""

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
            loop_arrays=LoopArrays(layout, layers),
        )
        self.bind(agents=tuple(Me(self, i) for i in range(len(layout.roster))))
        self._add_columns()
        cells = (layout.inside, layout.cells)
        self.bind(random=WorldRandom(seed, numbers, self.episode, self.turn, *cells))
        self.blank(numbers)

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
        sums = iter(self.loop_arrays.sums)
        for name in ("reward", "score"):
            self._per_agent(name, np.float32, array=next(sums))
        for name in self.layout.rules.counts:
            self._check_free(name, "has a count", "counts")
            self._per_agent(name, np.float32, array=next(sums))
        for number in self.layout.mortal_layers:
            self._per_cell(f"expiry_{number}", np.int32, loops.NEVER)
            expiry = self.columns.arrays[f"expiry_{number}"].reshape(-1)
            self.loop_arrays.expiry[self.layout.layers[number]] = expiry
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
        self,
        name: str,
        dtype: Any,
        shape: tuple[int, ...] = (),
        default: float = 0,
        array: Array | None = None,
    ) -> None:
        array = self.columns.add(name, dtype, (len(self.agents),), shape, default, array)
        self.bind(**{name: array})
        self.per_agent.append(name)
        for me in self.agents:
            me.bind(**{name: array[me.number]})

    def blank(self, numbers: Array) -> None:
        """Empty all worlds: no things, agents off the map, columns at their defaults.

        Their random numbers are those of the worlds with these numbers.
        """
        self.columns.blank()
        self.loop_arrays.actions.fill(0)
        self.loop_arrays.targets.fill(0)
        self.random.renumber(numbers)
        self.layer(AGENTS)[:, self.layout.outside] = self.layout.kinds[1].id

    def wait(self) -> None:
        """Begin a turn, in which no agent has acted yet."""
        np.copyto(self.loop_arrays.actions, self.layout.no_actions)
        np.copyto(self.loop_arrays.targets, self.cell)

    def checked(self, where: Any) -> Array:
        """Return `where` as bools, one per world, or refuse it.

        Whole numbers would be taken for the numbers of worlds.
        """
        if isinstance(where, np.ndarray):
            if where.dtype == np.bool_:
                if where.shape == (self.worlds,):
                    return where if where.flags.carray else where.copy()
                if where.shape == ():
                    return np.full(self.worlds, where)
            text = f"{where.shape} {where.dtype}"
        elif isinstance(where, bool | np.bool_):
            return np.full(self.worlds, where)
        else:
            text = f"a {type(where).__name__}"
        raise ConfigError(
            f"where is {text}, expected ({self.worlds},) bool, one per world: compare, as "
            "in where=me.marks > 0."
        )

    def flat_cells(self, cells: Any) -> tuple[Array, tuple[int, ...]]:
        """Return cells as one row of int64 with the worlds innermost, and their shape."""
        if (
            isinstance(cells, np.ndarray)
            and cells.shape == (self.worlds,)
            and cells.dtype == CELLS
            and cells.flags.carray
        ):
            return cells, (self.worlds,)
        spread = np.zeros(self.worlds, np.int64) + cells
        if spread.dtype != CELLS:
            raise IndexError(
                f"cells are {np.asarray(cells).dtype}, and arrays used as indices must be "
                "of integer type"
            )
        return spread.reshape(-1), spread.shape

    def check_cells(self, cells: Array, bad: int) -> None:
        """Raise an `IndexError` if a loop has stopped at one of the cells."""
        if bad != loops.OK:
            raise IndexError(
                f"cell {cells[bad]} is out of bounds for axis 1 with size "
                f"{self.layout.cells}"
            )

    def declared_kind(self, kind: Any) -> Kind:
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

    def flat_layer(self, name: str) -> Array:
        """Return one layer as (worlds × cells,)."""
        layer = self.loop_arrays.by_layer.get(name)
        return self.layer(name).reshape(-1) if layer is None else layer

    # The contents of cells.

    def layer(self, name: str) -> Array:
        """Return one layer as (worlds, cells) ids of kinds; 0 is empty."""
        return self.layers[self.layout.layer_number(name)]

    def value(self, cells: Array) -> Array:
        """Return the total value of the things in these cells."""
        layout = self.layout
        flat, shape = self.flat_cells(cells)
        totals = np.empty(len(flat), np.float32)
        bad = loops.add_values(
            self.loop_arrays.layers, flat, self.worlds, layout.cells, layout.values, totals
        )
        self.check_cells(flat, bad)
        return totals.reshape(shape)

    def solid(self, cells: Array) -> Array:
        """Return whether something solid is in these cells."""
        layout = self.layout
        flat, shape = self.flat_cells(cells)
        found = np.empty(len(flat), np.bool_)
        bad = loops.find_solid(
            self.loop_arrays.layers, flat, self.worlds, layout.cells, layout.solids, found
        )
        self.check_cells(flat, bad)
        return found.reshape(shape)

    def has(self, kind: Kind, cells: Array) -> Array:
        """Return whether a thing of this kind is in these cells."""
        layer = self.flat_layer(self.declared_kind(kind).layer)
        flat, shape = self.flat_cells(cells)
        found = np.empty(len(flat), np.bool_)
        bad = loops.find_kind(layer, flat, self.worlds, self.layout.cells, kind.id, found)
        self.check_cells(flat, bad)
        return found.reshape(shape)

    def mask(self, kind: Kind) -> Array:
        """Return where things of this kind are, (worlds, cells) bool."""
        return np.asarray(self.layer(self.declared_kind(kind).layer) == kind.id)

    def near(self, kind: Kind, radius: int = 1) -> Array:
        """Count things of a kind within `radius` steps of each cell, (worlds, cells)."""
        if radius < 0:
            raise ConfigError(f"near() got the radius {radius}, expected at least 0.")
        layout = self.layout
        layer = self.flat_layer(self.declared_kind(kind).layer)
        counts = np.zeros((self.worlds, layout.cells), np.int16)
        where = (layout.inside, layout.width, layout.cells)
        loops.count_near(layer, kind.id, radius, *where, counts.reshape(-1))
        return counts

    def count(self, kind: Kind) -> Array:
        """Return the number of things of a kind in each world."""
        layer = self.flat_layer(self.declared_kind(kind).layer)
        counts = np.empty(self.worlds, np.int64)
        loops.count_kind(layer, self.layout.cells, kind.id, counts)
        return counts

    # Changing the contents of cells.

    def put(self, kind: Kind, cells: Array, where: Array | None = None) -> None:
        """Put a thing into a cell, where it replaces the thing on the same layer.

        Nothing is put outside the map, which is where absent agents are.
        """
        layer, lifetime = self.declared_kind(kind).layer, kind.lifetime or 0
        expiry, outside = self.loop_arrays.expiry[layer], self.layout.outside
        self._lay(layer, kind.id, lifetime, cells, where, outside, expiry)

    def clear(self, cells: Array, layer: str, where: Array | None = None) -> None:
        """Remove the thing on a layer from a cell."""
        if layer == AGENTS:
            raise ConfigError("agents cannot be cleared: use me.leave or me.end.")
        self._lay(layer, 0, 0, cells, where, NOT_OUTSIDE, NO_LIFETIMES)

    def _lay(
        self,
        layer: str,
        kind: int,
        lifetime: int,
        cells: Array,
        where: Array | None,
        outside: Array,
        expiry: Array,
    ) -> None:
        flat, _ = self.flat_cells(cells)
        where = self.loop_arrays.everywhere if where is None else self.checked(where)
        bad = loops.lay(
            self.flat_layer(layer),
            flat,
            where,
            outside,
            self.layout.cells,
            kind,
            lifetime,
            self.turn,
            expiry,
        )
        self.check_cells(flat, bad)

    def fill(self, kind: Kind, mask: Array) -> None:
        """Put things of a kind into all cells of a mask, (worlds, cells) or (cells,)."""
        layer, layout = self.declared_kind(kind).layer, self.layout
        where = _checked_mask(mask) & layout.on_map
        np.copyto(self.layer(layer), kind.id, where=where)
        expiry = self.loop_arrays.expiry[layer]
        if len(expiry):
            turn = loops.NEVER if kind.lifetime is None else self.turn + kind.lifetime
            ends = np.broadcast_to(turn, (self.worlds,))[:, None]
            np.copyto(expiry.reshape(self.worlds, -1), ends, where=where)

    def remove(self, kind: Kind, mask: Array) -> None:
        """Remove the things of a kind from the cells of a mask."""
        np.copyto(self.layer(kind.layer), 0, where=_checked_mask(mask) & self.mask(kind))

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
        ids = tuple(self.declared_kind(kind).id for kind in kinds)
        allowed = EVERY_CELL if mask is None else self._by_cell(_checked_mask(mask), bool)
        spots, shares = self._lucky(chance, allowed)
        if not ids:
            return
        layer, numbers, lifetimes = self.layout.sown(ids)
        loops.sow(
            self.loop_arrays.layers,
            self.loop_arrays.by_layer[layer],
            spots,
            shares,
            allowed,
            numbers,
            lifetimes,
            self.turn,
            self.layout.cells,
            self.loop_arrays.expiry[layer],
        )

    def _lucky(self, chance: Any, mask: Array) -> tuple[Array, Array]:
        """Draw for every cell; return those drawn, and a number in [0, 1) for each.

        With a probability per cell, nothing is drawn outside the mask.
        """
        check_probability(chance)
        if isinstance(chance, int | float) or not np.ndim(chance):
            return self.random.events(chance)
        return self.random.events_by_cell(self._by_cell(chance, np.float64), mask)

    def _by_cell(self, numbers: Any, dtype: Any) -> Array:
        """Return numbers as (worlds, cells), or with 1 instead if all are equal."""
        array = np.array(numbers, dtype, copy=None, order="C", ndmin=2)
        if array.shape != (self.worlds, self.layout.cells):
            np.broadcast_to(array, (self.worlds, self.layout.cells))  # or raise
        return array if array.flags.carray else array.copy()

    def lucky(self, chance: Any) -> Array:
        """Return (worlds, cells) bool, True in each cell with some probability."""
        lucky = np.zeros((self.worlds, self.layout.cells), np.bool_)
        lucky.reshape(-1)[self._lucky(chance, EVERY_CELL)[0]] = True
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

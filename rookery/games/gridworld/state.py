"""The state of a game: named arrays, each with a world axis."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.games.gridworld.layout import Layout
from rookery.games.hints import Advice
from rookery.specs import Array

CLOSE = 0.75
"""How similar a name must be to be suggested."""
NO_LIFETIMES = np.empty(0, np.int32)


class StateArrays:
    """The named arrays of a game's state; reset, snapshot and restore cover them all."""

    def __init__(self, worlds: int) -> None:
        self.worlds = worlds
        self.arrays: dict[str, Array] = {}
        self.by_world: dict[str, Array] = {}
        """Views of the same arrays with the world axis first."""
        self._defaults: dict[str, float] = {}

    def add(
        self,
        name: str,
        dtype: Any,
        before: tuple[int, ...] = (),
        after: tuple[int, ...] = (),
        default: float = 0,
        array: Array | None = None,
    ) -> Array:
        """Add and return an array of shape (*before, worlds, *after): `array`, if given."""
        if array is None:
            array = np.full((*before, self.worlds, *after), default, dtype)
        self.arrays[name] = array
        self.by_world[name] = np.moveaxis(array, len(before), 0)
        self._defaults[name] = default
        return array

    def blank(self) -> None:
        """Set every array to its default."""
        for name, array in self.arrays.items():
            array[...] = self._defaults[name]

    def take(self, worlds: Array | slice) -> dict[str, Array]:
        """Return copies of the state of some worlds, world axis first."""
        return {name: array[worlds].copy() for name, array in self.by_world.items()}

    def put(self, worlds: Array | slice, state: Mapping[str, Array]) -> None:
        """Write state that `take` returned into as many worlds."""
        for name, array in self.by_world.items():
            array[worlds] = state[name]


class LoopArrays:
    """The arrays of a game that the compiled loops work on."""

    def __init__(self, layout: Layout, layers: Array) -> None:
        agents, worlds = len(layout.roster), layers.shape[1]
        self.layers = layers.reshape(len(layers), -1)
        """All layers, (layers, worlds × cells)."""
        self.by_layer = dict(zip(layout.layers, self.layers, strict=True))
        """Each layer by name, (worlds × cells,)."""
        self.expiry = dict.fromkeys(layout.layers, NO_LIFETIMES)
        """The turn in which things vanish, (worlds × cells,) int32, by layer; empty if
        nothing on the layer has a lifetime."""
        self.everywhere = np.ones(worlds, np.bool_)
        """All worlds, as a mask."""
        self.actions = np.zeros((agents, worlds), np.int64)
        """The agents' actions in this turn."""
        self.targets = np.zeros((agents, worlds), np.int64)
        """The cells that they move to."""
        self.sums = np.zeros((2 + len(layout.rules.counts), agents, worlds), np.float32)
        """Rewards, scores and counts of this turn."""


class StateView:
    """An object whose attributes are columns of the state.

    Assigning to one writes into its array, so `me.marks = 0` and `me.marks += hit` both
    change the state of the game. A name that was not declared is an error, rather than
    state that the engine does not know.
    """

    _owners = "worlds"
    _remedy = "declare it with PerAgent, PerWorld or PerCell"
    _close = CLOSE
    """How similar a column of the game itself must be to be suggested."""

    def __setattr__(self, name: str, value: Any) -> None:
        column = self.__dict__.get(name)
        if not isinstance(column, np.ndarray):
            raise self._undeclared(name)
        if value is not column:  # `me.marks += 1` assigns the array that it has changed
            column[...] = value

    def __getattr__(self, name: str) -> Any:
        raise self._undeclared(name)

    def _undeclared(self, name: str) -> AttributeError:
        if callable(getattr(type(self), name, None)):
            return Advice(f"'{name}' is a method, not a column: call it, {name}(…).")
        known = [*self.__dict__, *dir(type(self))]
        public = [word for word in known if not word.startswith("_")]
        close = difflib.get_close_matches(name, public, n=1, cutoff=CLOSE)
        loose = difflib.get_close_matches(name, self._columns(), n=1, cutoff=self._close)
        advice = f"{self._remedy}."
        if close:
            advice = f"did you mean '{close[0]}'?"
        elif loose:
            advice = f"did you mean '{loose[0]}'? If not, {advice}"
        return Advice(f"{self._owners} have no column '{name}': {advice}")

    def _columns(self) -> list[str]:
        """Return the names of the counts and columns that the game has declared."""
        columns = [n for n, v in self.__dict__.items() if isinstance(v, np.ndarray)]
        return [name for name in columns if name not in type(self).__annotations__]

    def bind(self, **attributes: Any) -> None:
        """Set attributes permanently: columns, and other parts of the object."""
        self.__dict__.update(attributes)

"""Everything that changes in a grid game: named arrays, each with a world axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.specs import Array


class Columns:
    """Named arrays of state, so that reset, snapshot and restore forget nothing."""

    def __init__(self, worlds: int) -> None:
        self.worlds = worlds
        self.arrays: dict[str, Array] = {}
        self.by_world: dict[str, Array] = {}
        """The same arrays, seen with the world axis first."""
        self._defaults: dict[str, float] = {}

    def add(
        self,
        name: str,
        dtype: Any,
        before: tuple[int, ...] = (),
        after: tuple[int, ...] = (),
        default: float = 0,
    ) -> Array:
        """Make and return an array of shape (*before, worlds, *after)."""
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
        """Return copies of some worlds' state, world axis first."""
        return {name: array[worlds].copy() for name, array in self.by_world.items()}

    def put(self, worlds: Array | slice, state: Mapping[str, Array]) -> None:
        """Write state taken from some worlds, here or elsewhere, into some worlds."""
        for name, array in self.by_world.items():
            array[worlds] = state[name]


class Bound:
    """Attributes that are columns: assigning to one writes into its array.

    So `me.marks = 0` and `me.marks += hit` both change the state of the game, and a name
    that was never declared is an error instead of state the engine does not know.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        column = self.__dict__.get(name)
        if not isinstance(column, np.ndarray):
            raise AttributeError(
                f"'{name}' is no column of this {type(self).__name__.lower()}: declare it "
                "with PerAgent, PerWorld or PerCell."
            )
        if value is not column:  # `me.marks += 1` assigns the array it already changed
            column[...] = value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"this {type(self).__name__.lower()} has no '{name}': if it is state, declare "
            "it with PerAgent, PerWorld or PerCell."
        )

    def bind(self, **parts: Any) -> None:
        """Set attributes for good: parts, and the arrays of columns."""
        self.__dict__.update(parts)

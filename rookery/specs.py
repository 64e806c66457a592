"""What an agent sees and can do: plain data that every stage agrees on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """One named piece of an observation, without the leading world axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    labels: tuple[str, ...] = ()
    """What lies along the first axis, where it has names: ('wall', 'gem', …)."""
    scale: float = 1.0
    """What a network multiplies it by: 1 / 255 for pictures."""

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}"


@dataclass(frozen=True)
class AgentSpec:
    """Who an agent is, what it sees and what it can do."""

    id: str
    role: str
    parts: Mapping[str, Part]
    actions: tuple[str, ...] | tuple[tuple[str, ...], ...]
    """Names; a tuple of tuples is a product, such as move × message."""
    masked: bool = False
    """Whether the game says each turn which actions are legal."""

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """The factors of the action product; plain actions are one factor."""
        if not self.actions:
            return ((),)  # else the empty product would count as one action
        if isinstance(self.actions[0], str):
            return (self.actions,)
        return self.actions

    @property
    def num_actions(self) -> int:
        """How many actions there are, products counted out; an action is below this."""
        return math.prod(len(factor) for factor in self.factors)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The name of every action; a product's names are joined by '+'."""
        return tuple("+".join(names) for names in product(*self.factors))


def own_arrays(
    agent: str, names: Iterable[str], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Return an agent's arrays by name, from those of all, which are called AGENT/NAME.

    Looked up name by name: another agent may be called AGENT/SOMETHING.
    """
    return {name: arrays[f"{agent}/{name}"] for name in names}


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }

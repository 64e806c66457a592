"""What agents observe and can do, as plain data that all processes share."""

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
    """One named part of an observation, without the leading world axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    labels: tuple[str, ...] = ()
    """Names of the entries along the first axis, if any: ('wall', 'gem', …)."""
    scale: float = 1.0
    """Factor that a network applies to it: 1 / 255 for images."""

    @property
    def description(self) -> str:
        """Shape, dtype and labels, and how networks scale it, if they do."""
        text = f"{self} of {', '.join(self.labels)}" if self.labels else str(self)
        if self.scale == 1.0:
            return text
        if self.scale == 1 / 255:
            return f"{text}, divided by 255, as a picture"
        return f"{text}, multiplied by {self.scale:g}"

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}"


@dataclass(frozen=True)
class AgentSpec:
    """An agent: its id and role, its observation and its actions."""

    id: str
    role: str
    parts: Mapping[str, Part]
    actions: tuple[str, ...] | tuple[tuple[str, ...], ...]
    """Action names; a tuple of tuples is a product, such as move × message."""
    masked: bool = False
    """Whether the game gives an action mask each turn."""

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """The factors of the action product; plain actions are a single factor."""
        if not self.actions:
            return ((),)  # the empty product would count as one action
        if isinstance(self.actions[0], str):
            return (self.actions,)
        return self.actions

    @property
    def num_actions(self) -> int:
        """The number of actions, products included; actions are 0 … num_actions - 1."""
        return math.prod(len(factor) for factor in self.factors)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The name of every action; the names in a product are joined by '+'."""
        return tuple("+".join(names) for names in product(*self.factors))


def own_arrays(
    agent: str, names: Iterable[str], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Return one agent's arrays by name, from all agents' arrays, named AGENT/NAME.

    They are not found by prefix, since another agent's id can be AGENT/SOMETHING.
    """
    return {name: arrays[f"{agent}/{name}"] for name in names}


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names start with a prefix, by names without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }

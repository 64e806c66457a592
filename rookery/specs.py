"""What agents observe and can do, as plain data that all processes share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_NUMBERS = 2**31
"""In one part of an observation that a file describes."""


@dataclass(frozen=True)
class Part:
    """One named part of an observation, without the leading world axis."""

    shape: tuple[int, ...]
    """The shape of one observation; arrays of games have a world axis before it."""
    dtype: np.dtype[Any]
    """The type of its numbers."""
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
class Piece:
    """One piece of a foreign game's own observation, and how it becomes a part."""

    part: str
    """The name of the part."""
    key: str | int | None
    """Where the piece is in the observation; None if it is the whole observation."""
    kind: Literal["array", "one_hot", "image"]
    """Stored as it is, as a one-hot vector, or with its colours in front."""
    shape: tuple[int, ...]
    """In the game; () for a whole number."""
    dtype: np.dtype[Any]
    start: int = 0
    """one_hot: the smallest number."""
    side: int = 1
    """image: the side of the squares of pixels that become one."""


@dataclass(frozen=True)
class Encoding:
    """How one agent's observations in a foreign game become parts and legal actions."""

    pieces: tuple[Piece, ...]
    mask: str | None = None
    """The key of the action mask, if the observation has one."""
    first_action: int = 0
    """The foreign game's own number of action 0."""


@dataclass(frozen=True)
class AgentSpec:
    """An agent: its id and role, its observation and its actions."""

    id: str
    """The agent's id, as in `agents.ID.…`; in grid games its number."""
    role: str
    """What kind of agent it is; agents of one role are interchangeable."""
    parts: Mapping[str, Part]
    """What it observes, by name."""
    actions: tuple[str, ...] | tuple[tuple[str, ...], ...]
    """Action names; a tuple of tuples is a product, such as move × message."""
    masked: bool = False
    """Whether the game gives an action mask each turn."""
    encoding: Encoding | None = None
    """How the game's own observations become parts; None if the game gives parts."""

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


def spec_to_json(spec: AgentSpec) -> dict[str, Any]:
    """Return an agent's spec as plain data."""
    parts = {
        name: [part.shape, part.dtype.str, part.labels, part.scale]
        for name, part in spec.parts.items()
    }
    plain = {
        "id": spec.id,
        "role": spec.role,
        "parts": parts,
        "actions": spec.actions,
        "masked": spec.masked,
    }
    encoding = spec.encoding
    if encoding is None:
        return plain
    pieces = [vars(piece) | {"dtype": piece.dtype.str} for piece in encoding.pieces]
    return plain | {"encoding": vars(encoding) | {"pieces": pieces}}


def spec_from_json(data: Mapping[str, Any]) -> AgentSpec:
    """Return the spec that `spec_to_json` described.

    Raises:
        ValueError: if it is not the description of an agent.
    """
    try:
        parts = {
            str(name): Part(_shape(shape), np.dtype(dtype), tuple(labels), float(scale))
            for name, (shape, dtype, labels, scale) in data["parts"].items()
        }
        actions = tuple(
            name if isinstance(name, str) else tuple(map(str, name))
            for name in data["actions"]
        )
        encoding = _encoding(data["encoding"]) if "encoding" in data else None
        names = str(data["id"]), str(data["role"])
        masked = bool(data["masked"])
        return AgentSpec(*names, parts, actions, masked, encoding)  # type: ignore[arg-type]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it does not describe an agent ({error!r})") from error


def _encoding(data: Mapping[str, Any]) -> Encoding:
    pieces = []
    for piece in data["pieces"]:
        form = {"shape": _shape(piece["shape"]), "dtype": np.dtype(piece["dtype"])}
        pieces.append(Piece(**{**piece, **form}))
    return Encoding(tuple(pieces), data["mask"], int(data["first_action"]))


def _shape(sides: Iterable[Any]) -> tuple[int, ...]:
    shape = tuple(sides)
    if any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"{shape} is not a shape")
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"an observation of {shape} has too many numbers")
    return shape


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

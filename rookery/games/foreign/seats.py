"""Foreign games' spaces in Rookery's own words.

A `Seat` is one agent of a foreign game: what its spaces become (parts, actions, legal
actions), and the rows, one per world, into which its observations are written. Whatever
a foreign game returns is checked here, before it lies in a row and looks right.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import GameError
from rookery.specs import AgentSpec, Array, Part

MASK = "action_mask"
MAX_ONE_HOT = 1024
MAX_ACTIONS = np.iinfo(np.int16).max  # actions are kept as int16 for repeating a game
Pieces = dict[str, tuple[str | int | None, Any]]
"""Part name to the key in the foreign observation, if it has several, and its space."""
ARRAYS = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)


class Column:
    """One piece of what one agent sees: a row per world, checked as it is written."""

    __slots__ = ("_dtype", "_first_world", "_label", "_shape", "key", "rows")

    def __init__(
        self, label: str, key: str | int | None, space: Any, rows: Array, first_world: int
    ) -> None:
        self.key = key
        self.rows = rows
        self._label = label
        self._first_world = first_world
        self._shape, self._dtype = space.shape, space.dtype

    def write(self, world: int, value: Any) -> None:
        """Put `value` into the row of `world`."""
        try:
            fits = value.dtype == self._dtype and value.shape == self._shape
        except AttributeError:  # a list or a plain number
            value, fits = np.asarray(value), False
        if not fits and not self._suits(value):
            raise self._error(
                world,
                f"is {value.shape} {value.dtype}",
                f"{self._shape} {self._dtype}",
            )
        self.rows[world] = value

    def _suits(self, value: Array) -> bool:
        floats = value.dtype.kind == self._dtype.kind == "f"
        safe = floats or np.can_cast(value.dtype, self._dtype, "safe")
        return safe and value.shape == self._shape

    def _error(self, world: int, found: str, declared: str) -> GameError:
        return GameError(
            f"{self._label} in world {self._first_world + world} {found}, but its "
            f"space says {declared}: make the game and its space agree."
        )


class OneHotColumn(Column):
    """A Discrete observation, as a vector with a single one."""

    __slots__ = ("_start",)

    def __init__(
        self, label: str, key: str | int | None, space: Any, rows: Array, first_world: int
    ) -> None:
        super().__init__(label, key, space, rows, first_world)
        self._start = int(space.start)

    def write(self, world: int, value: Any) -> None:
        """Put a one at the place `value` names."""
        count = self.rows.shape[1]
        try:
            place = operator.index(value) - self._start
        except TypeError:
            place = -1
        if not 0 <= place < count:
            declared = f"Discrete({count}, start={self._start})"
            raise self._error(world, f"is {value!r}", declared)
        self.rows[world] = 0
        self.rows[world, place] = 1


class Seat:
    """One agent in all worlds: its spec, and the rows that hold what it sees."""

    __slots__ = (
        "_columns",
        "_first_world",
        "index",
        "legal",
        "name",
        "parts",
        "spec",
        "start",
        "title",
    )

    def __init__(
        self, game: str, copy: Any, index: int, worlds: int, first_world: int
    ) -> None:
        self.name: Any = copy.possible_agents[index]
        self.index = index
        self._first_world = first_world
        self.title = f"agent '{self.name}' of {game}"
        actions, seen = copy.action_space(self.name), copy.observation_space(self.name)
        check_actions(self.title, actions)
        self.start = int(actions.start)
        pieces, mask = pieces_of(self.title, seen)
        self.spec = AgentSpec(
            id=str(self.name),
            role=role_of(str(self.name)),
            parts={name: part_of(space) for name, (_, space) in pieces.items()},
            actions=action_names(copy, self.name, int(actions.n)),
            masked=mask is not None,
        )
        self.parts: Mapping[str, Array] = {
            name: np.zeros((worlds, *part.shape), part.dtype)
            for name, part in self.spec.parts.items()
        }
        self.legal: Array | None = None
        if mask is not None:
            check_mask(self.title, mask, int(actions.n))
            self.legal = np.ones((worlds, int(actions.n)), bool)
        self._columns = list(self._make_columns(pieces, mask, first_world))

    def _make_columns(
        self, pieces: Pieces, mask: Any, first_world: int
    ) -> Iterator[Column]:
        for name, (key, space) in pieces.items():
            label = f"Part '{name}' of {self.title}"
            if isinstance(space, spaces.Discrete):
                yield OneHotColumn(label, key, space, self.parts[name], first_world)
            else:
                rows = self.parts[name]
                if is_picture(space):
                    rows = np.moveaxis(rows, 1, -1)
                yield Column(label, key, space, rows, first_world)
        if self.legal is not None:
            label = f"The '{MASK}' of {self.title}"
            yield Column(label, MASK, mask, self.legal, first_world)

    def write(self, world: int, observation: Any) -> None:
        """Put what the agent sees into the row of `world`."""
        for column in self._columns:
            key = column.key
            value = observation if key is None else self._piece(world, observation, key)
            column.write(world, value)

    def blank(self, world: int) -> None:
        """Empty the row of `world`: the agent is not there."""
        for rows in self.parts.values():
            rows[world] = 0
        if self.legal is not None:
            self.legal[world] = True

    def _piece(self, world: int, observation: Any, key: str | int) -> Any:
        try:
            return observation[key]
        except (KeyError, IndexError, TypeError):
            raise GameError(
                f"The observation of {self.title} in world {self._first_world + world} "
                f"has no '{key}', which its space declares: every observation must "
                "have all pieces of its space."
            ) from None


def role_of(name: str) -> str:
    """Return an agent's name without its number."""
    return "agent" if name.isdigit() else re.sub(r"(?<=.)_\d+$", "", name)


def pieces_of(title: str, space: Any) -> tuple[Pieces, Any]:
    """Return part name to (key, space), and the space of the mask or None."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        check_seen(title, space)
        return {part_name(space): (None, space)}, None
    found: dict[Any, Any] = (
        dict(space.spaces)
        if isinstance(space, spaces.Dict)
        else dict(enumerate(space.spaces))
    )
    mask = found.pop(MASK, None)
    for key, piece in found.items():
        check_seen(f"'{key}' of {title}", piece)
    if list(found) == ["observation"]:
        piece = found["observation"]
        return {part_name(piece): ("observation", piece)}, mask
    if not found:
        raise GameError(f"The observation of {title} has no parts: add a Box to its Dict.")
    return {str(key): (key, piece) for key, piece in found.items()}, mask


def part_name(space: Any) -> str:
    """Return 'view' for what has two axes or more, otherwise 'vector'."""
    return "view" if len(space.shape) >= 2 else "vector"


def part_of(space: Any) -> Part:
    """Return how observations of `space` are stored."""
    if isinstance(space, spaces.Discrete):
        return Part((int(space.n),), np.dtype(np.uint8))
    if is_picture(space):
        height, width, colours = space.shape
        return Part((colours, height, width), space.dtype, scale=1 / 255)
    # Rows are stored and networks are float32: float64 would double the memory for bits
    # that no network sees.
    is_double = space.dtype == np.float64
    return Part(tuple(space.shape), np.dtype(np.float32) if is_double else space.dtype)


def is_picture(space: Any) -> bool:
    """Whether a space is (height, width, colours) of bytes.

    Pictures are stored with colours first: that is how networks read grids.
    """
    is_bytes = isinstance(space, spaces.Box) and space.dtype == np.uint8
    return is_bytes and len(space.shape) == 3 and space.shape[2] in (1, 3, 4)


def check_seen(title: str, space: Any) -> None:
    """Refuse observation spaces that have no fixed shape."""
    small = isinstance(space, spaces.Discrete) and int(space.n) <= MAX_ONE_HOT
    if isinstance(space, ARRAYS) or small:
        return
    raise GameError(
        f"The observation space {space} of {title} cannot be stored: make it a Box, a "
        f"Discrete of at most {MAX_ONE_HOT}, or a Dict or Tuple of these."
    )


def check_actions(title: str, space: Any) -> None:
    """Refuse action spaces other than Discrete."""
    if isinstance(space, spaces.Discrete) and int(space.n) <= MAX_ACTIONS:
        return
    raise GameError(
        f"The action space {space} of {title} is not Discrete(n) with n up to "
        f"{MAX_ACTIONS}: choose discrete actions in the game's settings if it has "
        "them, or wrap the game so that each action is one number."
    )


def check_mask(title: str, space: Any, actions: int) -> None:
    """Refuse a mask that does not have one entry per action."""
    if getattr(space, "shape", None) != (actions,):
        raise GameError(
            f"The '{MASK}' of {title} is {space}, but there are {actions} actions: "
            "give it one entry per action."
        )


def action_names(copy: Any, agent: Any, count: int) -> tuple[str, ...]:
    """Return the names in the game's metadata['action_names'], else 'action 0' …."""
    given = getattr(copy, "metadata", {}).get("action_names")
    names = given.get(agent) if isinstance(given, Mapping) else given
    if names is not None and len(names) == count:
        return tuple(str(name) for name in names)
    return tuple(f"action {i}" for i in range(count))

"""Foreign games' spaces in Rookery's own words.

A `Seat` is one agent of a foreign game: what its spaces become (parts, actions, legal
actions), and the rows, one per world, into which its observations are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import GameError
from rookery.games.adapters.observations import Column, column_of, part_of
from rookery.specs import AgentSpec, Array

MASK = "action_mask"
MAX_ONE_HOT = 1024
MAX_ACTIONS = np.iinfo(np.int16).max  # actions are kept as int16 for repeating a game
Pieces = dict[str, tuple[str | int | None, Any]]
"""Part name to the key in the foreign observation, if it has several, and its space."""
ARRAYS = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)


class Seat:
    """One agent in all worlds: its spec, and the rows that hold what it sees."""

    __slots__ = (
        "_columns",
        "_first_world",
        "_shrink",
        "index",
        "legal",
        "name",
        "parts",
        "spec",
        "start",
        "title",
    )

    def __init__(
        self,
        game: str,
        copy: Any,
        index: int,
        worlds: int,
        first_world: int,
        shrink: int = 1,
    ) -> None:
        self.name: Any = copy.possible_agents[index]
        self.index = index
        self._first_world, self._shrink = first_world, shrink
        self.title = f"agent '{self.name}' of {game}"
        actions, seen = copy.action_space(self.name), copy.observation_space(self.name)
        check_actions(self.title, actions)
        self.start = int(actions.start)
        pieces, mask = pieces_of(self.title, seen)
        self.spec = AgentSpec(
            id=str(self.name),
            role=role_of(str(self.name)),
            parts={name: part_of(space, shrink) for name, (_, space) in pieces.items()},
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
            make = column_of(space, self._shrink)
            yield make(label, key, space, self.parts[name], first_world)
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

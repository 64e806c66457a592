"""Translating the spaces of a foreign game into parts, actions and legal actions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import ConfigError, GameError, nearest
from rookery.games.adapters.observations import (
    PartWriter,
    is_image,
    part_for,
    square_side,
    writer_for,
)
from rookery.games.adapters.parallel import ParallelGame
from rookery.games.adapters.settings import ForeignSettings
from rookery.specs import AgentSpec, Array, Encoding, Part, Piece

MASK = "action_mask"
MAX_ONE_HOT = 1024
MAX_ACTIONS = np.iinfo(np.int16).max  # snapshots store actions as int16
Pieces = dict[str, tuple[str | int | None, Any]]
"""Part name to its key in the foreign observation, None if there is none, and its space."""
ARRAYS = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)


class AgentSpaces:
    """The spaces of one agent: its spec, and a row per world for its observations."""

    __slots__ = (
        "_first_world",
        "_shrink",
        "_writers",
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
        path: str,
        copy: ParallelGame,
        index: int,
        worlds: int,
        first_world: int,
        shrink: int = 1,
        without: Sequence[str] = (),
        codes: Sequence[str] = (),
    ) -> None:
        self.name: Any = copy.possible_agents[index]
        self.index = index
        self._first_world, self._shrink = first_world, shrink
        self.title = f"agent '{self.name}' of {path}"
        action_space = copy.action_space(self.name)
        observation_space = copy.observation_space(self.name)
        check_actions(self.title, action_space)
        self.start = int(action_space.start)
        pieces, mask = split_space(self.title, observation_space, without)
        self.spec = AgentSpec(
            id=str(self.name),
            role=role_of(str(self.name)),
            parts=parts_for(pieces, shrink, codes),
            actions=action_names(copy, self.name, int(action_space.n)),
            masked=mask is not None,
            encoding=encoding_of(pieces, mask, self.start, shrink),
        )
        self.parts: Mapping[str, Array] = {
            name: np.zeros((worlds, *part.shape), part.dtype)
            for name, part in self.spec.parts.items()
        }
        self.legal: Array | None = None
        if mask is not None:
            check_mask(self.title, mask, int(action_space.n))
            self.legal = np.ones((worlds, int(action_space.n)), bool)
        self._writers = list(self._make_writers(pieces, mask, first_world))

    def _make_writers(
        self, pieces: Pieces, mask: Any, first_world: int
    ) -> Iterator[PartWriter]:
        for name, (key, space) in pieces.items():
            label = f"Part '{name}' of {self.title}"
            make = writer_for(space, self._shrink)
            yield make(label, key, space, self.parts[name], first_world)
        if self.legal is not None:
            label = f"The '{MASK}' of {self.title}"
            yield PartWriter(label, MASK, mask, self.legal, first_world)

    def write(self, world: int, observation: Any) -> None:
        """Write an observation into the row of `world`."""
        for writer in self._writers:
            key = writer.key
            value = observation if key is None else self._piece(world, observation, key)
            writer.write(world, value)

    def blank(self, world: int) -> None:
        """Empty the row of `world`, where the agent is absent."""
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
                f"has no '{key}', which its space declares: return every piece of the "
                "space in every observation."
            ) from None


def role_of(name: str) -> str:
    """Return an agent's name without its number."""
    return "agent" if name.isdigit() else re.sub(r"(?<=.)_\d+$", "", name)


def check_names(path: str, settings: ForeignSettings, copy: ParallelGame) -> None:
    """Refuse names in `without` and `codes` that fit no part of any agent."""
    named: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for agent in copy.possible_agents:
        space = copy.observation_space(agent)
        if isinstance(space, spaces.Dict | spaces.Tuple):
            named |= {str(key): piece for key, piece in _pieces(space).items()}
        kept, _ = split_space(str(agent), space, settings.without)
        whole |= {name: piece for name, (_, piece) in kept.items()}
    for name in settings.without:
        if name not in named:
            others = nearest(name, named) if named else "it has only one part."
            raise ConfigError(
                f"game.without names '{name}', which {path} cannot leave out: {others}"
            )
    pictures = [name for name, piece in whole.items() if is_image(piece)]
    for name in settings.codes:
        if name not in pictures:
            raise ConfigError(
                f"game.codes names '{name}', which is not a part of {path} that looks like "
                f"a picture: {nearest(name, pictures)}"
            )
        if settings.shrink > 1:
            raise ConfigError(
                f"game.shrink={settings.shrink} would average the codes in '{name}': leave "
                "game.shrink at 1."
            )


def parts_for(pieces: Pieces, shrink: int, codes: Sequence[str]) -> dict[str, Part]:
    """Return how pieces are stored; those in `codes` are not scaled like pictures."""
    parts = {name: part_for(space, shrink) for name, (_, space) in pieces.items()}
    return {
        name: replace(part, scale=1.0) if name in codes else part
        for name, part in parts.items()
    }


def split_space(title: str, space: Any, without: Sequence[str] = ()) -> tuple[Pieces, Any]:
    """Return part name to (key, space), and the space of the mask or None.

    Args:
        title: the agent, for errors.
        space: of its observations.
        without: names of parts to leave out.
    """
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        check_observation(title, space)
        return {part_name(space): (None, space)}, None
    pieces = _pieces(space)
    mask = space.spaces.get(MASK) if isinstance(space, spaces.Dict) else None
    is_single = list(pieces) == ["observation"]
    pieces = {key: piece for key, piece in pieces.items() if str(key) not in without}
    for key, piece in pieces.items():
        check_observation(f"'{key}' of {title}", piece, str(key))
    if is_single and pieces:
        piece = pieces["observation"]
        return {part_name(piece): ("observation", piece)}, mask
    if not pieces:
        remedy = "leave out fewer parts" if without else "add a Box to its Dict"
        raise GameError(f"The observation of {title} has no parts: {remedy}.")
    return {str(key): (key, piece) for key, piece in pieces.items()}, mask


def encoding_of(pieces: Pieces, mask: Any, first_action: int, shrink: int) -> Encoding:
    """Return as plain data how observations of these pieces are written."""
    return Encoding(
        tuple(_piece(name, key, space, shrink) for name, (key, space) in pieces.items()),
        None if mask is None else MASK,
        first_action,
    )


def _piece(name: str, key: str | int | None, space: Any, shrink: int) -> Piece:
    dtype = np.dtype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return Piece(name, key, "one_hot", (), dtype, start=int(space.start))
    shape = tuple(space.shape)
    if is_image(space):
        return Piece(name, key, "image", shape, dtype, side=square_side(space, shrink))
    return Piece(name, key, "array", shape, dtype)


def _pieces(space: Any) -> dict[Any, Any]:
    """Return the pieces of a Dict or Tuple by key or number, without the mask."""
    if isinstance(space, spaces.Tuple):
        return dict(enumerate(space.spaces))
    return {key: piece for key, piece in space.spaces.items() if key != MASK}


def part_name(space: Any) -> str:
    """Return 'view' for spaces with two axes or more, otherwise 'vector'."""
    return "view" if len(space.shape) >= 2 else "vector"


def check_observation(title: str, space: Any, part: str = "") -> None:
    """Refuse observation spaces without a fixed shape.

    Args:
        title: the agent, for errors.
        space: of its observation, or of one part.
        part: the name of the part, if there are others.
    """
    is_small = isinstance(space, spaces.Discrete) and int(space.n) <= MAX_ONE_HOT
    if isinstance(space, ARRAYS) or is_small:
        return
    raise GameError(
        f"The observation space {space} of {title} cannot be stored: make it a Box, a "
        f"Discrete of at most {MAX_ONE_HOT}, or a Dict or Tuple of these"
        f"{f', or leave it out with game.without={part}' if part else ''}."
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


def action_names(copy: ParallelGame, agent: Any, count: int) -> tuple[str, ...]:
    """Return the names in the game's metadata['action_names'], else 'action 0' …."""
    names = getattr(copy, "metadata", {}).get("action_names")
    if isinstance(names, Mapping):
        names = names.get(agent)
    if names is not None and len(names) == count:
        return tuple(str(name) for name in names)
    return tuple(f"action {i}" for i in range(count))

"""What the author of a grid game writes: declarations, and one agent in all worlds.

Subclass `GridGame`. In `declare`, give `self` kinds of things, bodies for agents and
columns of state. Then say how a world starts, what moves by itself, and what an agent's
action does. Every method is written for one agent and all worlds at once: what looks like
a number is an array with one entry per world, and `if` becomes `where=`.

Whatever is declared is reset, snapshot, observed and recorded by the engine. Nothing else
may be kept on `self`: `rookery check` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rookery.config.base import Settings
from rookery.errors import ConfigError
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.games.gridworld.agent import Me
    from rookery.games.gridworld.world import World

MOVES = ("up", "right", "down", "left")
"""Moves on the map; the agent then faces the way it went."""
STEPS = ("forward", "step_right", "backward", "step_left")
"""Moves as seen by the agent; it goes on facing the same way."""
TURNS = ("turn_right", "turn_left")
"""Quarter turns."""

AGENTS = "agents"
"""The layer agents stand on."""


class GridSettings(Settings):
    """What every grid game lets its user choose."""

    agents: int = Field(3, ge=1, le=250, description="How many agents play.")
    turns: int = Field(
        100, ge=1, le=1_000_000, description="Turns until an episode is truncated."
    )
    acting: Literal["simultaneous", "in_turn"] = Field(
        "simultaneous",
        description="Whether all agents see the same moment, or each sees what those "
        "before it did.",
    )
    order: Literal["shuffled", "fixed"] = Field(
        "shuffled",
        description="The order in which actions take effect: drawn anew every turn, or "
        "agent 0 first, which then wins every contest.",
    )


@dataclass(eq=False)
class Kind:
    """A kind of thing that lies in cells."""

    value: float = 0.0
    """What it is worth, as `World.value` adds up."""
    solid: bool = False
    """Whether it stops agents and beams."""
    layer: str = "things"
    """A cell holds one thing per layer."""
    lifetime: int | None = None
    """Turns until it vanishes, the one it appeared in included; None: it stays."""
    seen: bool = True
    """Whether windows have a channel for it."""
    char: str = ""
    """Its sign in maps and `show`; by default the first letter of its name."""
    tile: str = ""
    """The drawing to use; by default its name."""
    colour: tuple[int, int, int] | None = None
    """For drawings that take one; by default the drawing's own."""
    name: str = ""
    id: int = 0


@dataclass(frozen=True)
class Window:
    """A window around the agent: one channel per kind, 1 where a thing of it lies.

    Either `radius` in all directions, or `ahead`, `behind` and `sides` cells; `rotated`
    turns it with the agent, so that ahead is always the first row.
    """

    radius: int | None = None
    ahead: int = 0
    behind: int = 0
    sides: int = 0
    rotated: bool = False

    @property
    def reach(self) -> tuple[int, int, int]:
        """Cells seen ahead, behind and to each side."""
        if self.radius is not None:
            return (self.radius,) * 3
        return self.ahead, self.behind, self.sides


@dataclass(frozen=True, init=False)
class Vector:
    """Columns of the agent (or of its world) as one vector of float32."""

    columns: tuple[str, ...]

    def __init__(self, *columns: str) -> None:
        object.__setattr__(self, "columns", columns)


@dataclass(eq=False)
class Body:
    """What an agent is made of: what it can do and what it sees."""

    actions: tuple[str, ...] | tuple[tuple[str, ...], ...]
    sees: Mapping[str, Window | Vector]
    tile: str = "bird"
    name: str = ""
    kind: Kind = field(default_factory=Kind)


@dataclass(frozen=True)
class Column:
    """State that the engine keeps: per cell, per agent or per world."""

    dtype: Any = np.float32
    shape: tuple[int, ...] = ()
    default: float = 0


class PerCell(Column):
    """One value per cell and world; on `world`, as (worlds, cells)."""


class PerAgent(Column):
    """One value per agent and world; on `me`, as (worlds, *shape)."""


class PerWorld(Column):
    """One value per world; on `world`, as (worlds, *shape)."""


class GridGame:
    """The rules of a grid game; `GridEngine` plays them."""

    Settings: ClassVar[type[GridSettings]] = GridSettings
    players: Mapping[str, Any] = {}
    """Scripted players made for this game, by name."""
    training: Mapping[str, Any] = {}
    """Settings of training that suit the game, by dotted key."""
    counts: tuple[str, ...] = ()
    """The game's own metrics: columns of `me` that are zero at the start of a turn."""
    scored: bool = False
    """Whether `me.score` is reported instead of `me.reward`."""

    settings: GridSettings
    map: str = ""
    """A drawing of the world at the start, by the kinds' chars; 'P' is a start spot."""

    def __init__(self, settings: GridSettings) -> None:
        self.settings = settings
        self.declare()

    def declare(self) -> None:
        """Give `self` its kinds, bodies and columns, and `self.map` if there is one."""
        raise ConfigError(
            f"{type(self).__name__} has no declare method: write one that gives self its "
            "kinds, bodies and columns."
        )

    def roster(self) -> Sequence[Body]:
        """Return one body per agent; by default all have the only one declared."""
        bodies = [value for value in vars(self).values() if isinstance(value, Body)]
        if len(bodies) != 1:
            raise ConfigError(
                f"{type(self).__name__} declares {len(bodies)} of type Body: declare one, "
                "or write a roster method that gives each agent its own."
            )
        return bodies * self.settings.agents

    def start(self, world: World) -> None:
        """Fill a world; agents not placed here get free start spots at random."""

    def before(self, world: World) -> None:
        """Let everything that is not an agent move, before the agents act."""

    def act(self, world: World, me: Me) -> None:
        """Let one agent's action take effect."""

    def after(self, world: World) -> None:
        """Settle what depends on all actions of the turn."""

    def legal(self, world: World, me: Me) -> Array | None:
        """Return (worlds, actions) bool, or None if everything is always legal."""
        return None

    def begin_round(self, number: int) -> None:
        """Prepare a round of training; a curriculum is a pure function of its number."""

"""What the author of a grid game writes.

Subclass `GridGame`. In `declare`, assign kinds of things, bodies of agents and columns of
state to `self`. Override `start` to fill a new world, `before` to move things that are not
agents, and `act` to apply an agent's action. Every method is written for one agent and all
worlds at once: what looks like a number is an array with one entry per world, and `if`
becomes `where=`.

The engine resets, snapshots, observes and records everything that is declared. Other state
must not be kept on `self`; `rookery check` reports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rookery.config.base import Settings
from rookery.errors import ConfigError
from rookery.games.gridworld import declared
from rookery.games.locate import caller_place
from rookery.games.sources import Sources
from rookery.specs import Array

if TYPE_CHECKING:
    from rookery.games.gridworld.agent import Me
    from rookery.games.gridworld.world import World


class GridSettings(Settings):
    """The settings that all grid games have."""

    agents: int = Field(3, ge=1, le=250, description="Number of agents.")
    turns: int = Field(
        100, ge=1, le=1_000_000, description="Turns after which an episode is truncated."
    )
    acting: Literal["simultaneous", "in_turn"] = Field(
        "simultaneous",
        description="Whether all agents observe the same state, or each observes the "
        "effects of the actions before its own.",
    )
    order: Literal["shuffled", "fixed"] = Field(
        "shuffled",
        description="Order in which actions take effect: drawn again every turn, or agent "
        "0 first, which then wins every contest.",
    )


@dataclass(eq=False)
class Kind:
    """A kind of thing that cells can contain."""

    value: float = 0.0
    """Its value, which `World.value` adds up."""
    solid: bool = False
    """Whether it blocks agents and beams."""
    layer: str = "things"
    """Its layer; a cell contains at most one thing per layer."""
    lifetime: int | None = None
    """Turns until it vanishes, including the one it appears in; None: it stays."""
    seen: bool = True
    """Whether windows have a channel for it."""
    char: str = ""
    """Its character in maps and `show`; by default the first letter of its name."""
    tile: str = ""
    """The tile it is drawn with (see `tiles`); by default the one of its name."""
    colour: tuple[int, int, int] | None = None
    """The colour of its tile, if the tile takes one; by default the tile's own."""
    name: str = ""
    id: int = 0
    place: str = field(default="", repr=False)
    """The user's line that declares it, for messages."""

    def __post_init__(self) -> None:
        declared.check_kind(self)
        self.place = self.place or caller_place()


@dataclass(frozen=True)
class Window:
    """A window around the agent with one channel per kind, which is 1 where a thing is.

    It extends `radius` cells in all directions, or `ahead`, `behind` and `sides` cells.
    With `rotated` it turns with the agent, so that the first row is always ahead.
    """

    radius: int | None = None
    ahead: int = 0
    behind: int = 0
    sides: int = 0
    rotated: bool = False

    def __post_init__(self) -> None:
        declared.check_window(self)

    @property
    def reach(self) -> tuple[int, int, int]:
        """Cells ahead, behind and to each side."""
        if self.radius is not None:
            return (self.radius,) * 3
        return self.ahead, self.behind, self.sides


@dataclass(frozen=True, init=False)
class Vector:
    """Columns of the agent (or of its world) as one vector of float32."""

    columns: tuple[str, ...]

    def __init__(self, *columns: str) -> None:
        declared.check_vector(columns)
        object.__setattr__(self, "columns", columns)


@dataclass(eq=False)
class Body:
    """A kind of agent: its actions and its observation."""

    actions: tuple[str, ...] | tuple[tuple[str, ...], ...]
    sees: Mapping[str, Window | Vector]
    tile: str = "bird"
    name: str = ""
    kind: Kind = field(default_factory=Kind)
    place: str = field(default="", repr=False)
    """The user's line that declares it, for messages."""

    def __post_init__(self) -> None:
        self.actions = declared.checked_actions(self.actions)
        declared.check_sees(self.sees, (Window, Vector))
        self.place = self.place or caller_place()


@dataclass(frozen=True)
class StateColumn:
    """State that the engine stores: use PerCell, PerAgent or PerWorld."""

    dtype: Any = np.float32
    shape: tuple[int, ...] = ()
    default: float = 0
    place: str = field(default="", repr=False, compare=False)
    """The user's line that declares it, for messages."""

    def __post_init__(self) -> None:
        declared.check_column(self)
        object.__setattr__(self, "place", caller_place())


class PerCell(StateColumn):
    """One value per cell and world; on `world`, as (worlds, cells)."""


class PerAgent(StateColumn):
    """One value per agent and world; on `me`, as (worlds, *shape)."""


class PerWorld(StateColumn):
    """One value per world; on `world`, as (worlds, *shape)."""


class GridGame:
    """The rules of a grid game: subclass it and override its methods."""

    Settings: ClassVar[type[GridSettings]] = GridSettings
    players: Mapping[str, Any] = {}
    """Scripted players for this game: name to a subclass of `Player`."""
    training: Mapping[str, Any] = {}
    """Defaults of training settings for this game, by dotted key."""
    counts: tuple[str, ...] = ()
    """The game's own metrics: columns of `me` that are 0 at the start of each turn."""
    scored: bool = False
    """Whether `me.score` is reported instead of `me.reward`."""

    settings: GridSettings
    map: str = ""
    """The world at the start, drawn with the kinds' chars; 'P' is a start spot."""

    def __init__(self, settings: GridSettings) -> None:
        self.settings = settings
        self.declare()

    def declare(self) -> None:
        """Assign kinds, bodies and columns to `self`, and a map to `self.map`.

        Must be overridden; called once, when the game is built.
        """
        raise ConfigError(
            f"{Sources(type(self)).prefix()}{type(self).__name__} has no declare method: "
            "write one that assigns kinds, bodies and columns to self."
        )

    def roster(self) -> Sequence[Body]:
        """Return one body per agent; by default the only one declared, for all agents."""
        bodies = [value for value in vars(self).values() if isinstance(value, Body)]
        if len(bodies) != 1:
            advice = (
                "write a roster method that returns one per agent"
                if bodies
                else "assign one to self in declare, such as self.picker = grid.Body(…)"
            )
            raise ConfigError(
                f"{Sources(type(self)).prefix('declare')}{type(self).__name__} declares "
                f"{len(bodies)} bodies, expected one: {advice}."
            )
        return bodies * self.settings.agents

    def start(self, world: World) -> None:
        """Fill a new world; agents that are not placed here get random free start spots."""

    def before(self, world: World) -> None:
        """Move everything that is not an agent; called each turn before agents observe."""

    def act(self, world: World, me: Me) -> None:
        """Apply one agent's action; called each turn for every agent, in order."""

    def after(self, world: World) -> None:
        """Apply what depends on all actions of the turn; called after the last agent."""

    def legal(self, world: World, me: Me) -> Array | None:
        """Return the action mask, (worlds, actions) bool, or None if all are legal."""
        return None

    def begin_round(self, number: int) -> None:
        """Prepare a round of training; a curriculum must be a function of its number."""

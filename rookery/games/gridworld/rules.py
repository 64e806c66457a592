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
    """The settings that all grid games have; subclass it as `Settings` in your game.

    A game without a `map` must add the size of its field, as two settings of these names:

        class Settings(grid.GridSettings):
            height: int = Field(12, ge=3, le=100, description="Rows of the field.")
            width: int = Field(12, ge=3, le=100, description="Columns of the field.")
    """

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
    """A kind of thing that cells can contain; assign it to `self` in `declare`.

    A wall, a berry and a beam that is gone in the next turn:

        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries", char="*", tile="berry")
        self.beam = grid.Kind(layer="beams", lifetime=1, char="+")
    """

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
    """The name it is assigned to on `self`: the label of its channel in windows."""
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
    The first row is the top one; with `rotated` the window turns with the agent, and the
    first row is the one furthest ahead. The part of the observation is (channels, rows,
    columns) uint8, and the names of its channels are the part's `labels`. Agents have a
    channel too, by the name of their body, in which the agent also sees itself. Cells
    outside the map are 0 in all channels.

        sees={"view": grid.Window(ahead=5, sides=2, rotated=True)}
    """

    radius: int | None = None
    """Cells in all directions; the agent is in the middle."""
    ahead: int = 0
    """Cells ahead of the agent, without `radius`; up, if it is not rotated."""
    behind: int = 0
    """Cells behind it."""
    sides: int = 0
    """Cells to its left, and as many to its right."""
    rotated: bool = False
    """Whether it turns with the agent's `facing`."""

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
    """Columns of the agent (or of its world) as one vector of float32.

    Any column can be observed: `facing`, `turn`, or your own `PerAgent` and `PerWorld`.

        self.energy = grid.PerAgent()
        self.picker = grid.Body(
            actions=grid.MOVES,
            sees={"view": grid.Window(radius=3), "self": grid.Vector("energy", "facing")},
        )
    """

    columns: tuple[str, ...]
    """The names of the columns, in order."""

    def __init__(self, *columns: str) -> None:
        declared.check_vector(columns)
        object.__setattr__(self, "columns", columns)


@dataclass(eq=False)
class Body:
    """A kind of agent: its actions and its observation.

    Declare one for all agents, or several and say in `GridGame.roster` who has which.

        self.zapper = grid.Body(
            actions=(*grid.STEPS, *grid.TURNS, "zap"),
            sees={"view": grid.Window(radius=3, rotated=True)},
        )
    """

    actions: tuple[str, ...] | tuple[tuple[str, ...], ...]
    """Names of the actions. Those in MOVES, STEPS and TURNS are carried out by `Me.move`;
    `Me.does` tells all others. A tuple of tuples is a product, such as move × message."""
    sees: Mapping[str, Window | Vector]
    """The parts of its observation, by name."""
    tile: str = "bird"
    """The tile it is drawn with (docs/tiles.md)."""
    name: str = ""
    """The name it is assigned to on `self`, which is the agents' role."""
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
    """The type of its numbers, as in numpy: `bool`, `np.int32`, …"""
    shape: tuple[int, ...] = ()
    """The shape of one value; by default a single number."""
    default: float = 0
    """The value at the start of an episode."""
    place: str = field(default="", repr=False, compare=False)
    """The user's line that declares it, for messages."""

    def __post_init__(self) -> None:
        declared.check_column(self)
        object.__setattr__(self, "place", caller_place())


class PerCell(StateColumn):
    """One value per cell and world; on `world`, as (worlds, cells)."""


class PerAgent(StateColumn):
    """One value per agent and world; on `me`, as (worlds, *shape).

    `self.energy = grid.PerAgent(default=10)` in `declare` is `me.energy -= 1` in `act`.
    """


class PerWorld(StateColumn):
    """One value per world; on `world`, as (worlds, *shape).

    `self.night = grid.PerWorld(bool)` in `declare` is `world.night` in all methods.
    """


class GridGame:
    r"""The rules of a grid game: subclass it and override its methods.

    `declare` must be written; `act` is where agents do something. In each turn the engine
    calls `before`, lets all agents observe and choose, calls `act` for every agent, and
    then `after`.

        class Orchard(grid.GridGame):
            '''Agents pick apples.'''

            map = "#####\n#P.a#\n#a.P#\n#####"

            def declare(self):
                self.wall = grid.Kind(solid=True, layer="walls", char="#")
                self.apple = grid.Kind(value=1.0, layer="apples", char="a")
                sees = {"view": grid.Window(radius=2)}
                self.picker = grid.Body(actions=(*grid.MOVES, "stay"), sees=sees)

            def act(self, world, me):
                me.move()
                me.reward += world.value(me.cell)
                world.clear(me.cell, layer="apples")
    """

    Settings: ClassVar[type[GridSettings]] = GridSettings
    """The game's settings: a subclass of `GridSettings`, with a pydantic Field for each."""
    players: Mapping[str, Any] = {}
    """Scripted players for this game: name to a subclass of `Player`."""
    training: Mapping[str, Any] = {}
    """Defaults of training settings for this game, by dotted key."""
    counts: tuple[str, ...] = ()
    """The game's own metrics: columns of `me` that are 0 at the start of each turn."""
    scored: bool = False
    """Whether `me.score` is reported instead of `me.reward`, which agents learn from."""

    settings: GridSettings
    """The settings of this game, as `self.settings.NAME`."""
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
        """Return one body per agent; by default the only one declared, for all agents.

        Override it if agents differ:

            def roster(self):
                return [self.hunter] + [self.prey] * (self.settings.agents - 1)
        """
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
        """Fill new worlds; agents that are not placed here get random free start spots.

        Called when episodes start. `world` holds only the worlds that start one, already
        reset and with the map drawn: their number is `world.worlds`, and worlds that are in
        the middle of an episode are not affected.
        """

    def before(self, world: World) -> None:
        """Move everything that is not an agent; called each turn before agents observe."""

    def act(self, world: World, me: Me) -> None:
        """Apply one agent's action; called each turn for every agent, in order."""

    def after(self, world: World) -> None:
        """Apply what depends on all actions of the turn; called after the last agent."""

    def legal(self, world: World, me: Me) -> Array | None:
        """Return the action mask, (worlds, actions) bool, or None if all are legal.

        Called for every agent before it acts. A game that overrides it gives a mask to
        every agent:

            def legal(self, world, me):
                mask = np.ones((world.worlds, len(me.body.actions)), bool)
                mask[:, me.body.actions.index("zap")] = me.charge > 0
                return mask
        """
        return None

    def begin_round(self, number: int) -> None:
        """Prepare a round of training; a curriculum must be a function of its number."""

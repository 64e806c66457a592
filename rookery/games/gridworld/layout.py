"""What does not change while a grid game is played: kinds, cells and lookup tables.

Cells are numbered row by row over the map and a margin around it, which is as wide as the
largest window, so that neither moves nor windows need to check for the edge of the map. The
margin is filled with a solid kind that has no channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from rookery.errors import ConfigError, nearest
from rookery.games.gridworld.chart import START_SPOT, read_map
from rookery.games.gridworld.declared import check_declared
from rookery.games.gridworld.names import AGENTS, MOVES, STEPS, TURNS
from rookery.games.gridworld.rules import (
    Body,
    GridGame,
    Kind,
    PerCell,
    StateColumn,
    Vector,
    Window,
)
from rookery.games.locate import method_prefix
from rookery.games.sources import Sources
from rookery.specs import AgentSpec, Array, Part

OWN_COLUMNS = ("facing", "reward", "score", "back", "ended", "turn", "episode")
"""The engine's own columns that a Vector can show."""
NOWHERE = 0
"""The cell of agents that are off the map: the corner of the margin."""


@dataclass(eq=False)
class ActionTable:
    """The effects of a body's actions."""

    count: int
    toward: Array
    """(4 facings × (actions + 1),) cell offsets; the last action is for not acting."""
    turned: Array
    """(4 facings × (actions + 1),) facings after the action."""
    relative: bool
    """Whether the effects depend on the facing."""
    does: dict[str, Array]
    """Action name to (actions + 1,) bool."""


class Layout:
    """Kinds, cells and lookup tables of a grid game."""

    def __init__(self, rules: GridGame) -> None:
        self.rules = rules
        self.roster = _checked_roster(rules)
        declared = vars(rules)
        for name, value in declared.items():
            check_declared(name, value, (Kind, Body, StateColumn), type(rules))
        self.bodies = list(dict.fromkeys(self.roster))
        self.columns: dict[str, StateColumn] = {
            name: value
            for name, value in declared.items()
            if isinstance(value, StateColumn)
        }
        self._name_all(declared)
        self.kinds = self._number_kinds(declared)
        self.layers = self._order_layers(declared)
        self.height, self.width, self.chart = read_map(rules, self.things)
        self._measure()
        self._tabulate()
        self.specs = tuple(self._spec(i, body) for i, body in enumerate(self.roster))

    def _name_all(self, declared: dict[str, Any]) -> None:
        for name, value in declared.items():
            if isinstance(value, Kind | Body):
                value.name = name
        for number, body in enumerate(self.bodies):
            body.name = body.name or f"body{number}"
            body.kind = Kind(
                solid=True, layer=AGENTS, tile=body.tile, name=body.name, char="@"
            )

    def _number_kinds(self, declared: dict[str, Any]) -> list[Kind]:
        self.things = [v for v in declared.values() if isinstance(v, Kind)]
        # On the agents' layer, which a game cannot clear.
        outside = Kind(solid=True, seen=False, name="outside", layer=AGENTS)
        kinds = [Kind(name="nothing", seen=False), outside, *self.things]
        kinds += [body.kind for body in self.bodies]
        for number, kind in enumerate(kinds):
            kind.id = number
            kind.char = kind.char or kind.name[0]
            kind.tile = kind.tile or kind.name
        return kinds

    def _order_layers(self, declared: dict[str, Any]) -> tuple[str, ...]:
        """Return the layers in order of declaration, lowest first; a Body is on AGENTS."""
        order = [
            value.layer if isinstance(value, Kind) else AGENTS
            for value in declared.values()
            if isinstance(value, Kind | Body)
        ]
        return tuple(dict.fromkeys([*order, AGENTS]))

    def _measure(self) -> None:
        windows = [
            look
            for body in self.bodies
            for look in body.sees.values()
            if isinstance(look, Window)
        ]
        self.margin = max([1, *(max(window.reach) for window in windows)])
        self.stride = self.width + 2 * self.margin
        self.cells = (self.height + 2 * self.margin) * self.stride
        cells = np.arange(self.cells).reshape(-1, self.stride)
        inside = cells[
            self.margin : self.margin + self.height,
            self.margin : self.margin + self.width,
        ]
        self.inside = inside.ravel()
        """The cells of the map, row by row."""
        self.outside = np.ones(self.cells, bool)
        self.outside[self.inside] = False
        self.on_map = ~self.outside
        self.edge = ~self.outside
        self.edge[inside[1:-1, 1:-1]] = False
        self.directions = np.array([-self.stride, 1, self.stride, -1])
        """Cell offsets of up, right, down and left."""
        self.starts = self._chart_cells(START_SPOT) if self.chart else self.inside
        if not len(self.starts):
            self.starts = self.inside

    def _chart_cells(self, char: str) -> Array:
        flat = np.array(list("".join(self.chart)))
        return self.inside[flat == char]

    def charted(self) -> list[tuple[Kind, Array]]:
        """Return the kinds that are drawn in the map, with their cells."""
        drawn = [(kind, self._chart_cells(kind.char)) for kind in self.things]
        return [(kind, cells) for kind, cells in drawn if len(cells)]

    def _tabulate(self) -> None:
        self.values = np.array([kind.value for kind in self.kinds], np.float32)
        self.solids = np.array([kind.solid for kind in self.kinds])
        self.things_mask = np.array([kind.id > 0 for kind in self.kinds])
        self._sown: dict[tuple[int, ...], tuple[str, Array, Array]] = {}
        self._layer_numbers = {name: i for i, name in enumerate(self.layers)}
        mortal = [kind for kind in self.kinds if kind.lifetime is not None]
        self.mortal_layers = sorted({self.layer_number(kind.layer) for kind in mortal})
        self.actions = {body.name: self._action_table(body) for body in self.bodies}
        counts = [self.actions[body.name].count for body in self.roster]
        self.no_actions = np.array(counts)[:, None]
        """(agents, 1): the number of each agent's action for not acting."""
        names = {name for table in self.actions.values() for name in table.does}
        for table in self.actions.values():
            for name in names - table.does.keys():
                table.does[name] = np.zeros(table.count + 1, bool)

    def sown(self, ids: tuple[int, ...]) -> tuple[str, Array, Array]:
        """Return the layer of some kinds, their ids, and their lifetimes or 0."""
        tables = self._sown.get(ids)
        if tables is not None:
            return tables
        kinds = [self.kinds[number] for number in ids]
        layers = list(dict.fromkeys(kind.layer for kind in kinds))
        if len(layers) > 1:
            raise ConfigError(
                f"sprinkle() got kinds of the layers {', '.join(layers)}, expected one "
                "layer: give the kinds the same layer, or call sprinkle once per layer."
            )
        lifetimes = np.array([kind.lifetime or 0 for kind in kinds])
        self._sown[ids] = (layers[0], np.array(ids, np.uint8), lifetimes)
        return self._sown[ids]

    def layer_number(self, layer: str) -> int:
        """Return the number of a layer, by name."""
        number = self._layer_numbers.get(layer)
        if isinstance(layer, Kind):
            raise ConfigError(
                f"the layer is the Kind '{layer.name}', expected its name: write "
                f"layer='{layer.layer}'."
            )
        if number is None:
            raise ConfigError(
                f"{type(self.rules).__name__} has no layer '{layer}': "
                f"{nearest(layer, self.layers)}"
            )
        return number

    def _action_table(self, body: Body) -> ActionTable:
        spec = AgentSpec("", "", {}, body.actions)
        actions = [tuple(name.split("+")) for name in spec.action_names]
        toward = np.zeros((4, len(actions) + 1), np.int64)
        turned = np.repeat(np.arange(4, dtype=np.int8)[:, None], len(actions) + 1, axis=1)
        for facing, (action, names) in product(range(4), enumerate(actions)):
            for name in names:
                direction, new_facing = _effect(name, facing)
                if direction is not None:
                    toward[facing, action] = self.directions[direction]
                if new_facing != facing:
                    turned[facing, action] = new_facing
        does = {
            name: np.array([name in names for names in actions] + [False])
            for name in {name for names in actions for name in names}
        }
        relative = bool((toward != toward[0]).any())
        relative |= bool((turned[:, :-1] != turned[0, :-1]).any())
        return ActionTable(len(actions), toward.ravel(), turned.ravel(), relative, does)

    def channels(self) -> list[Kind]:
        """Return the kinds that windows have a channel for, in order."""
        return [kind for kind in self.kinds if kind.seen]

    def _spec(self, number: int, body: Body) -> AgentSpec:
        masked = type(self.rules).legal is not GridGame.legal
        return AgentSpec(str(number), body.name, self.parts(body), body.actions, masked)

    def parts(self, body: Body) -> dict[str, Part]:
        """Return the parts of a body's observation, by name."""
        try:
            return {name: self._part(look) for name, look in body.sees.items()}
        except ConfigError as error:
            raise ConfigError(f"{body.place}: {error}") from error

    def _part(self, look: Window | Vector) -> Part:
        if isinstance(look, Vector):
            labels = tuple(self._labels(look.columns))
            return Part((len(labels),), np.dtype(np.float32), labels)
        ahead, behind, sides = look.reach
        labels = tuple(kind.name for kind in self.channels())
        shape = (len(labels), ahead + 1 + behind, 2 * sides + 1)
        return Part(shape, np.dtype(np.uint8), labels)

    def _labels(self, columns: tuple[str, ...]) -> list[str]:
        labels: list[str] = []
        known = {
            name: column
            for name, column in self.columns.items()
            if not isinstance(column, PerCell)
        }
        known |= dict.fromkeys((*OWN_COLUMNS, *self.rules.counts), StateColumn())
        for name in columns:
            column = known.get(name)
            if column is None:
                why = "is PerCell" if name in self.columns else "is not declared"
                raise ConfigError(
                    f"a Vector of {type(self.rules).__name__} shows '{name}', which {why}: "
                    f"{nearest(name, known)}"
                )
            size = int(np.prod(column.shape))
            labels += [name] if column.shape == () else [f"{name}.{i}" for i in range(size)]
        return labels


def _checked_roster(rules: GridGame) -> tuple[Body, ...]:
    if not hasattr(rules, "settings"):
        raise ConfigError(
            f"{method_prefix(type(rules), '__init__')}{type(rules).__name__}.__init__ does "
            "not call super().__init__(settings): write it as its first line, or use "
            "declare instead."
        )
    for name in ("agents", "turns"):
        number = getattr(rules.settings, name)
        if number < 1:
            raise ConfigError(
                f"{Sources(type(rules.settings)).prefix(name)}game.{name} is {number}, "
                "expected at least 1: limit the setting with Field(…, ge=1)."
            )
    roster = rules.roster()
    if not isinstance(roster, Sequence) or not all(isinstance(b, Body) for b in roster):
        raise ConfigError(
            f"{method_prefix(type(rules), 'roster')}{type(rules).__name__}.roster returned "
            f"a {type(roster).__name__}, expected a list with one Body per agent."
        )
    return tuple(roster)


def _effect(name: str, facing: int) -> tuple[int | None, int]:
    """Return the direction in which an action moves, if any, and the facing after it."""
    if name in MOVES:
        return MOVES.index(name), MOVES.index(name)
    if name in STEPS:
        return (facing + STEPS.index(name)) % 4, facing
    if name in TURNS:
        return None, (facing + (1, 3)[TURNS.index(name)]) % 4
    return None, facing

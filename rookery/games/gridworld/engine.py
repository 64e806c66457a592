"""The engine: plays the rules of a grid game in all worlds, as a `Game`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.errors import ConfigError
from rookery.games.base import Game, Observations, Outcome, Phases
from rookery.games.gridworld import loops
from rookery.games.gridworld.layout import NOWHERE, Layout
from rookery.games.gridworld.random import PLACING
from rookery.games.gridworld.rules import GridGame
from rookery.games.gridworld.scene import Scene, Stage, scene_of
from rookery.games.gridworld.vision import Vision
from rookery.games.gridworld.world import World
from rookery.games.sources import Sources
from rookery.rng import Purpose, Stream, order
from rookery.specs import Array

ORDERS_AT_ONCE = 256
HIDDEN = {"cell", "done", "ended", "over", "closing", "reward", "score"}
"""Columns that are the engine's own, or recorded elsewhere."""


class GridEngine(Game):
    """A grid game as a `Game`, made from its rules."""

    def __init__(
        self, rules: GridGame, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(rules.settings, worlds, seed, first_world)
        self.rules = rules
        self.players, self.counts = rules.players, rules.counts
        self.layout = Layout(rules)
        self.agents = self.layout.specs
        self.stage = Stage.of(self.layout)
        self._seed = seed
        self._numbers = np.arange(first_world, first_world + worlds)
        self.world = World(self.layout, seed, self._numbers)
        self._clock = 0
        self._visions = [Vision(self.layout, body) for body in self.layout.bodies]
        self._orders = Stream(seed, Purpose.ORDER)
        self._phases_kept: tuple[int, list[Phases]] = (-1, [])
        self._saved: dict[str, Array] | None = None
        self._fresh: World | None = None
        self._closing = 0
        self._restart(np.ones(worlds, bool))
        self._check_room()

    def _check_room(self) -> None:
        world = self.world
        waiting = (world.cell == NOWHERE) & (world.back <= world.turn) & ~world.ended
        surplus = int(waiting.sum(axis=0).max())
        if surplus:
            raise ConfigError(
                f"{Sources(type(self.rules)).prefix('map')}game.agents is "
                f"{len(self.agents)}, but there is room to start for only "
                f"{len(self.agents) - surplus}: lower game.agents or enlarge the map."
            )

    # One turn.

    def begin_turn(self) -> Phases:
        """Move everything that is not an agent; return the phases in which agents act."""
        world = self.world
        world.loop_arrays.sums.fill(0)
        self._saved = None
        if self._closing < self.worlds:
            if self._closing:
                self._saved = world.columns.take(world.closing)
            world.turn += 1
            world.random.begin()
            _expire(world)
            _place_waiting(world)
            world.wait()
            self.rules.before(world)
            self._keep_closing()
        return self._phases()

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return what these agents observe now."""
        world = self.world
        everyone = len(agents) == len(self.agents)
        parts: dict[int, dict[str, Array]] = {}
        for vision in self._visions:
            group = vision.agents if everyone else [i for i in agents if i in vision.agents]
            if group:
                views = vision.see(world, group)
                for row, i in enumerate(group):
                    parts[i] = {name: view[row] for name, view in views.items()}
        active = (world.cell != NOWHERE) & ~world.closing
        legal = [self.rules.legal(world, world.agents[i]) for i in agents]
        return Observations([parts[i] for i in agents], [active[i] for i in agents], legal)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Apply the agents' actions, one agent after the other."""
        if self._closing == self.worlds:
            return
        if self._closing:
            actions = np.where(self.world.closing[:, None], 0, actions)
        for i, chosen in zip(agents, np.ascontiguousarray(actions.T), strict=True):
            me = self.world.agents[i]
            me.choose(chosen)
            self.rules.act(self.world, me)
            self._keep_closing()

    def end_turn(self) -> Outcome:
        """Finish the turn, and start the next episode where one was closing."""
        world = self.world
        if self._closing < self.worlds:
            self.rules.after(world)
            self._keep_closing()
        outcome = self._settle()
        self._clock += 1
        if self._closing:
            self._restart(world.closing.copy())
        np.logical_and.reduce(world.done, axis=0, out=world.closing)
        self._count_closing()
        return outcome

    def _count_closing(self) -> None:
        self._closing = int(np.count_nonzero(self.world.closing))

    def _settle(self) -> Outcome:
        """Return the outcome of the turn, and mark the agents whose episode has ended."""
        world = self.world
        sums = world.loop_arrays.sums
        paid = np.empty_like(sums)
        terminated, truncated = np.empty((2, self.worlds, len(self.agents)), np.bool_)
        ends = (world.done, world.closing, world.ended, world.over, world.turn)
        turns = self.rules.settings.turns
        loops.settle(*ends, turns, sums, paid, terminated, truncated)
        rewards, scores, *counts = paid.transpose(0, 2, 1)
        names = self.rules.counts
        return Outcome(
            rewards,
            terminated,
            truncated,
            scores if self.rules.scored else None,
            dict(zip(names, counts, strict=True)),
        )

    def _keep_closing(self) -> None:
        """Undo what the rules did to closing worlds, which only show their last state."""
        if self._saved is not None:
            self.world.columns.put(self.world.closing, self._saved)

    def _restart(self, starting: Array) -> None:
        """Start the next episode in some worlds, by copying new worlds into them.

        So every column is reset, whatever the game's `start` does.
        """
        numbers = self._numbers[starting]
        if self._fresh is None or self._fresh.worlds != len(numbers):
            self._fresh = World(self.layout, self._seed, numbers)
        fresh = self._fresh
        fresh.blank(numbers)
        fresh.episode = self.world.episode[starting] + 1
        _draw_map(fresh)
        self.rules.start(fresh)
        _place_waiting(fresh)
        self.world.columns.put(starting, fresh.columns.by_world)

    def _phases(self) -> Phases:
        """Return the phases of this turn; those of many turns are drawn at once."""
        first = self._clock - self._clock % ORDERS_AT_ONCE
        if self._phases_kept[0] != first:
            self._phases_kept = (first, self._phases_from(first))
        return self._phases_kept[1][self._clock - first]

    def _phases_from(self, first: int) -> list[Phases]:
        agents = len(self.agents)
        orders = [list(range(agents))] * ORDERS_AT_ONCE
        if self.rules.settings.order == "shuffled":
            turns = np.arange(first, first + ORDERS_AT_ONCE)
            orders = order(self._orders.bits((turns,), 0, agents)).tolist()
        if self.rules.settings.acting == "simultaneous":
            return [(tuple(agents),) for agents in orders]
        return [tuple((i,) for i in agents) for agents in orders]

    # Snapshots, facts and pictures.

    def snapshot(self) -> dict[str, Array]:
        """Return everything needed to continue from here."""
        state = self.world.columns.take(slice(None))
        state["clock"] = np.full(self.worlds, self._clock)
        return state

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the state of a snapshot."""
        self.world.columns.put(slice(None), arrays)
        self._clock = int(arrays["clock"][0])
        self._count_closing()

    def facts(self) -> dict[str, Array]:
        """Return the agents' positions, and every column of agents and worlds."""
        world, layout = self.world, self.layout
        columns = world.columns.by_world
        facts = {
            name: columns[name].copy()
            for name in (*world.per_agent, *world.per_world)
            if name not in HIDDEN
        }
        positions = np.stack(np.divmod(world.cell.T, layout.stride), axis=-1)
        positions -= layout.margin
        positions[world.cell.T == NOWHERE] = -1
        facts["position"] = positions.astype(np.int16)
        return facts

    def begin_round(self, number: int) -> None:
        """Tell the rules that a round begins."""
        self.rules.begin_round(number)

    def show(self, world: int = 0) -> str:
        """Return one world as text, agents by their numbers."""
        from rookery.games.gridworld.render import text

        return text(self.world, world)

    def render(self, world: int = 0, size: int = 32) -> Array:
        """Return a picture of one world, `size` pixels per cell."""
        # Imported here, since Pillow takes time to load and most processes never draw.
        from rookery.games.gridworld.render import draw

        return draw(self.stage, self.scene(world), size)

    def scene(self, world: int) -> Scene:
        """Return what a picture of one world is drawn from."""
        return scene_of(self.world, world)


def _draw_map(world: World) -> None:
    """Fill worlds as the game's map shows."""
    for kind, cells in world.layout.charted():
        mask = np.zeros(world.layout.cells, bool)
        mask[cells] = True
        world.fill(kind, mask)


def _expire(world: World) -> None:
    """Remove things whose lifetime is over."""
    for number in world.layout.mortal_layers:
        layer = world.layout.layers[number]
        arrays = world.loop_arrays
        loops.expire(
            arrays.by_layer[layer], arrays.expiry[layer], world.turn, world.layout.cells
        )


def _place_waiting(world: World) -> None:
    """Put agents that are due to return, or not placed yet, on random free start spots.

    Where there is none, they keep waiting.
    """
    if np.count_nonzero(world.cell) == world.cell.size:
        return  # NOWHERE is cell 0
    waiting = (world.cell == NOWHERE) & (world.back <= world.turn) & ~world.ended
    if not waiting.any():
        return
    draws = world.random.bits_at(PLACING, len(world.agents))
    for me in world.agents:
        due = waiting[me.number]
        if np.count_nonzero(due):
            cells = _free_spots(world, due, draws[:, me.number])
            me.place(cells, where=cells != NOWHERE)
            np.copyto(me.facing, draws[:, me.number] % 4, where=cells != NOWHERE)


def _free_spots(world: World, due: Array, draws: Array) -> Array:
    """Return a random free start spot where an agent is due; NOWHERE if there is none."""
    layout = world.layout
    cells = np.empty(world.worlds, np.int64)
    loops.find_spots(
        world.loop_arrays.layers,
        layout.starts,
        layout.things_mask,
        layout.solids,
        layout.cells,
        due,
        np.ascontiguousarray(draws),
        cells,
    )
    return cells

"""The engine: plays the rules of a grid game in all worlds, as a `Game`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.errors import ConfigError
from rookery.games.base import Game, Observations, Outcome, Phases
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
        self._visions = {b.name: Vision(self.layout, b) for b in self.layout.bodies}
        self._orders = Stream(seed, Purpose.ORDER)
        self._orders_kept: tuple[int, list[list[int]]] = (-1, [])
        self._saved: dict[str, Array] | None = None
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
        for name in ("reward", "score", *self.rules.counts):
            world.columns.arrays[name].fill(0)
        self._saved = None
        if self._closing < self.worlds:
            if self._closing:
                self._saved = world.columns.take(world.closing)
            world.turn += 1
            world.random.begin()
            _expire(world)
            _place_waiting(world)
            for me in world.agents:
                me.wait()
            self.rules.before(world)
            self._keep_closing()
        return self._phases()

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return what these agents observe now."""
        world = self.world
        parts: dict[int, dict[str, Array]] = {}
        for body in self.layout.bodies:
            group = [i for i in agents if self.layout.roster[i] is body]
            if group:
                views = self._visions[body.name].see(world, group)
                for row, i in enumerate(group):
                    parts[i] = {name: view[row] for name, view in views.items()}
        active = (world.cell[list(agents)] != NOWHERE) & ~world.closing
        legal = [self.rules.legal(world, world.agents[i]) for i in agents]
        return Observations([parts[i] for i in agents], list(active), legal)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Apply the agents' actions, one agent after the other."""
        if self._closing == self.worlds:
            return
        if self._closing:
            actions = np.where(self.world.closing[:, None], 0, actions)
        for column, i in enumerate(agents):
            me = self.world.agents[i]
            me.choose(actions[:, column])
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
        playing = ~(world.done | world.closing)
        terminated = (world.ended | world.over) & playing
        late = world.turn >= self.rules.settings.turns
        truncated = late & playing & ~terminated
        world.done |= terminated | truncated

        def of_playing(name: str) -> Array:
            return np.multiply(world.columns.arrays[name].T, playing.T)

        return Outcome(
            of_playing("reward"),
            terminated.T.copy(),
            truncated.T.copy(),
            of_playing("score") if self.rules.scored else None,
            {name: of_playing(name) for name in self.rules.counts},
        )

    def _keep_closing(self) -> None:
        """Undo what the rules did to closing worlds, which only show their last state."""
        if self._saved is not None:
            self.world.columns.put(self.world.closing, self._saved)

    def _restart(self, starting: Array) -> None:
        """Start the next episode in some worlds, by copying new worlds into them.

        So every column is reset, whatever the game's `start` does.
        """
        fresh = World(self.layout, self._seed, self._numbers[starting])
        fresh.episode = self.world.episode[starting] + 1
        _draw_map(fresh)
        self.rules.start(fresh)
        _place_waiting(fresh)
        self.world.columns.put(starting, fresh.columns.by_world)
        self.world.random.forget()

    def _phases(self) -> Phases:
        agents = list(range(len(self.agents)))
        if self.rules.settings.order == "shuffled":
            agents = self._shuffled()
        if self.rules.settings.acting == "simultaneous":
            return (tuple(agents),)
        return tuple((i,) for i in agents)

    def _shuffled(self) -> list[int]:
        """Return the order of this turn; the orders of many turns are drawn at once."""
        first = self._clock - self._clock % ORDERS_AT_ONCE
        if self._orders_kept[0] != first:
            turns = np.arange(first, first + ORDERS_AT_ONCE)
            drawn = self._orders.bits((turns,), 0, len(self.agents))
            self._orders_kept = (first, order(drawn).tolist())
        return self._orders_kept[1][self._clock - first]

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
        self.world.random.forget()
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
        expired = world.columns.arrays[f"expiry_{number}"] <= world.turn[:, None]
        world.layers[number][expired] = 0


def _place_waiting(world: World) -> None:
    """Put agents that are due to return, or not placed yet, on random free start spots.

    Where there is none, they keep waiting.
    """
    absent = world.cell == NOWHERE
    if not absent.any():
        return
    waiting = absent & (world.back <= world.turn) & ~world.ended
    if not waiting.any():
        return
    draws = world.random.bits_at(PLACING, len(world.agents))
    for me in world.agents:
        due = waiting[me.number]
        if due.any():
            cells, free = _free_spots(world, draws[:, me.number])
            me.place(cells, where=due & free)
            np.copyto(me.facing, draws[:, me.number] % 4, where=due & free)


def _free_spots(world: World, draws: Array) -> tuple[Array, Array]:
    """Return a random free start spot per world, and whether there is one."""
    starts = world.layout.starts
    content = world.layers[:, :, starts]
    free = ~np.any(content, axis=0)
    crowded = ~np.any(free, axis=1)  # then a spot without anything solid must do
    free[crowded] = ~np.any(world.layout.solids[content], axis=0)[crowded]
    counts = free.sum(axis=1)
    rank = (draws * 2.0**-32 * counts).astype(np.int64)
    index = (free.cumsum(axis=1) > rank[:, None]).argmax(axis=1)
    return starts[index], counts > 0

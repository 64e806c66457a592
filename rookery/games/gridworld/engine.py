"""The engine: plays the rules of a grid game in all worlds, behind the game contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.errors import ConfigError
from rookery.games.base import Game, Observations, Outcome, Phases
from rookery.games.gridworld import upkeep
from rookery.games.gridworld.layout import NOWHERE, Layout
from rookery.games.gridworld.rules import GridGame
from rookery.games.gridworld.vision import Vision
from rookery.games.gridworld.world import World
from rookery.rng import Purpose, Stream, order
from rookery.specs import Array

ORDERS_AT_ONCE = 256
HIDDEN = {"cell", "done", "ended", "over", "closing", "reward", "score"}
"""Columns that are bookkeeping, or recorded elsewhere."""


class GridEngine(Game):
    """A grid game that can be played."""

    def __init__(
        self, rules: GridGame, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(rules.settings, worlds, seed, first_world)
        self.rules = rules
        self.players, self.counts = rules.players, rules.counts
        self.layout = Layout(rules)
        self.agents = self.layout.specs
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
        left_over = int(waiting.sum(axis=0).max())
        if left_over:
            raise ConfigError(
                f"game.agents is {len(self.agents)}, but there is room to start for only "
                f"{len(self.agents) - left_over}: lower game.agents or enlarge the map."
            )

    # One turn.

    def begin_turn(self) -> Phases:
        """Let everything that is not an agent move; return who acts when."""
        world = self.world
        for name in ("reward", "score", *self.rules.counts):
            world.columns.arrays[name].fill(0)
        self._saved = None
        if self._closing < self.worlds:
            if self._closing:
                self._saved = world.columns.take(world.closing)
            world.turn += 1
            world.random.begin()
            upkeep.expire(world)
            upkeep.place_waiting(world)
            for me in world.agents:
                me.wait()
            self.rules.before(world)
            self._keep_closing()
        return self._phases()

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return what these agents see now."""
        world = self.world
        seen: dict[int, dict[str, Array]] = {}
        for body in self.layout.bodies:
            group = [i for i in agents if self.layout.roster[i] is body]
            if group:
                views = self._visions[body.name].see(world, group)
                for place, i in enumerate(group):
                    seen[i] = {name: view[place] for name, view in views.items()}
        active = (world.cell[list(agents)] != NOWHERE) & ~world.closing
        legal = [self.rules.legal(world, world.agents[i]) for i in agents]
        return Observations([seen[i] for i in agents], list(active), legal)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Let the agents' actions take effect, one agent after the other."""
        if self._closing == self.worlds:
            return
        if self._closing:
            actions = np.where(self.world.closing[:, None], 0, actions)
        for place, i in enumerate(agents):
            me = self.world.agents[i]
            me.choose(actions[:, place])
            self.rules.act(self.world, me)
            self._keep_closing()

    def end_turn(self) -> Outcome:
        """Settle the turn, and start the next episode where one was closing."""
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
        """Count the turn and say what it brought to those whose episode goes on."""
        world = self.world
        playing = ~(world.done | world.closing)
        terminated = (world.ended | world.over) & playing
        late = world.turn >= self.rules.settings.turns
        truncated = late & playing & ~terminated
        world.done |= terminated | truncated

        def brought(name: str) -> Array:
            return np.multiply(world.columns.arrays[name].T, playing.T)

        return Outcome(
            brought("reward"),
            terminated.T.copy(),
            truncated.T.copy(),
            brought("score") if self.rules.scored else None,
            {name: brought(name) for name in self.rules.counts},
        )

    def _keep_closing(self) -> None:
        """Undo what the rules did to worlds that only show their last moment."""
        if self._saved is not None:
            self.world.columns.put(self.world.closing, self._saved)

    def _restart(self, starting: Array) -> None:
        """Start the next episode in some worlds, on fresh ones that are copied over.

        So a column cannot be forgotten, whatever an author's `start` does.
        """
        fresh = World(self.layout, self._seed, self._numbers[starting])
        fresh.episode = self.world.episode[starting] + 1
        upkeep.draw_map(fresh)
        self.rules.start(fresh)
        upkeep.place_waiting(fresh)
        self.world.columns.put(starting, fresh.columns.by_world)
        self.world.random.forget()

    def _phases(self) -> Phases:
        turns = list(range(len(self.agents)))
        if self.rules.settings.order == "shuffled":
            turns = self._shuffled()
        if self.rules.settings.acting == "simultaneous":
            return (tuple(turns),)
        return tuple((i,) for i in turns)

    def _shuffled(self) -> list[int]:
        """Return this turn's order; many are made at once, for speed."""
        first = self._clock - self._clock % ORDERS_AT_ONCE
        if self._orders_kept[0] != first:
            turns = np.arange(first, first + ORDERS_AT_ONCE)
            drawn = self._orders.bits((turns,), 0, len(self.agents))
            self._orders_kept = (first, order(drawn).tolist())
        return self._orders_kept[1][self._clock - first]

    # Looking, keeping, going back.

    def snapshot(self) -> dict[str, Array]:
        """Return everything needed to go on from here."""
        state = self.world.columns.take(slice(None))
        state["clock"] = np.full(self.worlds, self._clock)
        return state

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go back to where a snapshot was taken."""
        self.world.columns.put(slice(None), arrays)
        self._clock = int(arrays["clock"][0])
        self.world.random.forget()
        self._count_closing()

    def facts(self) -> dict[str, Array]:
        """Return where everybody is, and every column of agents and worlds."""
        world, layout = self.world, self.layout
        columns = world.columns.by_world
        facts = {
            name: columns[name].copy()
            for name in (*world.per_agent, *world.per_world)
            if name not in HIDDEN
        }
        spots = np.stack(np.divmod(world.cell.T, layout.stride), axis=-1) - layout.margin
        spots[world.cell.T == NOWHERE] = -1
        facts["position"] = spots.astype(np.int16)
        return facts

    def begin_round(self, number: int) -> None:
        """Prepare a round."""
        self.rules.begin_round(number)

    def show(self, world: int = 0) -> str:
        """Return one world as text, agents by their numbers."""
        from rookery.games.gridworld.drawing import text

        return text(self.world, world)

    def render(self, world: int = 0, size: int = 32) -> Array:
        """Return a picture of one world, `size` pixels per cell."""
        # Here, as Pillow takes time to load and most processes of a run never draw.
        from rookery.games.gridworld.drawing import draw

        return draw(self.world, world, size)

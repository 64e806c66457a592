"""Who gets what two agents go for: nothing is given twice, and nobody always wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from rookery.games.conformance.playback import Broken
from rookery.games.gridworld import GridEngine
from rookery.games.gridworld.rules import AGENTS
from rookery.games.players import Observation, Player
from rookery.specs import Array

Pair = tuple[int, int]


class Contests:
    """Plays on, and judges every contest for one thing.

    A contest is a turn in which two agents aim at one cell, something in it is gone
    afterwards, and each of them, acting alone, would have been paid for its being there.
    """

    def __init__(self, engine: GridEngine, players: Sequence[Player]) -> None:
        self._engine, self._players = engine, players
        self.number = 0
        self.wins = np.zeros((0, len(players)))
        """Contests won less contests lost, (turns, agents)."""
        self._doubled = ""

    def play(self, turns: int) -> None:
        """Play some turns."""
        balance = np.zeros((turns, len(self._players)))
        for turn in range(turns):
            self._play_turn(turn, balance[turn])
        self.wins = np.concatenate([self.wins, balance])

    def _play_turn(self, turn: int, balance: Array) -> None:
        engine = self._engine
        (phase,) = engine.begin_turn()
        actions = self._actions(turn, phase)
        before, had = engine.snapshot(), self._things()
        engine.act(phase, actions)
        targets = np.stack([me.target for me in engine.world.agents])
        together = engine.end_turn().rewards
        after = engine.snapshot()
        taken = (had & ~self._things()) & ~before["closing"][:, None]
        for pair in combinations(sorted(phase), 2):
            cells = targets[pair[0]]
            rows = np.arange(len(cells))
            contested = taken[rows, cells] & (cells == targets[pair[1]])
            if contested.any():
                paid = self._paid_alone(before, phase, actions, pair, None)
                without = self._paid_alone(before, phase, actions, pair, cells)
                contested &= np.all(paid != without, axis=1)
                got = together[:, pair] == paid
                self._judge(contested, got, together, pair, turn)
                decided = got[contested, 0].astype(int) - got[contested, 1]
                balance[pair[0]] += decided.sum()
                balance[pair[1]] -= decided.sum()
        engine.restore(after)
        starting = before["closing"]
        if starting.any():
            for player in self._players:
                player.forget(starting)

    def _actions(self, turn: int, phase: tuple[int, ...]) -> Array:
        seen = self._engine.observe(phase)
        sights = map(Observation, seen.parts, seen.active, seen.legal)
        chosen = [
            self._players[i].act(observation, turn)
            for i, observation in zip(phase, sights, strict=True)
        ]
        return np.stack(chosen, axis=1)

    def _things(self) -> Array:
        """Return where something lies that is no agent, (worlds, cells) bool."""
        layers = self._engine.layout.layers
        things = [i for i, name in enumerate(layers) if name != AGENTS]
        return np.asarray((self._engine.world.layers[things] != 0).any(axis=0))

    def _paid_alone(
        self,
        before: Mapping[str, Array],
        phase: tuple[int, ...],
        actions: Array,
        pair: Pair,
        without: Array | None,
    ) -> Array:
        """Return what each of two gets if nobody else acts, (worlds, 2)."""
        engine, paid = self._engine, []
        for agent in pair:
            engine.restore(before)
            if without is not None:
                self._clear(without)
            for me in engine.world.agents:  # else rules find what they chose before
                me.choose(np.full(engine.worlds, engine.agents[me.number].num_actions))
            place = phase.index(agent)
            engine.act((agent,), actions[:, place : place + 1])
            paid.append(engine.end_turn().rewards[:, agent])
        return np.stack(paid, axis=1)

    def _clear(self, cells: Array) -> None:
        world = self._engine.world
        for name in self._engine.layout.layers:
            if name != AGENTS:
                world.clear(cells, layer=name)

    def _judge(
        self, contested: Array, got: Array, together: Array, pair: Pair, turn: int
    ) -> None:
        self.number += int(contested.sum())
        both = contested & got.all(axis=1)
        if both.any() and not self._doubled:
            world = int(both.argmax())
            amounts = together[world, pair].tolist()
            self._doubled = (
                f"agents {pair[0]} and {pair[1]} both got {amounts} for the one thing "
                f"they went for in world {world}, turn {turn}"
            )

    def check_once(self) -> None:
        """Raise `Broken` if two agents got one thing."""
        if self._doubled:
            raise Broken(self._doubled)

    def check_winners(self, limit: float) -> None:
        """Raise `Broken` if somebody wins more, or fewer, contests than it loses.

        The order is drawn once per turn for all worlds, so a turn counts as one draw.
        """
        total = self.wins.sum(axis=0)
        noise = np.sqrt((self.wins**2).sum(axis=0))
        error = np.abs(total) / np.maximum(noise, 1)
        worst = int(error.argmax())
        if error[worst] > limit:
            raise Broken(
                f"agent {worst} wins {abs(total[worst]):.0f} contests for one thing "
                f"{'more' if total[worst] > 0 else 'fewer'} than it loses, "
                f"{error[worst]:.0f} standard errors"
            )

"""Fairness: equal seats do equally well, and contests for one thing have one winner.

Seats are compared by the rewards of one player in all of them. In grid games contests are
looked at one by one: two agents go for one thing, only one may get it, and no agent may win
more often than it loses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from rookery.games.base import Game, GameWrapper, Outcome
from rookery.games.conformance.playback import Broken
from rookery.games.gridworld import GridEngine
from rookery.games.gridworld.names import AGENTS
from rookery.specs import Array

LIMIT = 5.0
"""In standard errors; equal seats exceed it about once in a million checks."""

Pair = tuple[int, int]


def equal_seats(game: Game) -> list[tuple[str, list[int]]]:
    """Return the roles with several agents of the same spec, and these agents."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, spec in enumerate(game.agents):
        alike[spec.role, tuple(spec.parts.items()), spec.actions].append(i)
    return [(key[0], members) for key, members in alike.items() if len(members) > 1]


def compare_seats(rewards: Array, members: list[int], label: str) -> None:
    """Raise `Broken` if a seat does better or worse than the mean of all seats.

    Worlds differ in their random numbers, and turns in the order of acting, which all
    worlds share. The standard error includes both.

    Args:
        rewards: (turns, worlds, members).
        members: the agents that are compared.
        label: their role and player, for the message.
    """
    gaps = rewards.astype(np.float64)
    gaps -= gaps.mean(axis=2, keepdims=True)
    mean = gaps.sum(axis=0).mean(axis=0)
    by_world = gaps.sum(axis=0).var(axis=0, ddof=1) / gaps.shape[1]
    by_turn = gaps.mean(axis=1).var(axis=0, ddof=1) * len(gaps)
    error = np.abs(mean) / np.maximum(np.sqrt(by_world + by_turn), 1e-6)
    worst = int(error.argmax())
    if error[worst] > LIMIT:
        raise Broken(
            f"seat {members[worst]} of {label} gets {mean[worst]:+.3g} relative to the "
            f"mean of all seats, {error[worst]:.0f} standard errors"
        )


class Contests(GameWrapper):
    """A grid game in which every contest is recorded; all agents must act in one phase.

    A contest is a turn in which two agents aim at one cell, something in it is gone
    afterwards, and each of them would have been rewarded for it if the other had not
    acted.
    """

    game: GridEngine

    def __init__(self, engine: GridEngine) -> None:
        super().__init__(engine)
        self.number = 0
        self._wins: list[Array] = []
        """Contests won minus contests lost, (agents,) for each turn."""
        self._doubled = ""
        self._agents: tuple[int, ...] = ()
        self._actions = self._targets = np.zeros((0, 0), np.int64)
        self._before: Mapping[str, Array] = {}
        self._things = np.zeros((0, 0), bool)

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Act, and keep the state before it and what the agents aim at."""
        self._agents, self._actions = tuple(agents), actions
        self._before, self._things = self.game.snapshot(), self._find_things()
        super().act(agents, actions)
        self._targets = np.stack([me.target for me in self.game.world.agents])

    def end_turn(self) -> Outcome:
        """End the turn and judge its contests, which leaves the game as it was."""
        outcome = super().end_turn()
        after = self.game.snapshot()
        taken = (self._things & ~self._find_things()) & ~self._before["closing"][:, None]
        wins = np.zeros(len(self.agents))
        for pair in combinations(sorted(self._agents), 2):
            self._judge(pair, taken, outcome.rewards, wins)
        self._wins.append(wins)
        self.game.restore(after)
        return outcome

    def _judge(self, pair: Pair, taken: Array, rewards: Array, wins: Array) -> None:
        """Add the contests of two agents to `wins`."""
        first, second = pair
        cells = self._targets[first]
        rows = np.arange(len(cells))
        contested = taken[rows, cells] & (cells == self._targets[second])
        if not contested.any():
            return
        alone = self._rewards_alone(pair, None)
        contested &= np.all(alone != self._rewards_alone(pair, cells), axis=1)
        got = rewards[:, pair] == alone
        self.number += int(contested.sum())
        doubled = contested & got.all(axis=1)
        if doubled.any() and not self._doubled:
            world = int(doubled.argmax())
            self._doubled = (
                f"agents {first} and {second} both got {rewards[world, pair].tolist()} for "
                f"one thing in world {world}, turn {len(self._wins)}"
            )
        balance = (got[contested, 0].astype(int) - got[contested, 1]).sum()
        wins[first] += balance
        wins[second] -= balance

    def _find_things(self) -> Array:
        """Return which cells hold something other than an agent, (worlds, cells) bool."""
        layers = self.game.layout.layers
        things = [i for i, name in enumerate(layers) if name != AGENTS]
        return np.asarray((self.game.world.layers[things] != 0).any(axis=0))

    def _rewards_alone(self, pair: Pair, cleared: Array | None) -> Array:
        """Return what each of two agents gets if no other agent acts, (worlds, 2).

        Args:
            pair: the two agents.
            cleared: one cell per world to empty before; None for none.
        """
        engine, rewards = self.game, []
        for agent in pair:
            engine.restore(self._before)
            if cleared is not None:
                for name in engine.layout.layers:
                    if name != AGENTS:
                        engine.world.clear(cleared, layer=name)
            for me in engine.world.agents:  # else rules see what they chose before
                me.choose(np.full(engine.worlds, engine.agents[me.number].num_actions))
            column = self._agents.index(agent)
            engine.act((agent,), self._actions[:, column : column + 1])
            rewards.append(engine.end_turn().rewards[:, agent])
        return np.stack(rewards, axis=1)

    def check_once(self) -> None:
        """Raise `Broken` if two agents got one thing."""
        if self._doubled:
            raise Broken(self._doubled)

    def check_winners(self) -> None:
        """Raise `Broken` if an agent wins more, or fewer, contests than it loses.

        The order of acting is drawn once per turn for all worlds, so a turn counts as one
        draw.
        """
        wins = np.stack(self._wins)
        total = wins.sum(axis=0)
        noise = np.sqrt((wins**2).sum(axis=0))
        error = np.abs(total) / np.maximum(noise, 1)
        worst = int(error.argmax())
        if error[worst] > LIMIT:
            raise Broken(
                f"agent {worst} wins {abs(total[worst]):.0f} contests for one thing "
                f"{'more' if total[worst] > 0 else 'fewer'} than it loses, "
                f"{error[worst]:.0f} standard errors"
            )

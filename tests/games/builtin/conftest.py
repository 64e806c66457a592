"""Scripted players of built-in games: build one by hand, or play whole episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rookery.games.gridworld import GridEngine
from rookery.games.loop import GameLoop
from rookery.games.players import Observation, Player
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec


@pytest.fixture(scope="session")
def act() -> Callable[..., int]:
    """Return the action of a new player for one observation of one world."""

    def act(
        kind: type[Player], spec: AgentSpec, settings: Any, view: Any, **memory: Any
    ) -> int:
        player = kind(spec, settings, 1, Stream(0, Purpose.PLAYER, 0))
        for name, value in memory.items():
            player.memory[name][...] = value
        return int(player.act(Observation({"view": view}, np.ones(1, bool), None), 0)[0])

    return act


@pytest.fixture(scope="session")
def play() -> Callable[..., tuple[Any, dict[str, Any]]]:
    """Play an episode in each world; return rewards and counts, (worlds, agents)."""

    def play(
        rules: Any, players: list[type[Player]], worlds: int, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        engine = GridEngine(rules(rules.Settings(**settings)), worlds, seed=0)
        seated = [
            kind(spec, engine.settings, worlds, Stream(0, Purpose.PLAYER, i))
            for i, (kind, spec) in enumerate(zip(players, engine.agents, strict=True))
        ]
        rewards, counts = 0.0, {}
        for turn in GameLoop(engine, seated).turns():
            rewards = rewards + turn.outcome.rewards
            for name, count in turn.outcome.counts.items():
                counts[name] = counts.get(name, 0.0) + count
            if len(turn.ended) == worlds:
                return rewards, counts
        raise AssertionError

    return play

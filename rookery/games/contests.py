"""Who gets what two agents go for: the check that nothing is given twice."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rookery.games.gridworld import GridEngine
from rookery.games.gridworld.rules import AGENTS
from rookery.games.rehearsal import Broken, Rehearsal
from rookery.specs import Array


def double_takings(engine: GridEngine, seed: int, turns: int) -> int:
    """Play on, and return how many contests there were for one thing.

    A contest is a turn in which two agents aim at one cell and what was of worth there
    is gone afterwards. Raises `Broken` if both then got what each gets if it acts alone.
    """
    rehearsal = Rehearsal(engine, seed)
    contests = 0
    for turn in range(turns):
        (phase,) = engine.begin_turn()
        actions = rehearsal.actions(turn, phase, engine.observe(phase))
        before = engine.snapshot()
        worth = _worth(engine)
        engine.act(phase, actions)
        targets = np.stack([me.target for me in engine.world.agents])
        together = engine.end_turn().rewards
        after, left = engine.snapshot(), _worth(engine)
        taken = (worth != 0) & (left == 0) & ~before["closing"][:, None]
        for i, j in combinations(sorted(phase), 2):
            contested = _at(taken, targets[i]) & (targets[i] == targets[j])
            if contested.any():
                contests += int(contested.sum())
                alone = [_alone(engine, before, phase, actions, k) for k in (i, j)]
                _check(contested, together[:, [i, j]], np.stack(alone, 1), (i, j), turn)
        engine.restore(after)
    return contests


def _worth(engine: GridEngine) -> Array:
    """Return what the things in each cell are worth, (worlds, cells)."""
    world, layout = engine.world, engine.layout
    things = [i for i, name in enumerate(layout.layers) if name != AGENTS]
    return np.asarray(layout.values[world.layers[things]].sum(axis=0))


def _at(mask: Array, cells: Array) -> Array:
    return np.asarray(np.take_along_axis(mask, cells[:, None], axis=1)[:, 0])


def _alone(
    engine: GridEngine,
    before: dict[str, Array],
    phase: tuple[int, ...],
    actions: Array,
    agent: int,
) -> Array:
    """Return what an agent gets if nobody else acts in that turn."""
    engine.restore(before)
    place = phase.index(agent)
    engine.act((agent,), actions[:, place : place + 1])
    return np.asarray(engine.end_turn().rewards[:, agent])


def _check(
    contested: Array, together: Array, alone: Array, pair: tuple[int, int], turn: int
) -> None:
    both = contested & (alone != 0).all(axis=1) & (together == alone).all(axis=1)
    if both.any():
        world = int(both.argmax())
        raise Broken(
            f"agents {pair[0]} and {pair[1]} both got {together[world].tolist()} for the "
            f"one thing they went for in world {world}, turn {turn}"
        )

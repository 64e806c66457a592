"""How long saving a cell of a sweep may take, before its machine is taken away."""

from __future__ import annotations

from collections.abc import Iterable

from rookery.algorithms.agents import build_agents
from rookery.runs.log import EVENTS, SAVED, read_lines
from rookery.runs.session import SAVING_SECONDS, SAVING_SECONDS_PER_GIB
from rookery.sweeps.plan import Cell, Plan
from rookery.training.memory_plan import plan_memory


def saving_seconds(plan: Plan) -> float:
    """Return how long saving any cell may take: as a run itself reckons.

    That is estimated from the memory of one cell of every group, and twice what it took at
    most in the cells that have begun.
    """
    one_each = {cell.group.config: cell for cell in plan.cells}
    memory = max(_bytes(cell) for cell in one_each.values())
    estimated = SAVING_SECONDS + SAVING_SECONDS_PER_GIB * memory / 2**30
    return max(estimated, SAVING_SECONDS + 2 * longest_save(plan.cells))


def longest_save(cells: Iterable[Cell]) -> float:
    """Return the seconds that the slowest checkpoint took so far; 0 if there is none."""
    events = (event for cell in cells for event in read_lines(cell.folder / EVENTS))
    saved = (event for event in events if event.get("event") == SAVED)
    return max((event.get("seconds", 0.0) for event in saved), default=0.0)


def _bytes(cell: Cell) -> int:
    config = cell.config
    game = cell.entry.build_guarded(config.game.settings, config.worlds, config.seed)
    try:
        arena = plan_memory(cell.entry, config, game, build_agents(config, game.agents))
        return sum(arena.sizes().values())
    finally:
        game.close()

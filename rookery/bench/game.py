"""How fast games are: the grid engine against a hand-written game, and foreign games.

Everything runs on one core with random actions, and observations are included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from rookery.bench.measure import Report, alternate, rate
from rookery.bench.plain_treasurehunt import PlainTreasurehunt
from rookery.games.base import Game
from rookery.games.registry import find

AGENTS = 3
PARTS = ("begin_turn", "observe", "act", "end_turn")
FOREIGN = ("mpe2.simple_spread_v3", "mpe2.simple_tag_v3")


def run(progress: Callable[[str], None]) -> Report:
    """Measure built-in and foreign games."""
    report = Report()
    for worlds, turns in ((1, 1500), (16, 600), (64, 300)):
        progress(f"treasurehunt in {worlds} worlds")
        _measure_engine(report, worlds, turns)
    for path in FOREIGN:
        progress(path)
        _measure_foreign(report, path)
    return report


def _measure_engine(report: Report, worlds: int, turns: int) -> None:
    steps = worlds * AGENTS * turns
    shares = dict.fromkeys(PARTS, 0.0)
    rates = alternate(
        {
            "engine": lambda: rate(_engine_work(worlds, turns, shares), steps),
            "by hand": lambda: rate(_plain_work(worlds, turns), steps),
        }
    )
    label = f"treasurehunt, {worlds} world{'s' if worlds > 1 else ''}"
    report.add_metric(label, rates["engine"], "agent-steps/s")
    report.add_metric(f"{label}, by hand", rates["by hand"], "agent-steps/s")
    report.ratios[f"{label}: engine / by hand"] = rates["engine"] / rates["by hand"]
    total = sum(shares.values())
    for part, seconds in shares.items():
        report.add_metric(f"{label}: {part}", 100 * seconds / total, "% of the time")


def _engine_work(worlds: int, turns: int, shares: dict[str, float]) -> Callable[[], None]:
    entry = find("treasurehunt")
    settings = entry.settings.model_validate({"agents": AGENTS})
    game = entry.build_guarded(settings, worlds, 1)
    actions = np.random.default_rng(0).integers(0, 4, (turns, worlds, AGENTS))
    return lambda: _play(game, actions, shares)


def _play(game: Game, actions: Any, shares: dict[str, float]) -> None:
    """Play, and add the time of each part of a turn to `shares`."""
    last = time.perf_counter()

    def add_time(part: str) -> None:
        nonlocal last
        now = time.perf_counter()
        shares[part] += now - last
        last = now

    for turn_actions in actions:
        phases = game.begin_turn()
        add_time("begin_turn")
        for phase in phases:
            game.observe(phase)
            add_time("observe")
            game.act(phase, turn_actions[:, phase])
            add_time("act")
        game.end_turn()
        add_time("end_turn")


def _plain_work(worlds: int, turns: int) -> Callable[[], None]:
    game = PlainTreasurehunt(AGENTS, worlds, seed=1)
    actions = np.random.default_rng(0).integers(0, 4, (turns, worlds, AGENTS))

    def work() -> None:
        for turn_actions in actions:
            game.observe()
            game.act(turn_actions)

    return work


def _measure_foreign(report: Report, path: str, worlds: int = 4, turns: int = 500) -> None:
    rates = alternate(
        {
            "rookery": lambda: _wrapped_rate(path, worlds, turns),
            "bare": lambda: _bare_rate(path, worlds, turns),
        }
    )
    report.add_metric(f"{path}, {worlds} worlds", rates["rookery"], "turns/s")
    report.add_metric(f"{path}, bare", rates["bare"], "turns/s")
    overhead = rates["bare"] / rates["rookery"] - 1
    report.add_metric(f"{path}: overhead", 100 * overhead, "%")
    report.ratios[f"{path}: rookery / bare"] = rates["rookery"] / rates["bare"]


def _wrapped_rate(path: str, worlds: int, turns: int) -> float:
    """Return turns of one world per second, without the turns that close an episode."""
    entry = find(f"pettingzoo:{path}")
    game = entry.build_guarded(entry.settings(), worlds, 0)
    sizes = [spec.num_actions for spec in game.agents]
    actions = np.random.default_rng(0).integers(0, sizes, (turns, worlds, len(sizes)))
    played = 0
    started = time.perf_counter()
    for turn_actions in actions:
        for phase in game.begin_turn():
            played += int(game.observe(phase).active[0].sum())
            game.act(phase, turn_actions[:, phase])
        game.end_turn()
    return played / (time.perf_counter() - started)


def _bare_rate(path: str, worlds: int, turns: int) -> float:
    """Return turns per second of the same game, stepped directly."""
    copies = [import_module(path).parallel_env() for _ in range(worlds)]
    for seed, copy in enumerate(copies):
        copy.reset(seed=seed)
    sizes = [copies[0].action_space(agent).n for agent in copies[0].possible_agents]
    actions = np.random.default_rng(0).integers(0, sizes, (turns, worlds, len(sizes)))
    started = time.perf_counter()
    for turn_actions in actions:
        for copy, agent_actions in zip(copies, turn_actions, strict=True):
            copy.step(dict(zip(copy.agents, agent_actions, strict=True)))
            if not copy.agents:
                copy.reset()
    return turns * worlds / (time.perf_counter() - started)

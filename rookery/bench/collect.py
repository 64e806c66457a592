"""How fast experience is collected, compared with a plain loop, on one core.

Collecting is acting, stepping the game and storing rows, without learning. The plain loop
plays one world and computes one agent at a time. Rookery plays whole rounds in the memory
of a real run: rows are sealed and hashed, episodes counted, and a snapshot is published at
every boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.actor.policies import PublishedWeights, Weights
from rookery.actor.process import ActorProcess
from rookery.algorithms.common.group import Inputs
from rookery.algorithms.nets.layers import Features
from rookery.bench.measure import Report, alternate, rate
from rookery.bench.plain_iqn import PlainAgent, PlainLoop
from rookery.config.run import Config
from rookery.games.registry import Entry
from rookery.replay.drawing import RowObservations
from rookery.runs.configure import configure
from rookery.training.executors import InProcess
from rookery.training.training import Training

GAME = "treasurehunt"
GAME_PARTS = ("begin_turn", "observe", "act", "end_turn")
EPSILON = 0.02


@dataclass(frozen=True)
class Sizes:
    """The size of the networks and of the measurements."""

    agents: int = 3
    width: int = 250
    quantiles: int = 12
    frames: int = 5
    turns: int = 50
    """Turns of a round."""
    worlds: int = 16
    rounds: int = 4
    """Rounds of all worlds in one measurement."""
    single_rounds: int = 12
    """Rounds of one world, by Rookery and by the plain loop."""
    repeats: int = 5


FULL = Sizes()


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Measure collecting with noisy networks and with epsilon-greedy ones."""
    report = Report()
    for exploring, noisy in (("noisy", True), ("epsilon-greedy", False)):
        _measure(report, sizes, noisy, exploring, progress)
    return report


SETTINGS = {
    "network__depth": 1,
    "network__channels": 0,
    "iqn__double": True,
    "iqn__dueling": True,
    "n_step": 3,
    "batch_size": 64,
    "replay__kind": "uniform",
    "target__every": 1,
    "gradient__accumulate": 1,
}
"""Fixed here, so that results do not change with the defaults."""


def configured(worlds: int, agents: int, **settings: Any) -> tuple[Entry, Config]:
    """Return treasurehunt and its configuration; dots in keys are written as `__`."""
    merged = SETTINGS | settings | {"worlds": worlds, "game__agents": agents}
    return configure(
        GAME, settings={key.replace("__", "."): value for key, value in merged.items()}
    )


def network_settings(
    width: int, quantiles: int, frames: int, noisy: bool
) -> dict[str, Any]:
    """Return settings of IQN with the same number of quantiles in learning and acting."""
    return {
        "network__width": width,
        "network__quantiles": quantiles,
        "iqn__acting_quantiles": quantiles,
        "iqn__noisy": noisy,
        "frames": frames,
    }


def _measure(
    report: Report,
    sizes: Sizes,
    noisy: bool,
    exploring: str,
    progress: Callable[[str], None],
) -> None:
    many, single = f"{sizes.worlds} worlds", "1 world"
    progress(f"collecting, {exploring}: {many}, {single} and a plain loop")
    ours = {many: Rounds(sizes, noisy, sizes.worlds), single: Rounds(sizes, noisy, 1)}
    plain = plain_loop(sizes, noisy)
    turns = sizes.single_rounds * sizes.turns
    rates = alternate(
        {
            many: lambda: ours[many].rate(sizes.rounds),
            single: lambda: ours[single].rate(sizes.single_rounds),
            "plain": lambda: rate(lambda: plain.play(turns), turns * sizes.agents),
        },
        sizes.repeats,
    )
    report.add_metric(f"{exploring}, plain loop", rates["plain"], "agent-steps/s")
    for name, rounds in ours.items():
        report.add_metric(f"{exploring}, {name}", rates[name], "agent-steps/s")
        report.ratios[f"collect, {exploring}, {name} / plain"] = (
            rates[name] / rates["plain"]
        )
        for part, share in rounds.shares(sizes.rounds).items():
            report.add_metric(f"{exploring}, {name}: {part}", 100 * share, "% of the time")
        rounds.close()


class Rounds:
    """Rounds played as in a run, with the initial weights of every agent."""

    def __init__(self, sizes: Sizes, noisy: bool, worlds: int) -> None:
        entry, config = _configure(sizes, noisy, worlds)
        self._training, self._frames = Training.build(entry, config), sizes.frames
        self._actor_process, self._weights = first_actor(self._training)
        self._turns, self._worlds = sizes.turns, worlds
        self._steps = sizes.turns * worlds * sizes.agents
        self._number = 0
        self.play(1)

    def play(self, rounds: int) -> None:
        """Play some rounds."""
        for _ in range(rounds):
            self._number += 1
            self._actor_process.actor.play_round(self._number, self._weights)
            self._actor_process.complete(self._number)

    def rate(self, rounds: int) -> float:
        """Return agent-steps per second."""
        return rate(lambda: self.play(rounds), rounds * self._steps)

    def shares(self, rounds: int) -> dict[str, float]:
        """Return how the time is divided; slows down all rounds after it."""
        game = _time_methods(self._actor_process.game, GAME_PARTS)
        acting = _time_methods(self._actor_process.policies, ("act",))
        started = time.perf_counter()
        self.play(rounds)
        total = time.perf_counter() - started
        stacking = self._stacking_seconds() * rounds * self._turns
        return {
            "game": game[0] / total,
            "stacking": stacking / total,
            "acting": (acting[0] - stacking) / total,
            "writing and the rest": (total - game[0] - acting[0]) / total,
        }

    def _stacking_seconds(self, times: int = 50) -> float:
        """Return the seconds that stacking all observations of one turn takes."""
        arena, agents = self._training.arena, self._training.agents
        worlds = np.arange(self._worlds)
        turns = np.full(self._worlds, self._actor_process.actor.state.turn - 1)
        features = Features(agents[0].spec, self._frames)
        inputs = Inputs(features, len(agents), self._worlds)
        rows = [arena.rows(agent.id) for agent in agents]
        observations = [RowObservations(own, turns, worlds, self._frames) for own in rows]
        started = time.perf_counter()
        for _ in range(times):
            inputs.fill(observations)
        return (time.perf_counter() - started) / times

    def close(self) -> None:
        """Free the memory."""
        self._training.close()


def first_actor(training: Training) -> tuple[ActorProcess, Weights]:
    """Return the actor of a run, and the weights that agents start with."""
    training.publish_initial_states()
    weights = PublishedWeights(training.arena, training.agents).exact(0)
    return InProcess(training.parts).actor_processes[0], weights


def plain_loop(sizes: Sizes, noisy: bool) -> PlainLoop:
    """Return a plain loop that has played a round to warm up."""
    entry, config = _configure(sizes, noisy, worlds=1)
    game = entry.build(config.game.settings, 1, config.seed)
    agents = [PlainAgent(spec, config.agent(spec.id), seed=0) for spec in game.agents]
    loop = PlainLoop(game, agents)
    loop.play(sizes.turns)
    return loop


def _configure(sizes: Sizes, noisy: bool, worlds: int) -> tuple[Entry, Config]:
    return configured(
        worlds,
        sizes.agents,
        **network_settings(sizes.width, sizes.quantiles, sizes.frames, noisy),
        turns_per_round=sizes.turns,
        epsilon__start=EPSILON,
        epsilon__end=EPSILON,
    )


def _time_methods(owner: object, names: Sequence[str]) -> list[float]:
    """Time some methods of an object; return a list with the total seconds so far."""
    spent = [0.0]

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            started = time.perf_counter()
            result = method(*arguments)
            spent[0] += time.perf_counter() - started
            return result

        return call

    for name in names:
        setattr(owner, name, timed(getattr(owner, name)))
    return spent

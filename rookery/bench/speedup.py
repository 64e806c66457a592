"""The speed-up of several processes over one process and over a plain loop.

Every contender plays the same number of turns and makes the same number of updates with
the same networks. Processes stay alive between measurements, and contenders alternate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rookery.bench.collect import configured, network_settings
from rookery.bench.limit import Pair
from rookery.bench.measure import Report, alternate, rate
from rookery.bench.plain_iqn import PlainAgent, PlainLoop
from rookery.config.run import Config
from rookery.games.registry import Entry
from rookery.protocol.arena import ACTOR
from rookery.shm.counters import time_of
from rookery.shm.heartbeat import KINDS
from rookery.training.executors import ProcessPool
from rookery.training.training import Round, Training

MANY = 1_000_000
"""More rounds than are ever measured."""
AHEAD = 3
"""Rounds that processes can have finished while others were measured, plus one."""


@dataclass(frozen=True)
class Case:
    """A workload, and the number of workers."""

    name: str
    workers: int
    agents: int
    width: int
    quantiles: int
    worlds: int
    share: float | None
    """Time of learning over playing; sets the number of updates. None: the default."""
    plain: bool = False
    """Whether the plain loop is measured as well."""


@dataclass(frozen=True)
class Sizes:
    """The cases, and the size of the measurements."""

    cases: tuple[Case, ...]
    turns: int = 50
    seconds: float = 2.0
    """Approximate length of a measurement of one process."""
    repeats: int = 5


FULL = Sizes(
    (
        Case("even", 1, 3, 128, 8, 32, share=1.0),
        Case("learning 4x", 2, 8, 250, 12, 16, share=4.0),
        Case("demo", 2, 3, 128, 8, 16, share=None, plain=True),
    )
)


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Measure every case."""
    report, pair = Report(), Pair()
    try:
        for case in sizes.cases:
            progress(f"{case.name}: choosing the number of updates")
            updates = _updates(case, sizes)
            progress(f"{case.name}: one process and several")
            _measure(report, case, sizes, updates, pair)
            progress(f"{case.name}: where the time goes")
            _shares(report, case, sizes, updates)
    finally:
        pair.close()
    return report


def _config(
    case: Case, sizes: Sizes, updates: int | None, **changes: Any
) -> tuple[Entry, Config]:
    settings = network_settings(case.width, case.quantiles, 5, noisy=False)
    if case.share is not None:
        settings["replay__capacity"] = 100_000
    if updates is not None:
        settings["updates_per_round"] = updates
    settings |= {"rounds": MANY, "turns_per_round": sizes.turns, "replay__warmup": 500}
    return configured(case.worlds, case.agents, **(settings | changes))


def _updates(case: Case, sizes: Sizes) -> int:
    """Return the number of updates that gives the case's ratio of learning to playing."""
    if case.share is None:
        return _config(case, sizes, None)[1].updates_per_round
    trial_updates = 8
    rounds = Rounds(*_config(case, sizes, trial_updates, workers=0))
    results = [rounds.next() for _ in range(6)]
    rounds.close()
    results.sort(key=lambda result: result.learned.seconds / result.played.seconds)
    median = results[len(results) // 2]
    per_update = median.learned.seconds / trial_updates
    return max(1, round(case.share * median.played.seconds / per_update))


class Rounds:
    """A run whose rounds are measured a few at a time."""

    def __init__(self, entry: Entry, config: Config, timed: bool = False) -> None:
        self.training = Training.build(entry, config, timed=timed)
        self._rounds: Iterator[Round] = self.training.rounds()
        while not self._has_updates(self.next()):
            pass

    @staticmethod
    def _has_updates(result: Round) -> bool:
        return all(metrics["updates"] > 0 for metrics in result.learned.metrics.values())

    def next(self) -> Round:
        """Run one round."""
        return next(self._rounds)

    def rate(self, rounds: int) -> float:
        """Return rounds per second, without rounds finished since the last measurement."""
        for _ in range(AHEAD):
            self.next()
        started = time.perf_counter()
        for _ in range(rounds):
            self.next()
        elapsed = time.perf_counter() - started
        if isinstance(self.training.executor.now, ProcessPool):
            self.training.executor.now.settle()  # so as not to disturb the next contender
        return rounds / elapsed

    def close(self) -> None:
        """End the run."""
        self._rounds.close()  # type: ignore[attr-defined]
        self.training.close()


def _measure(report: Report, case: Case, sizes: Sizes, updates: int, pair: Pair) -> None:
    ours = {"workers=0": Rounds(*_config(case, sizes, updates, workers=0))}
    for schedule in ("sync", "pipelined", "async"):
        workers = {"workers": case.workers, "schedule": schedule}
        ours[schedule] = Rounds(*_config(case, sizes, updates, **workers))
    rounds = max(2, round(sizes.seconds * ours["workers=0"].rate(3)))
    contenders: dict[str, Callable[[], float]] = {
        name: partial(run.rate, rounds) for name, run in ours.items()
    }
    contenders |= {"one": partial(pair.rate, 1), "two": partial(pair.rate, 2)}
    if case.plain:
        contenders["plain"] = partial(rate, _plain(case, sizes, updates), 1)
    rates = alternate(contenders, sizes.repeats)
    for run in ours.values():
        run.close()
    _report(report, case, rates, updates)


def _plain(case: Case, sizes: Sizes, updates: int) -> Callable[[], None]:
    """Return a function that does the work of one round in a plain loop."""
    entry, config = _config(replace(case, worlds=1), sizes, updates)
    game = entry.build(config.game.settings, 1, config.seed)
    agents = [PlainAgent(spec, config.agent(spec.id), seed=0) for spec in game.agents]
    loop = PlainLoop(game, agents)
    loop.play(500)

    def work() -> None:
        loop.play(sizes.turns * case.worlds)
        for agent in agents:
            for _ in range(updates):
                agent.learn()

    return work


def _report(report: Report, case: Case, rates: dict[str, float], updates: int) -> None:
    limit = rates["two"] / rates["one"]
    report.add_metric(f"{case.name}: updates of an agent in a round", updates, "updates")
    report.add_metric(f"{case.name}: the machine's limit", limit, "x")
    for name in ("workers=0", "sync", "pipelined", "async"):
        report.add_metric(f"{case.name}: {name}", rates[name], "rounds/s")
    for name in ("sync", "pipelined", "async"):
        gain = rates[name] / rates["workers=0"]
        report.ratios[f"{case.name}: {name}, {case.workers} workers / workers=0"] = gain
        report.add_metric(
            f"{case.name}: {name}, share of the limit", 100 * gain / limit, "%"
        )
    report.ratios[f"{case.name}: async / pipelined"] = rates["async"] / rates["pipelined"]
    if case.plain:
        report.add_metric(f"{case.name}: plain loop", rates["plain"], "rounds/s")
        for name in ("workers=0", "pipelined"):
            ratio = rates[name] / rates["plain"]
            report.ratios[f"{case.name}: {name} / plain loop"] = ratio


def _shares(report: Report, case: Case, sizes: Sizes, updates: int) -> None:
    """Report how every process spends its time, and its memory."""
    workers = {"workers": case.workers, "schedule": "pipelined"}
    rounds = Rounds(*_config(case, sizes, updates, **workers), timed=True)
    rounds.rate(1)
    before, started = _times(rounds), time.perf_counter()
    for _ in range(10):
        rounds.next()
    after, elapsed = _times(rounds), time.perf_counter() - started
    for role, kinds in after.items():
        spent = {kind: (kinds[kind] - before[role][kind]) / 1e9 for kind in kinds}
        work = "playing" if role.startswith(ACTOR) else "learning"
        shares = {work: spent["work"] / elapsed, "waiting": spent["wait"] / elapsed}
        for kind, share in shares.items():
            report.add_metric(f"{case.name}: {role}: {kind}", 100 * share, "% of the time")
        protocol = 100 * spent["protocol"] / max(spent["processor"], 1e-9)
        name = f"{case.name}: {role}: protocol calls"
        report.add_metric(name, protocol, "% of its processor time")
    _memory(report, case, rounds)
    rounds.close()


def _times(rounds: Rounds) -> dict[str, dict[str, int]]:
    counters, pool = rounds.training.arena.counters, rounds.training.executor.now
    assert isinstance(pool, ProcessPool)
    return {
        role: {kind: counters.load(time_of(role, kind)) for kind in KINDS}
        | {"processor": processor_time(pid)}
        for role, pid in pool.supervisor.processes().items()
    }


def processor_time(pid: int) -> int:
    """Return the processor time of a process, in nanoseconds."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 10**9 // os.sysconf("SC_CLK_TCK")


def _memory(report: Report, case: Case, rounds: Rounds) -> None:
    pool = rounds.training.executor.now
    assert isinstance(pool, ProcessPool)
    sizes = {role: own_bytes(pid) for role, pid in pool.supervisor.processes().items()}
    for role, size in sizes.items():
        report.add_metric(f"{case.name}: {role}: memory (PSS)", size / 2**20, "MiB")
    replays = rounds.training.arena.sizes()["replays"]
    each = (sum(sizes.values()) - replays) / case.agents / 2**20
    report.add_metric(f"{case.name}: memory per agent, without its replay", each, "MiB")


def own_bytes(pid: int) -> int:
    """Return the memory of a process, with its part of shared pages (PSS)."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(x.split()[1]) << 10 for x in lines if x.startswith("Pss:"))

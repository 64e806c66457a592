"""What processes gain: the same work by a plain loop, by one process, and by several.

Every contender plays the same number of turns and makes the same number of updates with
the same networks. Processes stay alive between measurements, and contenders take turns.
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
"""Rounds that processes may have done while others were measured, and one more."""


@dataclass(frozen=True)
class Case:
    """Some work, and who is to do it."""

    name: str
    workers: int
    agents: int
    width: int
    quantiles: int
    worlds: int
    share: float | None
    """Learning over playing; updates are chosen so. None: as many as by default."""
    plain: bool = False
    """Whether the plain loop is measured, too."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    cases: tuple[Case, ...]
    turns: int = 50
    seconds: float = 2.0
    """About how long one measurement of one process takes."""
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
            progress(f"{case.name}: one process, and several")
            _measure(report, case, sizes, updates, pair)
            progress(f"{case.name}: where the time goes")
            _shares(report, case, sizes, updates)
    finally:
        pair.close()
    return report


def _config(
    case: Case, sizes: Sizes, updates: int | None, **more: Any
) -> tuple[Entry, Config]:
    settings = network_settings(case.width, case.quantiles, 5, noisy=False)
    if case.share is not None:
        settings["replay__capacity"] = 100_000
    if updates is not None:
        settings["updates_per_round"] = updates
    about = {"rounds": MANY, "turns_per_round": sizes.turns, "replay__warmup": 500}
    return configured(case.worlds, case.agents, **(settings | about | more))


def _updates(case: Case, sizes: Sizes) -> int:
    """Return how many updates make learning cost as much as is wanted."""
    if case.share is None:
        return _config(case, sizes, None)[1].updates_per_round
    tried = 8
    rounds = Rounds(*_config(case, sizes, tried, workers=0))
    found = [rounds.next() for _ in range(6)]
    rounds.close()
    found.sort(key=lambda one: one.learned.seconds / one.played.seconds)
    middle = found[len(found) // 2]
    per_update = middle.learned.seconds / tried
    return max(1, round(case.share * middle.played.seconds / per_update))


class Rounds:
    """A run whose rounds are measured, some now and some later."""

    def __init__(self, entry: Entry, config: Config, timed: bool = False) -> None:
        self.training = Training.build(entry, config, timed=timed)
        self._rounds: Iterator[Round] = self.training.rounds()
        while not self._has_updates(self.next()):
            pass

    @staticmethod
    def _has_updates(one: Round) -> bool:
        return all(figures["updates"] > 0 for figures in one.learned.metrics.values())

    def next(self) -> Round:
        """Go on by one round."""
        return next(self._rounds)

    def rate(self, rounds: int) -> float:
        """Return rounds per second; those that were made in the pause do not count."""
        for _ in range(AHEAD):
            self.next()
        started = time.perf_counter()
        for _ in range(rounds):
            self.next()
        elapsed = time.perf_counter() - started
        if isinstance(self.training.executor.now, ProcessPool):
            self.training.executor.now.settle()  # so as not to disturb who comes next
        return rounds / elapsed

    def close(self) -> None:
        """End it."""
        self._rounds.close()  # type: ignore[attr-defined]
        self.training.close()


def _measure(report: Report, case: Case, sizes: Sizes, updates: int, pair: Pair) -> None:
    ours = {"workers=0": Rounds(*_config(case, sizes, updates, workers=0))}
    for schedule in ("sync", "pipelined", "async"):
        chosen = {"workers": case.workers, "schedule": schedule}
        ours[schedule] = Rounds(*_config(case, sizes, updates, **chosen))
    rounds = max(2, round(sizes.seconds * ours["workers=0"].rate(3)))
    contenders: dict[str, Callable[[], float]] = {
        name: partial(one.rate, rounds) for name, one in ours.items()
    }
    contenders |= {"one": partial(pair.rate, 1), "two": partial(pair.rate, 2)}
    if case.plain:
        contenders["plain"] = partial(rate, _plain(case, sizes, updates), 1)
    rates = alternate(contenders, sizes.repeats)
    for one in ours.values():
        one.close()
    _report(report, case, rates, updates)


def _plain(case: Case, sizes: Sizes, updates: int) -> Callable[[], None]:
    """Return one round of the plain loop: as many turns, and as many updates."""
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
    report.figure(f"{case.name}: updates of an agent in a round", updates, "updates")
    report.figure(f"{case.name}: the machine's limit", limit, "x")
    for name in ("workers=0", "sync", "pipelined", "async"):
        report.figure(f"{case.name}: {name}", rates[name], "rounds/s")
    for name in ("sync", "pipelined", "async"):
        gain = rates[name] / rates["workers=0"]
        report.ratios[f"{case.name}: {name}, {case.workers} workers / workers=0"] = gain
        report.figure(f"{case.name}: {name}, share of the limit", 100 * gain / limit, "%")
    report.ratios[f"{case.name}: async / pipelined"] = rates["async"] / rates["pipelined"]
    if case.plain:
        report.figure(f"{case.name}: plain loop", rates["plain"], "rounds/s")
        for name in ("workers=0", "pipelined"):
            ratio = rates[name] / rates["plain"]
            report.ratios[f"{case.name}: {name} / plain loop"] = ratio


def _shares(report: Report, case: Case, sizes: Sizes, updates: int) -> None:
    """Say what every process does with its time and how much memory it takes."""
    chosen = {"workers": case.workers, "schedule": "pipelined"}
    rounds = Rounds(*_config(case, sizes, updates, **chosen), timed=True)
    rounds.rate(1)
    before, started = _times(rounds), time.perf_counter()
    for _ in range(10):
        rounds.next()
    after, elapsed = _times(rounds), time.perf_counter() - started
    for role, kinds in after.items():
        spent = {kind: (kinds[kind] - before[role][kind]) / 1e9 for kind in kinds}
        doing = "playing" if role == ACTOR else "learning"
        shown = {doing: spent["work"] / elapsed, "waiting": spent["wait"] / elapsed}
        for kind, part in shown.items():
            report.figure(f"{case.name}: {role}: {kind}", 100 * part, "% of the time")
        protocol = 100 * spent["protocol"] / max(spent["processor"], 1e-9)
        name = f"{case.name}: {role}: protocol calls"
        report.figure(name, protocol, "% of its processor time")
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
    """Return the nanoseconds that a process has computed."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 10**9 // os.sysconf("SC_CLK_TCK")


def _memory(report: Report, case: Case, rounds: Rounds) -> None:
    pool = rounds.training.executor.now
    assert isinstance(pool, ProcessPool)
    sizes = {role: own_bytes(pid) for role, pid in pool.supervisor.processes().items()}
    for role, size in sizes.items():
        report.figure(f"{case.name}: {role}: memory (PSS)", size / 2**20, "MiB")
    replays = rounds.training.arena.sizes()["replays"]
    each = (sum(sizes.values()) - replays) / case.agents / 2**20
    report.figure(f"{case.name}: memory per agent, without its replay", each, "MiB")


def own_bytes(pid: int) -> int:
    """Return a process's share of memory: its own, and its part of what is shared."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(x.split()[1]) << 10 for x in lines if x.startswith("Pss:"))

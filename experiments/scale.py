"""What agents and worlds cost: an agent's update, an agent's step, and memory.

    python experiments/scale.py [--out FILE.json] [--agents 1 2 4 8 …] [--worlds 1 4 16 64]

Every number of agents takes turns with the reference of 8, so that a ratio compares the
same minutes of a shared machine. A table in Markdown is printed for the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from rookery.bench.collect import configured, network_settings
from rookery.bench.measure import Report, alternate
from rookery.bench.speedup import AHEAD, MANY, Rounds, own_bytes
from rookery.cli.output import print_report
from rookery.training.executors import ProcessPool

WORKERS = 2
QUANTILES, FRAMES = 8, 5
EPSILON = 0.02
MOST_BYTES = 1.5e9
"""What a run of 64 agents may take besides replays."""
MOST_COST = 1.1
"""What an agent's update may cost, over the cost in the company of the reference."""

IDLE = {"updates_per_round": 1, "batch_size": 1}
"""Hardly any learning."""
PATIENCE = 0.05
SIMPLE = ("reference", "width", "turns", "updates", "rounds", "repeats")
"""Sizes that are one number."""

console = Console()


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    agents: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    worlds: tuple[int, ...] = (1, 4, 16, 64)
    reference: int = 8
    width: int = 64
    turns: int = 50
    updates: int = 25
    rounds: int = 4
    repeats: int = 5


def main() -> None:
    """Measure, and report."""
    words = parse()
    chosen = {name: getattr(words, name) for name in SIMPLE}
    sizes = Sizes(tuple(words.agents), tuple(words.worlds), **chosen)
    if words.weigh:
        print(json.dumps(weigh(sizes, words.weigh)))
        return
    report = Report()
    again = [f"--{name}={value}" for name, value in chosen.items()]
    weigh_all(report, sizes, again)
    learn(report, sizes)
    steps = play(report, sizes)
    print_report(console, report)
    print(f"\n{markdown(steps, sizes)}")
    say_limits(report, sizes)
    if words.out:
        text = json.dumps({**report.to_json(), "steps": steps}, indent=2)
        words.out.write_text(text + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    parser.add_argument("--agents", type=int, nargs="+", default=Sizes.agents)
    parser.add_argument("--worlds", type=int, nargs="+", default=Sizes.worlds)
    parser.add_argument("--weigh", type=int, help=argparse.SUPPRESS)
    for name in SIMPLE:
        parser.add_argument(f"--{name}", type=int, default=getattr(Sizes, name))
    return parser.parse_args()


def start(sizes: Sizes, agents: int, worlds: int = 16, **more: Any) -> Rounds:
    """Return a run that has begun to learn."""
    rows = sizes.turns * worlds
    settings = network_settings(sizes.width, QUANTILES, FRAMES, noisy=False)
    settings |= {"rounds": MANY, "turns_per_round": sizes.turns, "schedule": "pipelined"}
    settings |= {"updates_per_round": sizes.updates, "batch_size": 64}
    settings |= {"epsilon__start": EPSILON, "epsilon__end": EPSILON}
    # Full after three rounds: memory that was never written to would not be counted.
    settings |= {"replay__capacity": max(500, 2 * rows), "replay__warmup": 1}
    return Rounds(*configured(worlds, agents, **(settings | more)))


# Learning.


def learn(report: Report, sizes: Sizes) -> None:
    """Measure an agent's update in companies of several sizes, beside the reference."""
    for workers in (0, WORKERS):
        title = f"{workers} workers" if workers else "one process"
        reference = start(sizes, sizes.reference, workers=workers)
        for agents in sizes.agents:
            console.print(f"learning, {title}: {agents} agents")
            same = agents == sizes.reference
            mine = reference if same else start(sizes, agents, workers=min(workers, agents))
            costs = alternate(
                {
                    "mine": partial(update_cost, mine, agents, sizes),
                    "theirs": partial(update_cost, reference, sizes.reference, sizes),
                },
                sizes.repeats,
            )
            name = f"{title}: an update, {agents} agents"
            report.ratios[f"{name} / {sizes.reference}"] = costs["mine"] / costs["theirs"]
            report.figure(name, 1e6 * costs["mine"], "µs per agent and update")
            if not same:
                mine.close()
        reference.close()


def update_cost(rounds: Rounds, agents: int, sizes: Sizes) -> float:
    """Return seconds per agent and update.

    In one process that is the time of learning. In several it is that of whole rounds, for
    playing and learning go on side by side.
    """
    updates = agents * sizes.updates
    if isinstance(rounds.training.executor.now, ProcessPool):
        rate = rounds.rate(sizes.rounds)
        settle(rounds)
        return 1.0 / rate / updates
    found = [rounds.next().learned.seconds for _ in range(sizes.rounds)]
    return statistics.median(found) / updates


def settle(rounds: Rounds) -> None:
    """Wait until nobody works any more: processes go on to the round after the next."""
    schedule, last = rounds.training.schedule, rounds.next().number
    while not schedule.wait_complete(last + 1, PATIENCE):
        pass


# Memory.


def weigh_all(report: Report, sizes: Sizes, words: Sequence[str]) -> None:
    """Report how much memory runs take, without replays.

    Each is started by a process of its own: this one also holds what it measured before.
    """
    for agents in sizes.agents:
        console.print(f"memory: {agents} agents")
        command = [sys.executable, __file__, *words, "--weigh", str(agents)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        name, rest = f"memory, {agents} agents", found["all"] - found["replays"]
        report.ratios[f"{name}, without replays / 1.5 GB"] = rest / MOST_BYTES
        report.figure(f"{name}, without replays", rest / 2**20, "MiB (PSS)")
        report.figure(f"{name}, replays", found["replays"] / 2**20, "MiB")
        for role, taken in found["processes"].items():
            report.figure(f"{name}, {role}", taken / 2**20, "MiB (PSS)")


def weigh(sizes: Sizes, agents: int) -> dict[str, Any]:
    """Return how many bytes all processes of a run take."""
    rounds = start(sizes, agents, workers=min(WORKERS, agents))
    for _ in range(2 * AHEAD):  # until every replay is full
        rounds.next()
    pool = rounds.training.executor.now
    assert isinstance(pool, ProcessPool)
    every = {"main": os.getpid(), **pool.supervisor.processes()}
    taken = {role: own_bytes(pid) for role, pid in every.items()}
    replays = rounds.training.arena.sizes()["replays"]
    rounds.close()
    return {"all": sum(taken.values()), "replays": replays, "processes": taken}


# Playing.


def play(report: Report, sizes: Sizes) -> dict[str, dict[str, float]]:
    """Return the cost of an agent's step in µs, by agents and by worlds."""
    steps: dict[str, dict[str, float]] = {}
    for agents in sizes.agents:
        console.print(f"playing: {agents} agents in {list(sizes.worlds)} worlds")
        runs = {w: start(sizes, agents, w, workers=0, **IDLE) for w in sizes.worlds}
        costs = alternate(
            {str(w): partial(step_cost, one, agents * w, sizes) for w, one in runs.items()},
            sizes.repeats,
        )
        for one in runs.values():
            one.close()
        steps[str(agents)] = {worlds: 1e6 * cost for worlds, cost in costs.items()}
        first, *_, last = sizes.worlds
        ratio = costs[str(last)] / costs[str(first)]
        report.ratios[f"a step, {agents} agents: {last} worlds / {first}"] = ratio
    return steps


def step_cost(rounds: Rounds, places: int, sizes: Sizes) -> float:
    """Return seconds per agent and step of playing, with what acting and storing cost."""
    found = [rounds.next().played.seconds for _ in range(sizes.rounds)]
    return statistics.median(found) / (places * sizes.turns)


# Showing.


def markdown(steps: dict[str, dict[str, float]], sizes: Sizes) -> str:
    """Return the cost of a step as a table."""
    lines = [
        row("agents", (f"{worlds} worlds" for worlds in sizes.worlds)),
        row("---", ("---:" for _ in sizes.worlds)),
    ]
    for agents, costs in steps.items():
        lines.append(row(agents, (f"{cost:.1f} µs" for cost in costs.values())))
    return "\n".join(lines)


def row(first: str, rest: Iterable[str]) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join([first, *rest])} |"


def say_limits(report: Report, sizes: Sizes) -> None:
    """Say whether the largest company costs what it may."""
    most = max(sizes.agents)
    for name, ratio in report.ratios.items():
        limit = None
        if f"an update, {most} agents /" in name:
            limit = MOST_COST
        elif name.startswith(f"memory, {most} agents"):
            limit = 1.0
        if limit is not None:
            console.print(f"{name}: {ratio:.2f} (wanted: at most {limit})", highlight=False)


if __name__ == "__main__":
    main()

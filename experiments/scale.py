"""How cost grows with agents and worlds: an update, a turn of an agent, and memory.

    python experiments/scale.py [--out FILE.json] [--agents 1 2 4 8 …] [--worlds 1 4 16 64]

Every number of agents alternates with the reference of 8, so that a ratio compares
measurements of the same minutes. A Markdown table is printed for the documentation.
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
"""Largest acceptable memory of a run without its replays."""
MOST_COST = 1.1
"""Largest acceptable cost of an agent's update, relative to the reference."""

IDLE = {"updates_per_round": 1, "batch_size": 1}
"""Almost no learning."""
PATIENCE = 0.05
SIMPLE = ("reference", "width", "turns", "updates", "rounds", "repeats")
"""Sizes that are a single number."""

console = Console()


@dataclass(frozen=True)
class Sizes:
    """The size of the measurements."""

    agents: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    worlds: tuple[int, ...] = (1, 4, 16, 64)
    reference: int = 8
    width: int = 64
    turns: int = 50
    updates: int = 25
    rounds: int = 4
    repeats: int = 5


def main() -> None:
    """Measure and report."""
    options = parse()
    simple = {name: getattr(options, name) for name in SIMPLE}
    sizes = Sizes(tuple(options.agents), tuple(options.worlds), **simple)
    if options.weigh:
        print(json.dumps(weigh(sizes, options.weigh)))
        return
    report = Report()
    arguments = [f"--{name}={value}" for name, value in simple.items()]
    weigh_all(report, sizes, arguments)
    learn(report, sizes)
    steps = play(report, sizes)
    print_report(console, report)
    print(f"\n{markdown(steps, sizes)}")
    print_limits(report, sizes)
    if options.out:
        text = json.dumps({**report.to_json(), "steps": steps}, indent=2)
        options.out.write_text(text + "\n", "utf-8")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--agents", type=int, nargs="+", default=Sizes.agents)
    parser.add_argument("--worlds", type=int, nargs="+", default=Sizes.worlds)
    parser.add_argument("--weigh", type=int, help=argparse.SUPPRESS)
    for name in SIMPLE:
        parser.add_argument(f"--{name}", type=int, default=getattr(Sizes, name))
    return parser.parse_args()


def start(sizes: Sizes, agents: int, worlds: int = 16, **changes: Any) -> Rounds:
    """Return a run whose agents have started to learn."""
    rows = sizes.turns * worlds
    settings = network_settings(sizes.width, QUANTILES, FRAMES, noisy=False)
    settings |= {"rounds": MANY, "turns_per_round": sizes.turns, "schedule": "pipelined"}
    settings |= {"updates_per_round": sizes.updates, "batch_size": 64}
    settings |= {"epsilon__start": EPSILON, "epsilon__end": EPSILON}
    # Full after three rounds: pages that were never written would not be counted.
    settings |= {"replay__capacity": max(500, 2 * rows), "replay__warmup": 1}
    return Rounds(*configured(worlds, agents, **(settings | changes)))


# Learning.


def learn(report: Report, sizes: Sizes) -> None:
    """Measure the cost of an update for each number of agents, against the reference."""
    for workers in (0, WORKERS):
        title = f"{workers} workers" if workers else "one process"
        reference = start(sizes, sizes.reference, workers=workers)
        for agents in sizes.agents:
            console.print(f"learning, {title}: {agents} agents")
            is_reference = agents == sizes.reference
            run = (
                reference
                if is_reference
                else start(sizes, agents, workers=min(workers, agents))
            )
            costs = alternate(
                {
                    "run": partial(update_cost, run, agents, sizes),
                    "reference": partial(update_cost, reference, sizes.reference, sizes),
                },
                sizes.repeats,
            )
            name = f"{title}: an update, {agents} agents"
            report.ratios[f"{name} / {sizes.reference}"] = costs["run"] / costs["reference"]
            report.add_metric(name, 1e6 * costs["run"], "µs per agent and update")
            if not is_reference:
                run.close()
        reference.close()


def update_cost(rounds: Rounds, agents: int, sizes: Sizes) -> float:
    """Return seconds per agent and update.

    In one process that is the time of learning. In several it is the time of whole rounds,
    because playing and learning overlap.
    """
    updates = agents * sizes.updates
    if isinstance(rounds.training.executor.now, ProcessPool):
        rate = rounds.rate(sizes.rounds)
        settle(rounds)
        return 1.0 / rate / updates
    seconds = [rounds.next().learned.seconds for _ in range(sizes.rounds)]
    return statistics.median(seconds) / updates


def settle(rounds: Rounds) -> None:
    """Wait until all processes are idle; they work up to two rounds ahead."""
    schedule, last = rounds.training.schedule, rounds.next().number
    while not schedule.wait_complete(last + 1, PATIENCE):
        pass


# Memory.


def weigh_all(report: Report, sizes: Sizes, arguments: Sequence[str]) -> None:
    """Report the memory of runs.

    Each runs in a new process, because this one still holds memory of earlier ones.
    """
    for agents in sizes.agents:
        console.print(f"memory: {agents} agents")
        command = [sys.executable, __file__, *arguments, "--weigh", str(agents)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        used = json.loads(done.stdout)
        name, rest = f"memory, {agents} agents", used["all"] - used["replays"]
        report.ratios[f"{name}, without replays / 1.5 GB"] = rest / MOST_BYTES
        report.add_metric(f"{name}, without replays", rest / 2**20, "MiB (PSS)")
        report.add_metric(f"{name}, replays", used["replays"] / 2**20, "MiB")
        for role, size in used["processes"].items():
            report.add_metric(f"{name}, {role}", size / 2**20, "MiB (PSS)")


def weigh(sizes: Sizes, agents: int) -> dict[str, Any]:
    """Return the bytes used by all processes of a run."""
    rounds = start(sizes, agents, workers=min(WORKERS, agents))
    for _ in range(2 * AHEAD):  # until every replay is full
        rounds.next()
    pool = rounds.training.executor.now
    assert isinstance(pool, ProcessPool)
    pids = {"main": os.getpid(), **pool.supervisor.processes()}
    used = {role: own_bytes(pid) for role, pid in pids.items()}
    replays = rounds.training.arena.sizes()["replays"]
    rounds.close()
    return {"all": sum(used.values()), "replays": replays, "processes": used}


# Playing.


def play(report: Report, sizes: Sizes) -> dict[str, dict[str, float]]:
    """Return the cost of an agent's turn in µs, by number of agents and of worlds."""
    steps: dict[str, dict[str, float]] = {}
    for agents in sizes.agents:
        console.print(f"playing: {agents} agents in {list(sizes.worlds)} worlds")
        runs = {w: start(sizes, agents, w, workers=0, **IDLE) for w in sizes.worlds}
        costs = alternate(
            {str(w): partial(step_cost, run, agents * w, sizes) for w, run in runs.items()},
            sizes.repeats,
        )
        for run in runs.values():
            run.close()
        steps[str(agents)] = {worlds: 1e6 * cost for worlds, cost in costs.items()}
        first, *_, last = sizes.worlds
        ratio = costs[str(last)] / costs[str(first)]
        report.ratios[f"a step, {agents} agents: {last} worlds / {first}"] = ratio
    return steps


def step_cost(rounds: Rounds, rows: int, sizes: Sizes) -> float:
    """Return seconds per agent, world and turn, including acting and storing."""
    seconds = [rounds.next().played.seconds for _ in range(sizes.rounds)]
    return statistics.median(seconds) / (rows * sizes.turns)


# Showing.


def markdown(steps: dict[str, dict[str, float]], sizes: Sizes) -> str:
    """Return the cost of a turn as a Markdown table."""
    lines = [
        row("agents", (f"{worlds} worlds" for worlds in sizes.worlds)),
        row("---", ("---:" for _ in sizes.worlds)),
    ]
    for agents, costs in steps.items():
        lines.append(row(agents, (f"{cost:.1f} µs" for cost in costs.values())))
    return "\n".join(lines)


def row(first: str, rest: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join([first, *rest])} |"


def print_limits(report: Report, sizes: Sizes) -> None:
    """Print the ratios of the largest run, next to their limits."""
    largest = max(sizes.agents)
    for name, ratio in report.ratios.items():
        limit = None
        if f"an update, {largest} agents /" in name:
            limit = MOST_COST
        elif name.startswith(f"memory, {largest} agents"):
            limit = 1.0
        if limit is not None:
            console.print(f"{name}: {ratio:.2f} (limit: {limit})", highlight=False)


if __name__ == "__main__":
    main()

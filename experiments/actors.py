"""Several actors: the same bits for any number of them, and how much faster they are.

    python experiments/actors.py [--kills N] [--only NAME]  all games, actors and workers
    python experiments/actors.py --speed [--seconds S]      1 against 2 actors
    python experiments/actors.py --model CORES              computed from measured costs

The first trains each game with 1 to 4 actors and 0 to 2 workers, with actors killed at
random moments if there are processes, and once with a number of actors that changes on
every resume, and compares digests with one actor in one process. The second measures
simple_spread with PPO in 16 worlds, in alternating order. The third measures what playing
a share and learning cost in one process, and computes the time of a round on a machine
with more cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

import rookery
from rookery.bench.collect import first_actor
from rookery.protocol.shares import most_shares
from rookery.runs.configure import configure
from rookery.runs.session import Session
from rookery.training.executors import InProcess, ProcessPool
from rookery.training.training import Round, Training

OWN = Path(__file__).with_name("own_agents.py")
SMALL: dict[str, Any] = {
    "rounds": 8,
    "turns_per_round": 16,
    "worlds": 17,
    "updates_per_round": 4,
    "batch_size": 16,
    "replay.warmup": 32,
    "replay.capacity": 2000,
    "network.width": 24,
    "epsilon.steps": 1500,
    "rate.schedule": "constant",
    "frames": 2,
    "seed": 3,
    "restarts.limit": 1_000_000,
}
HUNT = {"game.turns": 11}
RECURRENT = {"recurrent.width": 16, "recurrent.sequence": 8}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "treasurehunt, iqn": ("treasurehunt", HUNT),
    "treasurehunt, iqn, noisy, in turn": (
        "treasurehunt",
        HUNT | {"iqn.noisy": True, "game.acting": "in_turn"},
    ),
    "treasurehunt, ppo, sync": (
        "treasurehunt",
        HUNT | {"algorithm": "ppo", "schedule": "sync"},
    ),
    "treasurehunt, recurrent_ppo": (
        "treasurehunt",
        HUNT | RECURRENT | {"algorithm": "recurrent_ppo"},
    ),
    "treasurehunt, scripted and frozen": (
        "treasurehunt",
        HUNT
        | {
            "game.agents": 4,
            "agents": {
                "0": {"player": "forager"},
                "1": {"player": "random"},
                "2": {"learning": False},
            },
        },
    ),
    "gathering, dqn": ("gathering", {"algorithm": "dqn", "game.turns": 30}),
    "prisoner's dilemma, own": (
        "iterated_prisoners_dilemma",
        {
            "agents": {
                "0": {"algorithm": f"{OWN}:Linear"},
                "1": {"algorithm": f"{OWN}:Net"},
            }
        },
    ),
    "spread, iqn": ("pettingzoo:mpe2.simple_spread_v3", {}),
    "foraging, vtrace": (
        "gymnasium:lbforaging/Foraging-8x8-2p-2f-coop-v3",
        {"algorithm": "vtrace"},
    ),
    "tictactoe, dqn": (
        "pettingzoo:pettingzoo.classic.tictactoe_v3",
        {"algorithm": "dqn", "discount_per": "step"},
    ),
}
SPREAD = "pettingzoo:mpe2.simple_spread_v3"


# The same bits.


def digest_of(
    game: str, settings: dict[str, Any], folder: Path, kills: int = 0
) -> tuple[str, int]:
    """Train a run whose actors are killed at random moments; return digest and deaths."""
    entry, config = configure(game, settings={**SMALL, **settings})
    folder.mkdir(parents=True)
    session = Session(entry, config, folder)
    moments = random.Random(str(folder.name))
    rounds = set(moments.sample(range(1, config.rounds - 1), kills)) if kills else set()

    def kill() -> None:
        pool = session.training.executor.now
        if isinstance(pool, ProcessPool):
            pids = pool.supervisor.processes()
            actors = [role for role in pids if role.startswith("actor")]
            with suppress(KeyError, IndexError, ProcessLookupError):
                os.kill(pids[moments.choice(actors)], signal.SIGKILL)

    def disturb(result: Round) -> None:
        if result.number in rounds:
            threading.Timer(moments.uniform(0, 0.05), kill).start()

    session.run(disturb)
    lines = (folder / "events.jsonl").read_text().splitlines()
    deaths = sum(json.loads(line)["event"] == "death" for line in lines)
    return str(rookery.Run(folder, game).digest()["run"]), deaths


def changing_digest(game: str, settings: dict[str, Any], folder: Path) -> str:
    """Train a run that is resumed after every two rounds with another number of actors."""
    rounds = range(2, SMALL["rounds"] + 1, 2)
    numbers = dict(zip(rounds, (3, 1, 4, 2), strict=True))
    merged = {**SMALL, **settings, "rounds": 2, "workers": 0}
    rookery.train(game, run=folder, **merged, actors=numbers[2], progress=False)
    for number in rounds[1:]:
        changes = {"rounds": number, "actors": numbers[number]}
        rookery.resume(folder, game, own_algorithms(settings), progress=False, **changes)
    return str(rookery.Run(folder, game).digest()["run"])


def own_algorithms(settings: dict[str, Any]) -> list[str]:
    """Return the algorithms of agents that are not built in, which must be named again."""
    agents = settings.get("agents", {}).values()
    return [agent["algorithm"] for agent in agents if ":" in agent.get("algorithm", "")]


def compare(name: str, kills: int, console: Console) -> int:
    """Compare all numbers of actors and workers; return how many differ."""
    game, settings = RUNS[name]
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def report(label: str, digest: str, deaths: int = 0) -> None:
            nonlocal different
            different += digest != expected
            result = "same" if digest == expected else "OTHER BITS"
            deaths_text = f", {deaths} killed" if deaths else ""
            console.print(f"{name}: {label}{deaths_text}: {result}", highlight=False)

        base = {**settings, "workers": 0, "actors": 1}
        expected, _ = digest_of(game, base, folder / "reference")
        for workers in (0, 1, 2):
            for actors in (1, 2, 3, 4):
                if actors > 1 or workers:
                    own = {**settings, "workers": workers, "actors": actors}
                    label = f"{actors} actors, {workers} workers"
                    found = digest_of(game, own, folder / label, kills if workers else 0)
                    report(label, *found)
        report("3, 1, 4, 2 actors", changing_digest(game, settings, folder / "changing"))
    return different


# Speed.


class Rate:
    """A run of which some rounds are timed, again and again."""

    def __init__(self, **settings: Any) -> None:
        self._training = Training.build(*configure(SPREAD, settings=settings))
        self._rounds = self._training.rounds()
        for _ in range(3):
            next(self._rounds)

    def seconds(self, rounds: int) -> float:
        """Return the seconds of a round."""
        started = time.perf_counter()
        for _ in range(rounds):
            next(self._rounds)
        return (time.perf_counter() - started) / rounds

    def close(self) -> None:
        """End its processes; those of the other run then have the cores to themselves."""
        self._training.close()


def measure_speed(seconds: float, repeats: int, console: Console) -> None:
    """Print how much faster two actors are than one.

    Only one of the runs is alive at a time: a run that is not asked for rounds still plays
    up to two of them ahead.
    """
    settings = {"algorithm": "ppo", "worlds": 16, "workers": 1, "rounds": 1_000_000}
    times: dict[int, list[float]] = {1: [], 2: []}
    for repeat in range(repeats):
        for actors in (1, 2) if repeat % 2 == 0 else (2, 1):
            rate = Rate(**settings, actors=actors)
            rounds = max(3, round(seconds / rate.seconds(3)))
            times[actors].append(rate.seconds(rounds))
            rate.close()
        pair = times[1][-1], times[2][-1]
        console.print(
            f"1 actor {1e3 * pair[0]:.0f} ms, 2 actors {1e3 * pair[1]:.0f} ms a round: "
            f"{pair[0] / pair[1]:.2f} times as fast",
            highlight=False,
        )
    ratio = statistics.median(a / b for a, b in zip(times[1], times[2], strict=True))
    console.print(f"median of {repeats}: {ratio:.2f}", highlight=False)


# A model of a machine with more cores.


def share_seconds(settings: dict[str, Any], actors: int, repeats: int = 15) -> float:
    """Return the processor time of the largest share of a round, played on its own."""
    training = Training.build(
        *configure(SPREAD, settings={**settings, "workers": 0, "actors": actors})
    )
    _, weights = first_actor(training)
    actor_processes = InProcess(training.parts).actor_processes
    times = []
    for number in range(1, repeats + 1):
        spent = []
        for actor_process in actor_processes:
            started = time.process_time()
            actor_process.actor.play_round(number, weights)
            spent.append(time.process_time() - started)
        actor_processes[0].complete(number)
        times.append(max(spent))
    training.close()
    return statistics.median(times[1:])


def learning_seconds(settings: dict[str, Any], rounds: int = 15) -> float:
    """Return the seconds that all agents together take to learn a round."""
    training = Training.build(
        *configure(SPREAD, settings={**settings, "workers": 0, "rounds": rounds})
    )
    learned = [each.learned.seconds for each in training.rounds()]
    training.close()
    return statistics.median(learned[3:])


def model(cores: int, console: Console) -> None:
    """Print computed rounds per second for the best number of actors on so many cores."""
    agents = 3
    for label, settings in {
        "simple_spread, ppo, 16 worlds": {"algorithm": "ppo", "worlds": 16},
        "simple_spread, ppo, 64 worlds": {"algorithm": "ppo", "worlds": 64},
        "simple_spread, iqn, 16 worlds": {"worlds": 16},
        "simple_spread, iqn, 64 worlds": {"worlds": 64},
    }.items():
        learn = learning_seconds(settings)
        counts = [
            n for n in (1, 2, 4, 8, 16) if n <= min(cores, most_shares(settings["worlds"]))
        ]
        play = {actors: share_seconds(settings, actors) for actors in counts}
        times = {}
        for actors in counts:
            workers = min(agents, max(1, cores - actors))
            longest = learn * -(-agents // workers) / agents
            busy = (actors * play[actors] + learn) / cores
            times[actors] = max(play[actors], longest, busy)
        best = min(times, key=lambda actors: times[actors])
        console.print(
            f"{label}: play {1e3 * play[1]:.0f} ms, learn {1e3 * learn:.0f} ms; "
            f"{cores} cores, computed: 1 actor {1 / times[1]:.1f} rounds/s, "
            f"{best} actors {1 / times[best]:.1f}: {times[1] / times[best]:.1f} times",
            highlight=False,
        )


def main() -> None:
    """Compare digests, or measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", choices=RUNS, help="one of the runs")
    parser.add_argument("--kills", type=int, default=2, help="of actors, in each run")
    parser.add_argument("--speed", action="store_true", help="measure 1 against 2 actors")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=5, help="how often to measure")
    parser.add_argument("--model", type=int, metavar="CORES", help="compute for a machine")
    arguments = parser.parse_args()
    console = Console()
    warnings.simplefilter("ignore", rookery.RookeryWarning)
    if arguments.speed:
        measure_speed(arguments.seconds, arguments.repeats, console)
    elif arguments.model:
        model(arguments.model, console)
    else:
        names = [arguments.only] if arguments.only else list(RUNS)
        sys.exit(bool(sum(compare(name, arguments.kills, console) for name in names)))


if __name__ == "__main__":
    main()

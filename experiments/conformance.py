"""Check foreign games of every kind: do they conform, train, and give the same bits?

    python experiments/conformance.py [--out FILE.json] [--games NAME …] [--no-workers]

Each game goes through the checks of `rookery check` and is trained for a few rounds under
every schedule. In `sync` and `pipelined` the digest with two workers, with the actor killed
once, must be that of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import rookery
from rookery.errors import RookeryError
from rookery.games.conformance.checks import check_game
from rookery.runs.configure import configure
from rookery.runs.session import Session
from rookery.training.executors import ProcessPool
from rookery.training.training import Round

FILES = Path(__file__).parent.parent / "tests" / "games" / "files"
SCHEDULES = ("sync", "pipelined", "async")
TINY = {
    "rounds": 4,
    "turns_per_round": 10,
    "worlds": 2,
    "updates_per_round": 2,
    "batch_size": 8,
    "replay.warmup": 16,
    "replay.capacity": 100,
    "network.width": 16,
}
KILLED_AFTER = 2
"""The round after which the actor is killed."""
IN_TURN = {"discount_per": "step"}

GAMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "spread": ("cooperation", "pettingzoo:mpe2.simple_spread_v3", {"game.reward": "sum"}),
    "speaker": ("different spaces", "pettingzoo:mpe2.simple_speaker_listener_v4", {}),
    "tag": ("different roles", "pettingzoo:mpe2.simple_tag_v3", {}),
    "rps": ("numbers as observations", "pettingzoo:pettingzoo.classic.rps_v2", {}),
    "tictactoe": (
        "turns, masks",
        "pettingzoo:pettingzoo.classic.tictactoe_v3",
        IN_TURN,
    ),
    "connect four": (
        "turns, masks",
        "pettingzoo:pettingzoo.classic.connect_four_v3",
        IN_TURN,
    ),
    "go": (
        "turns, masks",
        "pettingzoo:pettingzoo.classic.go_v5",
        {"game.board_size": 5, **IN_TURN},
    ),
    "duel": (
        "turns in changing order, masks",
        f"pettingzoo:{FILES / 'zoo.py'}:duel",
        IN_TURN,
    ),
    "elimination": (
        "turns, masks, players that drop out",
        f"pettingzoo:{FILES / 'zoo.py'}:elimination",
        IN_TURN,
    ),
    "mortal": (
        "dying and joining agents, dicts",
        f"pettingzoo:{FILES / 'zoo.py'}:mortal",
        {},
    ),
    "zombies": (
        "dying agents",
        "pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11",
        {"game.spawn_delay": 1, "game.max_cycles": 60},
    ),
    "pursuit": (
        "pictures as numbers",
        "pettingzoo:pettingzoo.sisl.pursuit_v5",
        {"game.n_pursuers": 3, "game.max_cycles": 15},
    ),
    "foraging": (
        "lists",
        "gymnasium:lbforaging/Foraging-8x8-2p-2f-coop-v3",
        {"game.reward": "sum"},
    ),
    "relay": (
        "lists, agents end one by one",
        f"gymnasium:{FILES / 'gym.py'}:Relay",
        {"game.ends": "each"},
    ),
    "cart and pole": ("one agent", "gymnasium:CartPole-v1", {}),
    "four carts": ("copies", "gymnasium:CartPole-v1", {"game.copies": 4}),
    "blackjack": ("one agent, a tuple", "gymnasium:Blackjack-v1", {}),
    "lights": (
        "images",
        f"gymnasium:{FILES / 'gym.py'}:Lights",
        {"game.copies": 2, "network.channels": 16},
    ),
}


def main() -> None:
    """Check every game and report."""
    options = parse()
    console, results = Console(), {}
    for name in options.games:
        console.print(name)
        results[name] = examine(name, with_workers=not options.no_workers)
        if options.out:  # after each game, because all of them take a while
            options.out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    console.print(table_of(results))
    good = sum(result["good"] for result in results.values())
    console.print(f"{good} of {len(results)} games passed", highlight=False)
    raise SystemExit(good < len(results))


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--no-workers", action="store_true", help="one process only")
    return parser.parse_args()


def examine(name: str, with_workers: bool) -> dict[str, Any]:
    """Return the results of checking and training a game."""
    kind, game, settings = GAMES[name]
    started = time.perf_counter()
    result: dict[str, Any] = {"kind": kind, "game": game, **conformance(game, settings)}
    for schedule in SCHEDULES:
        result[schedule] = trained(game, {**TINY, **settings}, schedule, with_workers)
    outcomes = [result[schedule] for schedule in SCHEDULES]
    result["good"] = not result["failed"] and not {"failed", "differs"} & set(outcomes)
    result["seconds"] = round(time.perf_counter() - started, 1)
    return result


def conformance(game: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the number of passed checks, and the failed ones."""
    entry, config = configure(game, settings=settings)
    findings = list(check_game(entry, config.game.settings))
    return {
        "passed": sum(finding.result == "passed" for finding in findings),
        "skipped": sum(finding.result == "skipped" for finding in findings),
        "failed": [f"{x.sentence} {x.detail}" for x in findings if x.result == "failed"],
    }


def trained(game: str, settings: dict[str, Any], schedule: str, with_workers: bool) -> str:
    """Return `same` or `differs` (bits of one process and of several), or `trains`."""
    is_exact = schedule != "async"
    if not is_exact and not with_workers:
        return "not tried"
    settings = {**settings, "schedule": schedule}
    with tempfile.TemporaryDirectory() as folder:
        digests = []
        for workers in [0] * is_exact + [2] * with_workers:
            try:
                run = train(game, settings, workers, Path(folder) / str(workers), is_exact)
            except RookeryError as error:
                print(f"  {schedule}, {workers} workers: {error}")
                return "failed"
            digests.append(run.digest()["run"])
    if len(digests) < 2:
        return "trains"
    return "same" if len(set(digests)) == 1 else "differs"


def train(
    game: str, settings: dict[str, Any], workers: int, folder: Path, kills: bool
) -> rookery.Run:
    """Train a game; with workers, the actor is killed once."""
    entry, config = configure(game, settings={**settings, "workers": workers})
    folder.mkdir()
    session = Session(entry, config, folder)

    def kill(result: Round) -> None:
        pool = session.training.executor.now
        if kills and isinstance(pool, ProcessPool) and result.number == KILLED_AFTER:
            os.kill(pool.supervisor.processes()["actor"], signal.SIGKILL)

    session.run(kill)
    return rookery.Run(folder, game)


def table_of(results: dict[str, Any]) -> Table:
    """Return the results as a table."""
    table = Table("game", "special feature", "checks", *SCHEDULES, "seconds")
    for name, result in results.items():
        checks = f"{result['passed']} passed, {len(result['failed'])} failed"
        outcomes = [result[schedule] for schedule in SCHEDULES]
        table.add_row(name, result["kind"], checks, *outcomes, str(result["seconds"]))
    return table


if __name__ == "__main__":
    main()

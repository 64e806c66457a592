"""Check that any number of workers gives the same bits, with networks of real size.

    python experiments/same_bits.py [--out FILE.json] [--rounds 12]

The tests compare small networks, because they must be quick. This script compares the
default network with 3 and with 8 agents, and the larger one of the benchmarks, in every
deterministic schedule, while another process keeps the machine busy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import rookery

BUSY = "while True: sum(range(10_000))"


@dataclass(frozen=True)
class Case:
    """Settings, and the numbers of workers that must agree."""

    name: str
    workers: tuple[int, ...]
    settings: dict[str, Any]


CASES = (
    Case("defaults, 3 agents", (0, 1, 2, 3), {}),
    Case("defaults, 8 agents", (0, 2, 3, 8), {"game.agents": 8}),
    Case("prioritised", (0, 2), {"replay.kind": "prioritised"}),
    Case("PPO", (0, 2), {"algorithm": "ppo"}),
    Case(
        "250 wide, noisy, mixed",
        (0, 2),
        {"network.width": 250, "iqn.noisy": True, "agents": {"1": {"algorithm": "ppo"}}},
    ),
)


@contextmanager
def busy_machine() -> Iterator[None]:
    """Keep one core busy with other work."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def digest_of(
    case: Case, schedule: str, workers: int, rounds: int, seed: int = 0
) -> tuple[str, int]:
    """Return the digest of a run and the number of updates."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"rounds": rounds, "schedule": schedule, "replay.warmup": 2000}
        run = rookery.train(
            "treasurehunt",
            run=Path(folder) / "run",
            workers=workers,
            seed=seed,
            **(settings | case.settings),
        )
        return run.digest()["run"], int(run.metrics()["updates"].sum())


def main() -> None:
    """Compare all cases and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    console, results = Console(), {}
    with busy_machine():
        for case in CASES:
            for schedule in ("sync", "pipelined"):
                digests = {
                    workers: digest_of(case, schedule, workers, options.rounds)
                    for workers in case.workers
                }
                other, _ = digest_of(case, schedule, 0, options.rounds, seed=1)
                same = len(set(digests.values())) == 1
                first, updates = digests[0]
                is_right = same and updates > 0 and other != first
                results[f"{case.name}, {schedule}"] = is_right
                console.print(
                    f"{case.name}, {schedule}: workers {', '.join(map(str, digests))}: "
                    f"{'the same' if same else 'DIFFERENT'} ({updates} updates, "
                    f"{first[:12]}; another seed: {other[:12]})",
                    highlight=False,
                )
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    sys.exit(0 if all(results.values()) else 1)


if __name__ == "__main__":
    main()

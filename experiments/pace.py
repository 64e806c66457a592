"""How much slower a run is when its processes are killed.

    python experiments/pace.py --out FILE [--seconds 60]

One process is killed every ten seconds. Also measured: the time until all processes work
again.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from chaos import living, rounds_of, send, start, training

KILL_EVERY = 10.0


def pace(
    folder: Path, seconds: float, every: float, seed: int
) -> tuple[float, list[float]]:
    """Return rounds per second while a process is killed every so many seconds.

    Also return the seconds after each kill until all processes had finished a round again:
    at most two rounds can be finished without the one that was killed.
    """
    rng, recovery = random.Random(seed), list[float]()
    process = start(training(folder, 1_000_000))
    while len(rounds_of(folder)) < 20:
        time.sleep(0.05)
    first, began = len(rounds_of(folder)), time.monotonic()
    next_kill = began + every
    while (now := time.monotonic()) < began + seconds:
        if now >= next_kill:
            send(rng.choice(list(living(folder).values())), signal.SIGKILL)
            killed, count = time.monotonic(), len(rounds_of(folder))
            while len(rounds_of(folder)) < count + 3:
                time.sleep(0.02)
            recovery.append(time.monotonic() - killed)
            next_kill = killed + every
        time.sleep(0.02)
    rate = (len(rounds_of(folder)) - first) / (time.monotonic() - began)
    process.send_signal(signal.SIGTERM)
    process.wait()
    return rate, recovery


def measure_pace(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Compare a run whose processes are killed with an undisturbed one."""
    undisturbed, _ = pace(folder / "undisturbed", seconds, float("inf"), seed)
    disturbed, recovery = pace(folder / "disturbed", seconds, KILL_EVERY, seed)
    return {
        "rounds/s alone": undisturbed,
        "rounds/s with kills": disturbed,
        "share": disturbed / undisturbed,
        "median seconds until all work again": statistics.median(recovery),
        "kills": len(recovery),
    }


def main() -> None:
    """Measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of each of the two runs"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = measure_pace(Path(name), options.seconds, options.seed)
    for name, value in result.items():
        print(f"{name}: {value:.2f}")
    options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

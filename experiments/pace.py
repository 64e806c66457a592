"""How fast a run is whose processes are killed, beside one that is left alone.

    python experiments/pace.py --out FILE [--seconds 60]

Every ten seconds one process dies. Also measured: how long it takes until everybody works
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
    """Return rounds per second while a process is killed every so often.

    Also how long it took each time until everybody had finished a round again: at most two
    rounds can be finished without who was killed.
    """
    chance, back = random.Random(seed), list[float]()
    process = start(training(folder, 1_000_000))
    while len(rounds_of(folder)) < 20:
        time.sleep(0.05)
    first, began = len(rounds_of(folder)), time.monotonic()
    due = began + every
    while (now := time.monotonic()) < began + seconds:
        if now >= due:
            send(chance.choice(list(living(folder).values())), signal.SIGKILL)
            killed, count = time.monotonic(), len(rounds_of(folder))
            while len(rounds_of(folder)) < count + 3:
                time.sleep(0.02)
            back.append(time.monotonic() - killed)
            due = killed + every
        time.sleep(0.02)
    rate = (len(rounds_of(folder)) - first) / (time.monotonic() - began)
    process.send_signal(signal.SIGTERM)
    process.wait()
    return rate, back


def measure_pace(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Compare a run whose processes are killed with one that is left alone."""
    alone, _ = pace(folder / "calm", seconds, float("inf"), seed)
    disturbed, back = pace(folder / "disturbed", seconds, KILL_EVERY, seed)
    return {
        "rounds/s alone": alone,
        "rounds/s with kills": disturbed,
        "share": disturbed / alone,
        "median seconds until all work again": statistics.median(back),
        "kills": len(back),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure_pace(Path(name), asked.seconds, asked.seed)
    for name, value in found.items():
        print(f"{name}: {value:.2f}")
    asked.out.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

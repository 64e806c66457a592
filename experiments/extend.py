"""Train runs longer, kill them after each extension, and compare with training at once.

    python experiments/extend.py [--rounds 200 300 400] [--workers 0 2] [--only ppo mixed]

Every run trains the first number of rounds, is extended to each of the others with
`rookery resume RUN rounds=…`, killed by SIGKILL half way through the extension, and resumed
without naming the number again. Its digest must be that of a run that was given all rounds
at once. A Markdown table is printed; the exit code is 1 if a digest differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import rookery
from rookery.runs.log import METRICS, read_lines

ALGORITHMS = (
    "dqn",
    "iqn",
    "ppo",
    "vtrace",
    "recurrent_dqn",
    "recurrent_ppo",
    "tabular",
)
SETTINGS = [
    "turns_per_round=10",
    "worlds=3",
    "frames=1",
    "updates_per_round=3",
    "batch_size=8",
    "replay.warmup=16",
    "replay.capacity=300",
    "network.width=16",
    "epsilon.steps=2000",
    "recurrent.width=16",
    "recurrent.sequence=8",
    "recurrent.burn_in=2",
    "checkpoints.every_rounds=30",
]
CASES = {
    name: ("iterated_prisoners_dilemma", [f"algorithm={name}"]) for name in ALGORITHMS
} | {
    "mixed": (
        "treasurehunt",
        [
            *("game.agents=7", "game.turns=25"),
            *(f"agents.{i}.algorithm={name}" for i, name in enumerate(ALGORITHMS)),
        ],
    ),
    "falling rate": (
        "iterated_prisoners_dilemma",
        ["algorithm=iqn", "rate.schedule=linear"],
    ),
    "on disk": ("iterated_prisoners_dilemma", ["algorithm=iqn", "storage=disk"]),
}
PATIENCE = 600.0
"""Seconds after which a round that is not reached counts as never reached."""


def main() -> None:
    """Compare all cases, and print a table."""
    options = parse()
    first, *longer = options.rounds
    names = options.only or list(CASES)
    print(f"rounds {' → '.join(map(str, options.rounds))}, killed after each extension\n")
    print("| agents | workers | killed in round | digest | at once | equal |")
    print("| --- | ---: | --- | --- | --- | --- |", flush=True)
    equal = True
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            folder = Path(temporary) / name.replace(" ", "-")
            whole = at_once(name, folder / "whole", first, longer[-1])
            for workers in options.workers:
                path = folder / f"workers-{workers}"
                killed = extend(name, path, first, longer, workers)
                digest = rookery.Run(path).digest()
                same = digest == whole
                equal &= same
                print(
                    f"| {name} | {workers} | {', '.join(map(str, killed))} | "
                    f"{digest['run'][:12]} | {whole['run'][:12]} | "
                    f"{'yes' if same else 'NO'} |",
                    flush=True,
                )
    sys.exit(0 if equal else 1)


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, nargs="+", default=[200, 300, 400])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--only", nargs="+", choices=CASES)
    return parser.parse_args()


def at_once(name: str, path: Path, first: int, last: int) -> dict[str, object]:
    """Return the digest of a run that trains all rounds at once, in one process."""
    game, settings = CASES[name]
    # A learning rate that falls does so over the rounds that the extended run starts with.
    sizes = (f"rounds={last}", f"rate.rounds={first}", "workers=0")
    run("train", game, *SETTINGS, *settings, *sizes, at=path)
    return rookery.Run(path).digest()


def extend(
    name: str, path: Path, first: int, longer: Sequence[int], workers: int
) -> list[int]:
    """Train a run, and extend it; return the rounds after which it was killed."""
    game, settings = CASES[name]
    run(
        "train",
        game,
        *SETTINGS,
        *settings,
        f"rounds={first}",
        f"workers={workers}",
        at=path,
    )
    killed, done = [], first
    for rounds in longer:
        killed.append(kill_at(path, (done + rounds) // 2, rounds))
        run("resume", str(path))
        done = last_round(path)
        assert done == rounds, f"{path} ended after round {done} instead of {rounds}"
    return killed


def run(*arguments: str, at: Path | None = None) -> None:
    """Run a command of Rookery to its end."""
    folder = ["--run", str(at)] if at else []
    command = [sys.executable, "-m", "rookery", *arguments, *folder, "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill_at(path: Path, number: int, rounds: int) -> int:
    """Extend a run, and kill it once a round is logged; return its last logged round."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rookery", "resume", str(path), f"rounds={rounds}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + PATIENCE
    while last_round(path) < number:
        assert process.poll() is None, f"{path} ended before round {number}"
        assert time.monotonic() < until, f"{path} did not reach round {number}"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, f"{path} had ended before it was killed"
    return last_round(path)


def last_round(path: Path) -> int:
    """Return the last round that a run has logged."""
    lines = read_lines(path / METRICS)
    return int(lines[-1]["round"]) if lines else 0


if __name__ == "__main__":
    main()

"""Check a sweep on a Ray cluster of which one node is lost, and one computes other bits.

    python experiments/ray_cells.py --out ray_cells.json [--cells 20] [--rounds 400]

The cells are trained twice: one after the other in this process's children, and on three
nodes of one processor each. When a third of the cells are done, one of two good nodes is
removed, in the middle of a cell. The third node computes other bits
(ATEN_CPU_CAPABILITY=default). Every cell must have the digest of its undisturbed twin, and
none may have been trained on that node.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Before Ray is imported: otherwise it takes 127.0.0.1 for the machine's address.
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}

from ray.cluster_utils import Cluster

SETTINGS = {
    "algorithm": "ppo",  # is computed by torch, unlike DQN and IQN
    "game.turns": 30,
    "turns_per_round": 10,
    "worlds": 4,
    "updates_per_round": 8,
    "batch_size": 16,
    "frames": 2,
    "network.width": 23,
    "replay.warmup": 64,
    "replay.capacity": 2000,
    "checkpoints.every_rounds": 5,
    "checkpoints.weights_every_rounds": 0,
}
HERE = {"node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
UNLIKE = {"ATEN_CPU_CAPABILITY": "default"}


def rookery(*arguments: object) -> list[str]:
    """Return the command line of a `rookery` command."""
    return [sys.executable, "-m", "rookery", *map(str, arguments)]


def planning(folder: Path, cells: int, rounds: int) -> list[str]:
    """Return the command that plans and trains the sweep."""
    overrides = [f"{key}={value}" for key, value in SETTINGS.items()]
    half = -(-cells // 2)
    varied = [f"seeds=0..{half - 1}", "learning_rate=1e-4,1e-3", f"rounds={rounds}"]
    return rookery("sweep", "treasurehunt", *overrides, *varied, "--run", folder)


def add_node(cluster: Cluster, cpus: int, environment: dict[str, str]) -> Any:
    """Start a node with some more variables in its environment."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        return cluster.add_node(num_cpus=cpus, **HERE)
    finally:
        os.environ.clear()
        os.environ.update(before)


def done(folder: Path, rounds: int) -> int:
    """Return how many cells are done."""
    return len(list(folder.glob(f"*/seed-*/checkpoints/ckpt-{rounds}")))


def in_the_middle(folder: Path, rounds: int) -> int:
    """Return how many cells have begun and are far from their end, as far as is known."""
    saved = [
        max(int(path.name.partition("-")[2]) for path in checkpoints)
        for cell in folder.glob("*/seed-*")
        if (checkpoints := list(cell.glob("checkpoints/ckpt-*")))
    ]
    return sum(number <= rounds // 4 for number in saved)


def digests(folder: Path) -> dict[str, Any]:
    """Return the digest of every cell, and whether it is exact."""
    found = {}
    for cell in sorted(folder.glob("*/seed-*")):
        output = subprocess.run(
            rookery("digest", cell, "--json"), capture_output=True, text=True, check=True
        )
        result = json.loads(output.stdout)
        found[cell.relative_to(folder).as_posix()] = [result["run"], result["exact"]]
    return found


def disturbed(folder: Path, cells: int, rounds: int) -> dict[str, Any]:
    """Train the sweep on a cluster and remove a node; return what was said and measured."""
    head = {"num_cpus": 0, "include_dashboard": False, **HERE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    started = time.monotonic()
    try:
        nodes = [add_node(cluster, 1, more) for more in ({}, {}, UNLIKE)]
        command = [*planning(folder, cells, rounds), "--on", "ray"]
        command += ["--ray-address", cluster.address]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        # Both good nodes are in the middle of a cell: so is the one that is removed.
        while process.poll() is None and (
            done(folder, rounds) < cells // 3 or in_the_middle(folder, rounds) < 2
        ):
            time.sleep(0.1)
        removed_at = done(folder, rounds)
        cluster.remove_node(nodes[1], allow_graceful=False)
        _, said = process.communicate()
    finally:
        cluster.shutdown()
    return {
        "code": process.returncode,
        "seconds": time.monotonic() - started,
        "removed": nodes[1].node_id[:8],
        "unlike": nodes[2].node_id[:8],
        "done_at_removal": removed_at,
        "said": said.splitlines(),
    }


def main() -> None:
    """Train both sweeps, and compare them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = disturbed(folder / "ray", options.cells, options.rounds)
        command = planning(folder / "local", options.cells, options.rounds)
        subprocess.run(command, check=True, capture_output=True)
        found, expected = digests(folder / "ray"), digests(folder / "local")
    left_out = re.findall(r"\((\w+)\) is left out: (.*)", "\n".join(result["said"]))
    lost = [line for line in result["said"] if "it is continued from round" in line]
    equal = sum(found[cell] == expected[cell] for cell in expected)
    result |= {"cells": len(expected), "equal": equal, "left_out": left_out, "lost": lost}
    options.out.write_text(json.dumps({**result, "digests": found}, indent=2))
    print(f"{equal} of {len(expected)} cells have the digest of their undisturbed twin")
    print(
        f"removed after {result['done_at_removal']} cells: {'; '.join(lost) or 'no loss'}"
    )
    print(f"left out: {left_out}")
    is_right = equal == len(expected) == options.cells and result["code"] == 0
    is_right &= [node for node, _ in left_out] == [result["unlike"]] and bool(lost)
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()

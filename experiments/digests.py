"""The digests of a fixed set of runs, to see whether a change moves any bit.

    python experiments/digests.py [--workers N] [--out FILE.json] [--against FILE.json]

Run it before and after a change, on the same machine. It uses nothing but the command line,
so it works at any commit: `PYTHONPATH=CHECKOUT python experiments/digests.py` measures
another checkout. Together the runs cover every algorithm, both deterministic schedules,
both kinds of replay, recurrent, mixed, scripted, frozen and custom agents, and PettingZoo
and Gymnasium games, simultaneous and turn-based.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

SMALL = (
    "rounds=6 turns_per_round=16 worlds=4 updates_per_round=6 batch_size=16 "
    "replay.warmup=32 replay.capacity=600 network.width=24 network.quantiles=3 "
    "iqn.acting_quantiles=3 epsilon.steps=400 frames=3 seed=3"
)
RUNS = {
    "iqn": "treasurehunt",
    "iqn, sync, prioritised": "treasurehunt schedule=sync replay.kind=prioritised",
    "iqn, noisy, convolution": "treasurehunt iqn.noisy=true network.channels=16",
    "iqn, gap, retrace, in turn": (
        "treasurehunt iqn.gap=0.5 iqn.retrace=0.9 game.acting=in_turn"
    ),
    "dqn": "gathering algorithm=dqn game.agents=3",
    "dqn, everything on": (
        "harvest algorithm=dqn dqn.noisy=true dqn.gap=0.3 dqn.retrace=0.7 schedule=sync "
        "replay.kind=prioritised reward.standardise=true gradient.accumulate=2 "
        "rate.schedule=cosine target.every=3 target.rate=1 network.depth=2 game.agents=3"
    ),
    "ppo": "treasurehunt algorithm=ppo",
    "ppo, sync": "cleanup algorithm=ppo schedule=sync ppo.passes=2 ppo.minibatches=3",
    "vtrace": "tag algorithm=vtrace",
    "recurrent_dqn": (
        "treasurehunt algorithm=recurrent_dqn recurrent.width=32 recurrent.sequence=8"
    ),
    "recurrent_dqn, prioritised": (
        "treasurehunt algorithm=recurrent_dqn recurrent.width=32 recurrent.sequence=8 "
        "replay.kind=prioritised schedule=sync"
    ),
    "recurrent_ppo": (
        "treasurehunt algorithm=recurrent_ppo recurrent.width=32 recurrent.sequence=8 "
        "ppo.minibatches=2"
    ),
    "recurrent_ppo, one sequence": (
        "treasurehunt algorithm=recurrent_ppo recurrent.width=48 recurrent.sequence=16 "
        "worlds=1"
    ),
    "tabular": "iterated_chicken algorithm=tabular frames=1",
    "mixed, scripted, frozen": (
        "gathering game.agents=5 agents.1.algorithm=ppo agents.2.player=random "
        "agents.3.learning=false agents.4.algorithm=recurrent_dqn recurrent.width=16"
    ),
    "own network and algorithm": (
        "iterated_prisoners_dilemma agents.0.algorithm=OWN:Linear "
        "agents.1.algorithm=OWN:Net"
    ),
    "pettingzoo, at once": "pettingzoo:mpe2.simple_tag_v3",
    "pettingzoo, in turn": (
        "pettingzoo:pettingzoo.classic.tictactoe_v3 algorithm=dqn discount_per=step"
    ),
    "pettingzoo, in turn, ppo": (
        "pettingzoo:pettingzoo.classic.tictactoe_v3 algorithm=ppo turns_per_round=24"
    ),
    "gymnasium, copies": "gymnasium:CartPole-v1 game.copies=2 algorithm=dqn",
}
OWN = Path(__file__).with_name("own_agents.py")


def rookery(arguments: list[str], folder: Path) -> str:
    """Run a Rookery command in a folder and return what it printed."""
    process = subprocess.run(
        [sys.executable, "-m", "rookery", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        sys.exit(f"rookery {' '.join(arguments)}: {process.stderr}")
    return process.stdout


def digest_of(command: str, workers: int, folder: Path, name: str) -> str:
    """Train a run and return its digest."""
    game, *own = command.replace("OWN", str(OWN)).split()
    # A run's own settings override the common ones.
    settings = dict(setting.split("=", 1) for setting in [*SMALL.split(), *own])
    overrides = [f"{key}={value}" for key, value in settings.items()]
    overrides.append(f"workers={workers}")
    rookery(["train", game, *overrides, "--run", name, "--json"], folder)
    printed = rookery(["digest", name, "--json", "--game", game], folder)
    return str(json.loads(printed)["run"])


def main() -> None:
    """Train all runs and report which digests changed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--workers", type=int, default=0, help="worker processes of each run"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--against", type=Path, help="JSON file of an earlier commit")
    arguments = parser.parse_args()
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    console, digests = Console(), {}
    with tempfile.TemporaryDirectory() as name:
        for number, (run, command) in enumerate(RUNS.items()):
            digest = digest_of(command, arguments.workers, Path(name), f"run-{number}")
            digests[run] = digest
            comparison = "as before" if before.get(run) == digest else "CHANGED"
            comparison = comparison if run in before else ""
            console.print(f"{run:30} {digest[:16]} {comparison}", highlight=False)
    if arguments.out:
        arguments.out.write_text(json.dumps(digests, indent=2) + "\n", "utf-8")
    sys.exit(any(before.get(run, digest) != digest for run, digest in digests.items()))


if __name__ == "__main__":
    main()

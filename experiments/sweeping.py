"""Check that killing the processes of a sweep changes nothing: random SIGKILLs.

    python experiments/sweeping.py --out sweeping.json [--kills 100] [--seeds 15]
                                   [--save-mib 512]

One sweep is undisturbed, with one process per cell. The same sweep, half of its cells with
actor and workers in processes of their own, is then disturbed at random times: processes
that train a cell are killed, their actors and workers, and the sweeping process itself,
after which `rookery sweep go` continues. Equal digests mean that nothing was lost, doubled
or torn. After every kill, the rounds that have to be computed again are counted.

With `--save-mib`, a run with a replay of that size then gets SIGUSR1, and SIGTERM two
seconds later, both sent to all its processes, and is resumed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
from chaos import is_gone, rookery, rounds_of, start
from rich.console import Console
from rich.table import Table

from rookery.runs.run import Run
from rookery.storage.checkpoints import checkpoints_in, is_whole
from rookery.sweeps.plan import Plan

GAMES = "iterated_chicken,iterated_stag_hunt"
EVERY = 5
"""Rounds between checkpoints."""
SETTINGS = {
    "game.turns": 30,
    "turns_per_round": 10,
    "worlds": 2,
    "updates_per_round": 2,
    "batch_size": 16,
    "frames": 2,
    "network.width": 23,
    "replay.warmup": 64,
    "replay.capacity": 2000,
    "replay.kind": "prioritised",
    "restarts.limit": 1_000_000,
    "checkpoints.every_rounds": EVERY,
    "checkpoints.every_minutes": 0,
    "checkpoints.weights_every_rounds": 0,
}
DISTURBED, UNDISTURBED = "learning_rate:workers=1e-3:0,3e-3:2", "learning_rate=1e-3,3e-3"
KINDS = {"cell": 0.55, "worker": 0.25, "sweep": 0.2}
"""What is killed, and how often: a process that trains a cell, one of its child processes,
or the sweeping process."""
HANG_SECONDS = 300.0
WIDE = """
from rookery.games import gridworld as grid

class Wide(grid.GridGame):
    map = "P" + "." * 9

    class Settings(grid.GridSettings):
        agents: int = 1

    def declare(self):
        self.walker = grid.Body(grid.MOVES, sees={"view": grid.Window(20)})
"""
WIDE_ROW, WIDE_WORLDS, WIDE_TURNS = 41 * 41, 64, 50
"""Bytes of a row, and rows in a round."""


@dataclass
class Account:
    """What was done to a sweep, and the result."""

    cells: int = 0
    wanted: int = 0
    """How many processes were to be killed."""
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    starts: int = 0
    """How often the sweep was started or gone on with."""
    hangs: int = 0
    again: int = 0
    """Rounds that were logged and had to be computed again."""
    most_again: int = 0
    """The same, of one cell after one kill."""
    done: int = 0
    rows: int = 0
    """Cells in the table of results."""
    doubled: int = 0
    """Rounds that occur twice in the log of a cell."""
    missing: int = 0
    different: list[str] = field(default_factory=list)
    """Cells whose digest is not that of the undisturbed cell, or that are not exact."""
    left: int = 0
    """Processes that were alive a second after the sweeping process was killed."""
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether all kills were made, and nothing was lost."""
        wrong = self.hangs or self.doubled or self.missing or self.different or self.left
        is_complete = self.done == self.cells == self.rows
        kills = sum(self.kills.values())
        bounded = self.most_again <= EVERY and self.again <= kills * EVERY
        return kills == self.wanted and not wrong and is_complete and bounded


@dataclass
class Save:
    """What became of a run that was told to leave while it had much to save."""

    wanted: int = 0
    """MiB that the checkpoint was to have at least."""
    mib: float = 0.0
    """Of the checkpoint."""
    seconds: float = 0.0
    """From SIGUSR1 until the run had left."""
    was_saving: bool = False
    """Whether it was saving when SIGTERM came; if not, give it more to save."""
    exit_code: int = 0
    is_whole: bool = False
    is_same: bool = False
    """Whether it was resumed to the digest of a run that was not stopped."""

    @property
    def is_right(self) -> bool:
        """Whether it was large, interrupted while it was saved, and saved whole."""
        is_slow = self.mib >= self.wanted and self.was_saving
        return is_slow and self.is_whole and self.is_same and self.exit_code == 75


def planning(folder: Path, axis: str, rounds: int, seeds: int) -> list[str]:
    """Return the command that plans and trains a sweep."""
    settings = SETTINGS | {"rounds": rounds, "seeds": f"0..{seeds - 1}"}
    overrides = [f"{key}={value}" for key, value in settings.items()]
    return rookery("sweep", GAMES, *overrides, axis, "--run", folder)


def saved_rounds(folder: Path) -> int:
    """Return the round of the newest checkpoint of a cell."""
    numbers = [int(path.name.split("-")[1]) for path in folder.glob("checkpoints/ckpt-*")]
    return max(numbers, default=0)


def claimed(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield every cell that was not given up, with the process that claimed it last."""
    for claim in folder.glob("*/seed-*/claim-*[0-9]"):
        try:
            yield claim.parent, int(json.loads(claim.read_text())["pid"])
        except (OSError, ValueError):
            continue  # it is being written, or has just been given up


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def kill(folder: Path, sweep: int, kind: str, rng: random.Random, account: Account) -> None:
    """Kill a process of a kind, if there is one, and count what it has lost."""
    takers = children_of(sweep)
    trainers = [pid for _, pid in claimed(folder) if pid in takers]
    victims = {
        "sweep": [sweep],
        "cell": trainers or takers,
        "worker": [child for pid in trainers for child in children_of(pid)],
    }[kind]
    if not victims:
        return
    victim = rng.choice(victims)
    dying = {"sweep": takers, "cell": [victim], "worker": []}[kind]
    cells = [cell for cell, pid in claimed(folder) if pid in dying]
    os.kill(victim, signal.SIGKILL)
    account.kills[kind] += 1
    account.left += sum(not is_gone(pid) for pid in dying)
    for cell in cells:  # before anybody can have gone on with it, which takes a while
        lost = max(rounds_of(cell), default=0) - saved_rounds(cell)
        account.again += max(0, lost)
        account.most_again = max(account.most_again, lost)


def disturb(folder: Path, kills: int, rounds: int, seeds: int, seed: int) -> Account:
    """Train a sweep whose processes are killed again and again."""
    rng, account, began = random.Random(seed), Account(wanted=kills), time.monotonic()
    command = planning(folder, DISTURBED, rounds, seeds)
    process = start(command)
    account.starts = 1
    progress, progress_at = 0.0, time.monotonic()
    while process.poll() != 0:
        if process.poll() is not None:
            is_planned = (folder / "sweep.json").exists()
            process = start(rookery("sweep", "go", folder) if is_planned else command)
            account.starts += 1
        time.sleep(rng.uniform(0.02, 0.5))
        cells = 4 * seeds
        saved = sum(map(saved_rounds, folder.glob("*/seed-*")))
        if saved / (cells * rounds) > progress:
            progress, progress_at = saved / (cells * rounds), time.monotonic()
        if time.monotonic() - progress_at > HANG_SECONDS:
            account.hangs += 1
            process.kill()
            break
        # Kills follow the progress, so that all are over before the sweep is, and no
        # machine is too slow to get anything done between two of them.
        if sum(account.kills.values()) < min(kills, 1.4 * kills * progress):
            (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
            kill(folder, process.pid, kind, rng, account)
            if kind == "sweep":
                process.wait()
    account.seconds = time.monotonic() - began
    return account


def audit(folder: Path, reference: Path, rounds: int, account: Account) -> Account:
    """Compare every cell with its undisturbed one."""
    plan, undisturbed = Plan(folder), Plan(reference)
    account.cells = len(plan.cells)
    for cell, other in zip(plan.cells, undisturbed.cells, strict=True):
        logged = rounds_of(cell.folder)
        account.doubled += len(logged) - len(set(logged))
        account.missing += len(set(range(1, rounds + 1)) - set(logged))
        digest, expected = Run(cell.folder).digest(), Run(other.folder).digest()
        if digest["run"] != expected["run"] or not digest["exact"]:
            account.different.append(cell.name)
    status = output_of("status", folder)
    account.done = status["done"]
    account.rows = sum(row["seeds"] for row in output_of("table", folder)["table"])
    return account


def output_of(command: str, folder: Path) -> dict[str, Any]:
    """Return what `rookery sweep` prints about a sweep as JSON."""
    done = subprocess.run(
        rookery("sweep", command, folder, "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def save_slowly(folder: Path, mib: int) -> Save:
    """Stop a run that has much to save, twice, and resume it."""
    (folder / "wide.py").write_text(WIDE)
    game, save = f"{folder / 'wide.py'}:Wide", Save(wanted=mib)
    per_round = WIDE_ROW * WIDE_WORLDS * WIDE_TURNS
    needed = mib * 2**20 // per_round + 2
    settings = {
        **{"algorithm": "dqn", "worlds": WIDE_WORLDS, "turns_per_round": WIDE_TURNS},
        **{"rounds": needed + 20, "frames": 1, "updates_per_round": 1, "batch_size": 8},
        **{"network.width": 23, "replay.warmup": 1000, "workers": 2},
        **{"replay.capacity": needed * WIDE_WORLDS * WIDE_TURNS},
        **{"checkpoints.every_minutes": 0, "checkpoints.weights_every_rounds": 0},
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    stopped, whole = folder / "stopped", folder / "whole"
    process = start(rookery("train", game, *words, "--run", stopped))
    while process.poll() is None and len(rounds_of(stopped)) < needed:
        time.sleep(0.05)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGUSR1)
    time.sleep(2)
    save.was_saving = any(stopped.glob("checkpoints/partial-*"))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    save.exit_code = process.wait()
    save.seconds = time.monotonic() - began
    for path in checkpoints_in(stopped / "checkpoints"):
        save.mib = sum(file.stat().st_size for file in path.iterdir()) / 2**20
        save.is_whole = is_whole(path)
    subprocess.run(rookery("resume", stopped, "--game", game), capture_output=True)
    subprocess.run(
        rookery("train", game, *words, "workers=0", "--run", whole), capture_output=True
    )
    digests = [Run(path, game).digest() for path in (stopped, whole)]
    save.is_same = digests[0]["run"] == digests[1]["run"] and digests[0]["exact"]
    return save


def report(console: Console, account: Account, save: Save | None) -> None:
    """Print what was done and what came out."""
    table = Table(box=None, show_header=False)
    kills = ", ".join(f"{count} × {kind}" for kind, count in account.kills.items())
    total = sum(account.kills.values())
    rows = {
        "cells": f"{account.cells} ({account.done} done, {account.rows} in the table)",
        "kills": f"{total} ({kills})",
        "starts of the sweep": str(account.starts),
        "rounds computed again": f"{account.again} (at most {total * EVERY}), after one "
        f"kill at most {account.most_again} (of {EVERY})",
        "doubled, missing": f"{account.doubled}, {account.missing}",
        "hangs, processes left": f"{account.hangs}, {account.left}",
        "other digests": ", ".join(account.different) or "none",
        "seconds": f"{account.seconds:.0f}",
    }
    if save is not None:
        rows["a slow save"] = (
            f"{save.mib:.0f} MiB in {save.seconds:.1f} s, "
            f"{'still' if save.was_saving else 'NOT'} being saved when SIGTERM came, "
            f"exit code {save.exit_code}, "
            f"{'whole' if save.is_whole else 'NOT WHOLE'}, "
            f"{'the same digest' if save.is_same else 'ANOTHER DIGEST'}"
        )
    for name, text in rows.items():
        table.add_row(name, text)
    console.print(table)


def main() -> None:
    """Disturb a sweep and compare it with an undisturbed one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=15, help="a quarter of the cells")
    parser.add_argument("--rounds", type=int, default=100, help="of every cell")
    parser.add_argument("--save-mib", type=int, default=0, help="of a slow save; 0: none")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    save = None
    with tempfile.TemporaryDirectory() as name:
        folder, reference = Path(name) / "disturbed", Path(name) / "reference"
        words = planning(reference, UNDISTURBED, options.rounds, options.seeds)
        subprocess.run([*words, "workers=0"], capture_output=True, check=True)
        account = disturb(
            folder, options.kills, options.rounds, options.seeds, options.seed
        )
        audit(folder, reference, options.rounds, account)
        if options.save_mib:
            save = save_slowly(Path(name), options.save_mib)
    report(Console(), account, save)
    result = {"sweep": asdict(account), "save": asdict(save) if save else None}
    options.out.write_text(json.dumps(result, indent=2))
    is_right = account.is_right and (save is None or save.is_right)
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()

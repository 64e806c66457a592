"""Check that killing processes changes nothing: random SIGKILLs and SIGSTOPs.

    python experiments/chaos.py --out chaos.json [--kills 1000] [--stops 100] [--mains 50]

One run is undisturbed. The same run is then disturbed at random times: its actor and its
workers are killed, several at once, or stopped until main finds them silent. In a second
part main is killed, on its own or with its whole process group, and the run is resumed. The
row hashes cover every committed turn and the states cover every version, so equal digests
mean that nothing was lost, doubled or torn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

SETTINGS = {
    "game.turns": 30,
    "turns_per_round": 10,
    "worlds": 2,
    "workers": 2,
    "updates_per_round": 2,
    "batch_size": 16,
    "frames": 2,
    "network.width": 23,
    "replay.warmup": 64,
    "replay.capacity": 2000,
    "replay.kind": "prioritised",
    "restarts.limit": 1_000_000,
    "restarts.silence": 2.0,
    "checkpoints.weights_every_rounds": 0,
}
HANG_SECONDS = 400.0
"""A run without progress for this long hangs; a process may take 300 s to load."""


@dataclass
class Account:
    """What was done to a run, and the result."""

    kills: int = 0
    stops: int = 0
    found_silent: int = 0
    """Hanging processes that main found and replaced."""
    hangs: int = 0
    rounds: int = 0
    doubled: int = 0
    """Rounds, reports of agents, or turns that occur twice."""
    missing: int = 0
    """Rounds, reports of agents, or turns that do not occur."""
    torn: int = 0
    """Rows with a wrong checksum."""
    verified: int = 0
    """Rows that were checked at the end."""
    digest: str = ""
    seconds: float = 0.0
    gone_seconds: float = 0.0
    """The longest time from killing main until all its processes were gone."""
    left_in_shm: int = 0
    """How often a file was left in /dev/shm."""


def rookery(*arguments: object) -> list[str]:
    """Return the command line of a `rookery` command."""
    return [sys.executable, "-m", "rookery", *map(str, arguments)]


def training(folder: Path, rounds: int, **changes: Any) -> list[str]:
    """Return the command that trains the run."""
    settings = SETTINGS | {"rounds": rounds} | changes
    overrides = [f"{key}={value}" for key, value in settings.items()]
    return rookery("train", "treasurehunt", *overrides, "--run", folder)


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command in a new process group, without output."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, process_group=0)


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the events of a run, without an incomplete last line."""
    try:
        lines = (folder / "events.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def living(folder: Path) -> dict[str, int]:
    """Return the running processes by role, without main, according to the events."""
    pids: dict[str, int] = {}
    for event in events(folder):
        if event["event"] in ("start", "restart") and event["role"] != "main":
            pids[event["role"]] = event["pid"]
        elif event["event"] in ("death", "end"):
            pids.pop(event["role"], None)
    return pids


def rounds_of(folder: Path) -> list[int]:
    """Return the rounds in the log."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["round"] for line in lines if line.endswith("}")]


def send(pid: int, number: int) -> bool:
    """Send a signal; return whether the process existed."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def disturb(
    folder: Path, rng: random.Random, account: Account, planned: Account, stopped: set[int]
) -> None:
    """Kill some processes of a run, or stop one for main to find."""
    pids = [pid for pid in living(folder).values() if pid not in stopped]
    if not pids:
        return
    # A loading process may be silent for minutes, so only working ones are stopped.
    ready = {event["pid"] for event in events(folder) if event["event"] == "ready"}
    working = sorted(ready.intersection(pids))
    if working and account.stops < planned.stops and rng.random() < 0.2:
        pid = rng.choice(working)
        stopped.add(pid)
        account.stops += send(pid, signal.SIGSTOP)
    elif account.kills < planned.kills:
        for pid in rng.sample(pids, rng.randint(1, len(pids))):
            account.kills += send(pid, signal.SIGKILL)


def kill_children(folder: Path, rounds: int, planned: Account, seed: int) -> Account:
    """Train a run whose actor and workers are repeatedly killed and stopped."""
    rng, account, began = random.Random(seed), Account(), time.monotonic()
    process = start(training(folder, rounds))
    last_progress, size, stopped = time.monotonic(), 0, set[int]()
    while process.poll() is None:
        # A fast machine plays many rounds in 0.3 seconds: all kills must fit into the run,
        # so they are due twice as early as its rounds.
        due = planned.kills * min(1, 2 * len(rounds_of(folder)) / rounds)
        time.sleep(rng.uniform(0.01, 0.3 if account.kills >= due else 0.03))
        new_size = size_of(folder / "metrics.jsonl")
        has_progress, size = new_size > size, new_size
        last_progress = time.monotonic() if has_progress else last_progress
        if time.monotonic() - last_progress > HANG_SECONDS:
            account.hangs += 1
            os.killpg(process.pid, signal.SIGKILL)
            break
        # Before the first round, a death makes the run continue in one process. Later, most
        # kills hit processes that work, and a few hit processes that are starting.
        if size and (has_progress or rng.random() < 0.02):
            disturb(folder, rng, account, planned, stopped)
    account.seconds = time.monotonic() - began
    return audit(folder, rounds, account)


def size_of(path: Path) -> int:
    """Return the size of a file, 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def kill_main(folder: Path, rounds: int, mains: int, seed: int, **changes: Any) -> Account:
    """Train a run whose main is repeatedly killed, and resume it each time."""
    rng, account, began = random.Random(seed), Account(), time.monotonic()
    shared = sorted(os.listdir("/dev/shm"))
    while account.kills < mains:
        process = start(next_command(folder, rounds, **changes))
        # Half of the kills come before rounds are played.
        time.sleep(rng.uniform(0.1, 3.0) if rng.random() < 0.5 else 3.0)
        others = children_of(process.pid)
        if process.poll() is None:
            (os.killpg if rng.random() < 0.3 else os.kill)(process.pid, signal.SIGKILL)
            account.kills += 1
        killed = time.monotonic()
        process.wait()
        account.hangs += sum(not is_gone(pid) for pid in others)
        account.gone_seconds = max(account.gone_seconds, time.monotonic() - killed)
        account.left_in_shm += sorted(os.listdir("/dev/shm")) != shared
    subprocess.run(next_command(folder, rounds, **changes), capture_output=True)
    account.seconds = time.monotonic() - began
    return audit(folder, rounds, account)


def next_command(folder: Path, rounds: int, **changes: Any) -> list[str]:
    """Return the command that resumes a run, or restarts it if it cannot be resumed."""
    can_resume = (folder / "memory").exists() or any(folder.glob("checkpoints/ckpt-*"))
    if can_resume and (folder / "config.toml").exists():
        return rookery("resume", folder)
    shutil.rmtree(folder, ignore_errors=True)
    return training(folder, rounds, **changes)


def children_of(pid: int) -> list[int]:
    """Return the children of a process, according to /proc."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in text.split()]


def is_gone(pid: int, seconds: float = 1.0) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def audit(folder: Path, rounds: int, account: Account) -> Account:
    """Add what is left of the run to its account."""
    logged = rounds_of(folder)
    account.rounds, account.doubled = len(logged), len(logged) - len(set(logged))
    account.missing = len(set(range(1, rounds + 1)) - set(logged))
    account.found_silent = sum(event["event"] == "silent" for event in events(folder))
    for rows in sorted(folder.glob(f"checkpoints/ckpt-{rounds}/replay-*.safetensors")):
        audit_rows(load_file(rows), rounds * int(SETTINGS["turns_per_round"]), account)
    done = subprocess.run(
        rookery("digest", folder, "--json"), capture_output=True, text=True
    )
    account.digest = json.loads(done.stdout)["run"] if done.returncode == 0 else "none"
    return account


def audit_rows(file: dict[str, Any], turns: int, account: Account) -> None:
    """Check the turn and the checksum of every row in the replay."""
    expected = turns - len(file["rows"])
    for row in file["rows"]:
        sequence, checksum = struct.unpack("<QI", row[:12].tobytes())
        expected += 1
        account.verified += 1
        account.doubled += sequence < expected
        account.missing += sequence > expected
        account.torn += zlib.crc32(row[12:].data) != checksum


def report(console: Console, accounts: dict[str, Account], digest: str) -> bool:
    """Print a table; return whether nothing was lost."""
    table = Table(box=None, header_style="bold")
    names = ("kills", "stops", "hangs", "rows", "torn", "doubled", "missing", "seconds")
    names = ("run", *names, "digest")
    for name in names:
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, run in accounts.items():
        same = "the same" if run.digest == digest else "DIFFERENT"
        cells = (run.kills, run.stops, run.hangs, run.verified, run.torn, run.doubled)
        cells += (run.missing,)
        table.add_row(name, *map(str, cells), f"{run.seconds:.0f}", same)
    console.print(table)
    return all(
        run.digest == digest
        and run.verified
        and not (run.hangs or run.doubled or run.missing or run.torn or run.left_in_shm)
        for run in accounts.values()
    )


def main() -> None:
    """Disturb runs and compare them with an undisturbed one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--kills", type=int, default=1000, help="of actor and workers")
    parser.add_argument("--stops", type=int, default=100, help="of actor and workers")
    parser.add_argument("--mains", type=int, default=50, help="kills of main")
    parser.add_argument("--rounds", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, accounts = Path(name), {}
        subprocess.run(
            training(folder / "reference", options.rounds, workers=0), capture_output=True
        )
        reference = audit(folder / "reference", options.rounds, Account())
        if options.kills or options.stops:
            planned = Account(kills=options.kills, stops=options.stops)
            accounts["actor and workers"] = kill_children(
                folder / "disturbed", options.rounds, planned, options.seed
            )
        if options.mains:
            for storage in ("disk", "memory"):
                accounts[f"main, storage={storage}"] = kill_main(
                    folder / storage,
                    options.rounds,
                    -(-options.mains // 2),
                    options.seed,
                    **{"storage": storage, "checkpoints.every_rounds": 5},
                )
    is_right = report(Console(), accounts, reference.digest)
    result = {"wanted": reference.digest, "runs": {k: vars(v) for k, v in accounts.items()}}
    options.out.write_text(json.dumps(result, indent=2))
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()

"""Whether killing things changes anything: random SIGKILLs and SIGSTOPs against a run.

    python experiments/chaos.py --out chaos.json [--kills 1000] [--stops 100] [--mains 50]

One run is left alone. The same run is then disturbed at random instants: its actor and its
workers are killed, several at once, or stopped until main finds them silent. In a mode of
its own main is killed, alone or with its whole process group, and the run resumed. Every
turn that was ever committed is in the row hashes, and every version in the states, so that
equal digests mean that nothing was lost, doubled or torn.
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
"""A run that has not got on for this long hangs; a process may load for 300 s."""


@dataclass
class Account:
    """What was done to a run, and what came of it."""

    kills: int = 0
    stops: int = 0
    found_silent: int = 0
    """Processes that main found hanging, and replaced."""
    hangs: int = 0
    rounds: int = 0
    doubled: int = 0
    """Rounds, reports of agents, or turns that are there twice."""
    missing: int = 0
    """The same that are not there."""
    torn: int = 0
    """Rows whose checksum is not that of what they hold."""
    verified: int = 0
    """Rows that were looked at in the end."""
    digest: str = ""
    seconds: float = 0.0
    gone_seconds: float = 0.0
    """The longest time from killing main until all its processes were gone."""
    left_in_shm: int = 0
    """Times that something was left in /dev/shm."""


def rookery(*words: object) -> list[str]:
    """Return the command line of a command of ours."""
    return [sys.executable, "-m", "rookery", *map(str, words)]


def training(folder: Path, rounds: int, **more: Any) -> list[str]:
    """Return the command line of the run."""
    words = [f"{key}={value}" for key, value in (SETTINGS | more).items()]
    return rookery("train", "treasurehunt", f"rounds={rounds}", *words, "--run", folder)


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own."""
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, process_group=0)


def events(folder: Path) -> list[dict[str, Any]]:
    """Return what happened to the processes of a run; a last line may be half written."""
    try:
        lines = (folder / "events.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def living(folder: Path) -> dict[str, int]:
    """Return the processes that are thought to live, role to id, main left out."""
    found: dict[str, int] = {}
    for event in events(folder):
        if event["event"] in ("start", "restart") and event["role"] != "main":
            found[event["role"]] = event["pid"]
        elif event["event"] in ("death", "end"):
            found.pop(event["role"], None)
    return found


def rounds_of(folder: Path) -> list[int]:
    """Return the rounds that main has written down."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["round"] for line in lines if line.endswith("}")]


def send(pid: int, number: int) -> bool:
    """Send a signal; return whether somebody was there to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def disturb(
    folder: Path, chance: random.Random, account: Account, asked: Account, stopped: set[int]
) -> None:
    """Kill some processes of a run, or stop one and leave it for main to find."""
    pids = [pid for pid in living(folder).values() if pid not in stopped]
    if not pids:
        return
    # Somebody who loads may take minutes, so those that work are stopped.
    ready = {one["pid"] for one in events(folder) if one["event"] == "ready"}
    able = sorted(ready.intersection(pids))
    if able and account.stops < asked.stops and chance.random() < 0.2:
        pid = chance.choice(able)
        stopped.add(pid)
        account.stops += send(pid, signal.SIGSTOP)
    elif account.kills < asked.kills:
        for pid in chance.sample(pids, chance.randint(1, len(pids))):
            account.kills += send(pid, signal.SIGKILL)


def torment(folder: Path, rounds: int, asked: Account, seed: int) -> Account:
    """Train a run whose actor and workers are killed and stopped again and again."""
    chance, account, began = random.Random(seed), Account(), time.monotonic()
    process = start(training(folder, rounds))
    heard, size, stopped = time.monotonic(), 0, set[int]()
    while process.poll() is None:
        time.sleep(chance.uniform(0.01, 0.3))
        now = size_of(folder / "metrics.jsonl")
        got_on, size = now > size, now
        heard = time.monotonic() if got_on else heard
        if time.monotonic() - heard > HANG_SECONDS:
            account.hangs += 1
            os.killpg(process.pid, signal.SIGKILL)
            break
        # Before the first round, deaths are a reason to go on in one process. Later, it is
        # mostly processes at work that are killed, and now and then some that are starting.
        if now and (got_on or chance.random() < 0.02):
            disturb(folder, chance, account, asked, stopped)
    account.seconds = time.monotonic() - began
    return audited(folder, rounds, account)


def size_of(path: Path) -> int:
    """Return how long a file is, 0 if it is not there."""
    return path.stat().st_size if path.exists() else 0


def kill_main(folder: Path, rounds: int, mains: int, seed: int, **more: Any) -> Account:
    """Train a run whose main is killed again and again, and which is resumed each time."""
    chance, account, began = random.Random(seed), Account(), time.monotonic()
    shared = sorted(os.listdir("/dev/shm"))
    while account.kills < mains:
        process = start(next_command(folder, rounds, **more))
        # Half of the kills strike before rounds are played.
        time.sleep(chance.uniform(0.1, 3.0) if chance.random() < 0.5 else 3.0)
        others = children_of(process.pid)
        if process.poll() is None:
            (os.killpg if chance.random() < 0.3 else os.kill)(process.pid, signal.SIGKILL)
            account.kills += 1
        killed = time.monotonic()
        process.wait()
        account.hangs += sum(not gone(pid) for pid in others)
        account.gone_seconds = max(account.gone_seconds, time.monotonic() - killed)
        account.left_in_shm += sorted(os.listdir("/dev/shm")) != shared
    subprocess.run(next_command(folder, rounds, **more), capture_output=True)
    account.seconds = time.monotonic() - began
    return audited(folder, rounds, account)


def next_command(folder: Path, rounds: int, **more: Any) -> list[str]:
    """Return what goes on with a run; it begins again if there is nothing to go on from."""
    kept = (folder / "memory").exists() or any(folder.glob("checkpoints/ckpt-*"))
    if kept and (folder / "config.toml").exists():
        return rookery("resume", folder)
    shutil.rmtree(folder, ignore_errors=True)
    return training(folder, rounds, **more)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started, as the system knows them."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def gone(pid: int, seconds: float = 1.0) -> bool:
    """Whether a process ends within some time; one that nobody has buried has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def audited(folder: Path, rounds: int, account: Account) -> Account:
    """Complete an account with what the run left."""
    found = rounds_of(folder)
    account.rounds, account.doubled = len(found), len(found) - len(set(found))
    account.missing = len(set(range(1, rounds + 1)) - set(found))
    account.found_silent = sum(one["event"] == "silent" for one in events(folder))
    for rows in sorted(folder.glob(f"checkpoints/ckpt-{rounds}/replay-*.safetensors")):
        audit_rows(load_file(rows), rounds * int(SETTINGS["turns_per_round"]), account)
    done = subprocess.run(
        rookery("digest", folder, "--json"), capture_output=True, text=True
    )
    account.digest = json.loads(done.stdout)["run"] if done.returncode == 0 else "none"
    return account


def audit_rows(file: dict[str, Any], turns: int, account: Account) -> None:
    """Look at every row that was kept: its turn, and its checksum."""
    expected = turns - len(file["rows"])
    for row in file["rows"]:
        sequence, checksum = struct.unpack("<QI", row[:12].tobytes())
        expected += 1
        account.verified += 1
        account.doubled += sequence < expected
        account.missing += sequence > expected
        account.torn += zlib.crc32(row[12:].data) != checksum


def report(console: Console, accounts: dict[str, Account], wanted: str) -> bool:
    """Print what happened; return whether nothing was lost."""
    table = Table(box=None, header_style="bold")
    names = ("kills", "stops", "hangs", "rows", "torn", "doubled", "missing", "seconds")
    names = ("run", *names, "digest")
    for name in names:
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, one in accounts.items():
        same = "the same" if one.digest == wanted else "ANOTHER"
        cells = (one.kills, one.stops, one.hangs, one.verified, one.torn, one.doubled)
        cells += (one.missing,)
        table.add_row(name, *map(str, cells), f"{one.seconds:.0f}", same)
    console.print(table)
    return all(
        one.digest == wanted
        and one.verified
        and not (one.hangs or one.doubled or one.missing or one.torn or one.left_in_shm)
        for one in accounts.values()
    )


def main() -> None:
    """Disturb runs, and compare them with one that was left alone."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--stops", type=int, default=100)
    parser.add_argument("--mains", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, accounts = Path(name), {}
        subprocess.run(
            training(folder / "alone", asked.rounds, workers=0), capture_output=True
        )
        alone = audited(folder / "alone", asked.rounds, Account())
        if asked.kills or asked.stops:
            wanted = Account(kills=asked.kills, stops=asked.stops)
            about = (asked.rounds, wanted, asked.seed)
            accounts["actor and workers"] = torment(folder / "tormented", *about)
        if asked.mains:
            for storage in ("disk", "memory"):
                accounts[f"main, storage={storage}"] = kill_main(
                    folder / storage,
                    asked.rounds,
                    -(-asked.mains // 2),
                    asked.seed,
                    **{"storage": storage, "checkpoints.every_rounds": 5},
                )
    fine = report(Console(), accounts, alone.digest)
    found = {"wanted": alone.digest, "runs": {k: vars(v) for k, v in accounts.items()}}
    asked.out.write_text(json.dumps(found, indent=2))
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()

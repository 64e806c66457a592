"""Whether killing things changes anything: random SIGKILLs and SIGSTOPs against a run.

    python benchmarks/chaos.py --out chaos.json [--kills 1000] [--stops 100] [--mains 50]

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
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

SETTINGS = {
    "game.turns": 30,
    "turns_per_round": 20,
    "worlds": 4,
    "workers": 2,
    "updates_per_round": 4,
    "batch_size": 16,
    "frames": 2,
    "network.width": 23,
    "replay.warmup": 64,
    "replay.capacity": 2000,
    "replay.kind": "prioritised",
    "restarts.limit": 1_000_000,
    "restarts.silence": 3.0,
    "checkpoints.weights_every_rounds": 0,
}
HANG_SECONDS = 120.0
"""A run that has not got on for this long hangs."""


@dataclass
class Account:
    """What was done to a run, and what came of it."""

    kills: int = 0
    stops: int = 0
    hangs: int = 0
    rounds: int = 0
    doubled: int = 0
    missing: int = 0
    digest: str = ""
    seconds: float = 0.0
    restart_seconds: list[float] = field(default_factory=list)


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
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)


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


def disturb(folder: Path, chance: random.Random, account: Account, stops: int) -> None:
    """Kill some processes of a run, or stop one."""
    roles = living(folder)
    if not roles:
        return
    if account.stops < stops and chance.random() < 0.1:
        account.stops += send(chance.choice(list(roles.values())), signal.SIGSTOP)
        return
    for pid in chance.sample(list(roles.values()), chance.randint(1, len(roles))):
        account.kills += send(pid, signal.SIGKILL)


def torment(folder: Path, rounds: int, kills: int, stops: int, seed: int) -> Account:
    """Train a run whose actor and workers are killed again and again."""
    chance, account, began = random.Random(seed), Account(), time.monotonic()
    process = start(training(folder, rounds))
    heard, count = time.monotonic(), 0
    while process.poll() is None:
        time.sleep(chance.uniform(0.01, 0.5))
        if (now := len(events(folder)) + len(rounds_of(folder))) > count:
            heard, count = time.monotonic(), now
        if time.monotonic() - heard > HANG_SECONDS:
            account.hangs += 1
            os.killpg(process.pid, signal.SIGKILL)
            break
        # Before the first round, deaths are a reason to go on in one process.
        if rounds_of(folder) and (account.kills < kills or account.stops < stops):
            disturb(folder, chance, account, stops)
    account.seconds = time.monotonic() - began
    return audited(folder, rounds, account)


def kill_main(folder: Path, rounds: int, mains: int, seed: int) -> Account:
    """Train a run whose main is killed again and again, and which is resumed each time."""
    chance, account, began = random.Random(seed), Account(), time.monotonic()
    command = training(folder, rounds, storage="disk")
    while account.kills < mains:
        process = start(command)
        time.sleep(chance.uniform(0.5, 12.0))
        roles = living(folder)
        if process.poll() is None:
            group = chance.random() < 0.3
            (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
            account.kills += 1
        process.wait()
        account.hangs += sum(not gone(pid) for pid in roles.values())
        if (folder / "config.toml").exists():
            command = rookery("resume", folder)
        else:  # killed before there was a run: begin again
            subprocess.run(["rm", "-rf", str(folder)], check=True)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    account.seconds = time.monotonic() - began
    return audited(folder, rounds, account)


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
    done = subprocess.run(
        rookery("digest", folder, "--json"), capture_output=True, text=True
    )
    account.digest = json.loads(done.stdout)["run"] if done.returncode == 0 else "none"
    times = [e for e in events(folder) if e["event"] in ("death", "restart")]
    died: dict[str, float] = {}
    for event in times:
        if event["event"] == "death":
            died[event["role"]] = event["time"]
        elif event["role"] in died:
            account.restart_seconds.append(event["time"] - died.pop(event["role"]))
    return account


def report(console: Console, accounts: dict[str, Account], wanted: str) -> bool:
    """Print what happened; return whether nothing was lost."""
    table = Table(box=None, header_style="bold")
    names = ("run", "kills", "stops", "hangs", "doubled", "missing", "seconds", "digest")
    for name in names:
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, one in accounts.items():
        same = "the same" if one.digest == wanted else "ANOTHER"
        cells = (one.kills, one.stops, one.hangs, one.doubled, one.missing)
        table.add_row(name, *map(str, cells), f"{one.seconds:.0f}", same)
    console.print(table)
    return all(
        one.digest == wanted and not (one.hangs or one.doubled or one.missing)
        for one in accounts.values()
    )


def main() -> None:
    """Disturb runs, and compare them with one that was left alone."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--stops", type=int, default=100)
    parser.add_argument("--mains", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, accounts = Path(name), {}
        subprocess.run(
            training(folder / "alone", asked.rounds, workers=0), capture_output=True
        )
        alone = audited(folder / "alone", asked.rounds, Account())
        if asked.kills or asked.stops:
            about = (asked.rounds, asked.kills, asked.stops, asked.seed)
            accounts["actor and workers"] = torment(folder / "tormented", *about)
        if asked.mains:
            about = (asked.rounds, asked.mains, asked.seed)
            accounts["main"] = kill_main(folder / "resumed", *about)
    fine = report(Console(), accounts, alone.digest)
    found = {"wanted": alone.digest, "runs": {k: vars(v) for k, v in accounts.items()}}
    asked.out.write_text(json.dumps(found, indent=2))
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()

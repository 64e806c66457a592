"""Runs of drawn cases in real processes, and what of them must agree.

A process that has loaded everything forks one for each command, and the processes that a
command starts are forked, too: loading torch each time would take much longer than the run
itself. Everything else is real: the command line, descriptors, signals, files.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from drawn_cases import Case

from rookery.actor.evaluations import EVALUATION_SEED
from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import Agent
from rookery.cli.app import main as rookery
from rookery.cli.evaluate import seats_of
from rookery.evaluation.play import play_match
from rookery.protocol.arena import _file
from rookery.replay.rows import row_dtype
from rookery.runs.run import Run
from rookery.storage.checkpoints import checkpoints_in, load_checkpoint
from rookery.supervisor import child as entry
from rookery.supervisor import launcher
from rookery.training import training

PATIENCE = 90.0
"""Seconds after which a command counts as one that hangs."""
TIMES = ("seconds", "play", "learn", "time")


# Processes.


class Forked:
    """A process that was forked; stands in for `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return its exit code, or minus the signal."""
        until = time.monotonic() + (PATIENCE if timeout is None else timeout)
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until:
                raise launcher.subprocess.TimeoutExpired("fork", timeout or PATIENCE)
            else:
                time.sleep(0.001)
        return self.returncode

    def kill(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def fork(work: Callable[[], object]) -> Forked:
    """Do something in a new process, which then ends."""
    pid = os.fork()
    if pid:
        return Forked(pid)
    code = 1
    try:
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _start_by_fork(inside: int, trouble: int, shared: Sequence[int]) -> Forked:
    """Start a process of a run as `launcher` does, but without loading anything anew."""
    parent = os.getpid()

    def work() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(2, 1)
        sys.argv = ["entry", str(parent), str(inside), str(trouble)]
        entry.main()

    return fork(work)


def _split_apart(groups: Sequence[Sequence[Agent]], *rest: Any) -> tuple[Any, list[str]]:
    """Let every agent be computed alone."""
    return [[agent] for group in groups for agent in group], []


def _split_elsewhere(split: Callable[..., Any]) -> Callable[..., Any]:
    """Compare stacked with alone in a process of its own.

    One that has used autograd cannot fork processes that use it.
    """

    def found(groups: Sequence[Sequence[Agent]], *rest: Any) -> tuple[Any, list[str]]:
        numbers = {m.number: m for group in groups for m in group}
        reading, writing = os.pipe()

        def work() -> None:
            split_groups, lines = split(groups, *rest)
            told = [[m.number for m in group] for group in split_groups], lines
            os.write(writing, json.dumps(told).encode())

        child = fork(work)
        os.close(writing)
        with os.fdopen(reading) as file:
            text = file.read()
        child.wait()
        chosen, lines = json.loads(text)
        return [[numbers[i] for i in group] for group in chosen], lines

    return found


@dataclass
class Ended:
    """How a command ended, and what it said."""

    code: int
    said: str

    @property
    def is_refusal(self) -> bool:
        """Whether it said in one line what the user can put right."""
        lines = [x for x in self.said.splitlines() if not x.startswith("warning: ")]
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


class Command:
    """A command of Rookery that runs in a process, and a session, of its own."""

    def __init__(self, words: Sequence[str], said: Path, alone: bool = False) -> None:
        self._said = said

        def work() -> None:
            os.setsid()
            log = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            faulthandler.enable()
            launcher._popen = _start_by_fork  # type: ignore[assignment]
            split = _split_apart if alone else training.split_groups
            workers = [word for word in words if word.startswith("workers=")]
            if workers and workers[-1] != "workers=0":
                split = _split_elsewhere(split)
            training.split_groups = split
            rookery(list(words))

        self.main = fork(work)

    def finish(self) -> Ended:
        """Wait for the end."""
        try:
            code = self.main.wait()
        except launcher.subprocess.TimeoutExpired:
            for pid in (self.main.pid, *self.others()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)  # says where it was
            self.main.wait()
            return Ended(-1, f"it hangs\n{self._read()}")
        return Ended(code, self._read())

    def _read(self) -> str:
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def others(self) -> list[int]:
        """Return the living processes that it has started."""
        return [pid for pid in living(self.main.pid) if pid != self.main.pid]

    def kill_one(self, draw: random.Random) -> int | None:
        """Kill a process that it has started; return which, None if there is none."""
        others = self.others()
        with suppress(ProcessLookupError):  # it may just have ended
            victim = draw.choice(others) if others else None
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
            return victim
        return None

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is the case, or the command is at its end."""
        until = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < until:
            with suppress(launcher.subprocess.TimeoutExpired):
                self.main.wait(0.001)
                return

    def kill(self) -> list[int]:
        """Kill main as nothing else does; return who of the run is left a second later."""
        self.main.kill()
        self.main.wait()
        until = time.monotonic() + 1.0
        while (left := living(self.main.pid)) and time.monotonic() < until:
            time.sleep(0.002)
        return left


def living(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(path.parent.name))
    return found


# What must agree.


@dataclass
class Outcome:
    """What is left of a run."""

    digest: dict[str, Any]
    files: dict[str, Any]
    """What was written down, by file, without how long anything took."""

    @property
    def is_exact(self) -> bool:
        """Whether the run says so."""
        return bool(self.digest["exact"])


def outcome_of(folder: Path, case: Case) -> Outcome:
    """Return what is left of a run in a folder."""
    run = Run(folder, case.game)
    files: dict[str, Any] = {
        name: [_timeless(json.loads(x)) for x in _lines(folder / name)]
        for name in ("metrics.jsonl", "episodes.jsonl", "evaluations.jsonl")
    }
    for path in sorted(folder.glob("recordings/*")):
        files[f"recordings/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    last = folder / "weights" / f"round-{run.config.rounds}.safetensors"
    files["weights"] = hashlib.sha256(last.read_bytes()).hexdigest()
    return Outcome(run.digest(), files)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _timeless(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in TIMES}


def differences(one: Outcome, other: Outcome) -> Iterator[str]:
    """Say in what two runs differ that must be the same."""
    for agent, digest in one.digest["agents"].items():
        if other.digest["agents"].get(agent) != digest:
            yield f"digest of agent {agent!r}"
    for name in sorted(one.files.keys() | other.files.keys()):
        a, b = one.files.get(name), other.files.get(name)
        if a != b:
            yield f"{name}: {_first_difference(a, b)}"


def _first_difference(a: Any, b: Any) -> str:
    if not (isinstance(a, list) and isinstance(b, list)):
        return "other bytes"
    if len(a) != len(b):
        return f"{len(a)} lines and {len(b)}"
    first, second = next((x, y) for x, y in zip(a, b, strict=True) if x != y)
    return f"{json.dumps(first)[:300]} and {json.dumps(second)[:300]}"


def hash_problems(folder: Path, case: Case) -> Iterator[str]:
    """Compare the row hashes of a run with its rows, where all of them are kept."""
    kept = checkpoints_in(folder / "checkpoints")
    files, manifest = load_checkpoint(kept[0])
    run = Run(folder, case.game, [word for word in case.code if ":" in word])
    config = run.config
    turns = config.rounds * config.turns_per_round
    for agent in run.agents:
        rows = files.get(f"replay-{agent.number}", {}).get("rows")
        if rows is None or len(rows) != turns:
            continue
        fields = row_dtype(agent.spec, config.worlds, agent.hidden).fields
        assert fields is not None
        start = fields["checksum"][1] + 4
        chain = bytes(32)
        for k in range(config.rounds):
            part = rows[k * config.turns_per_round : (k + 1) * config.turns_per_round]
            data = np.ascontiguousarray(part[:, start:]).tobytes()
            chain = hashlib.sha256(chain + data).digest()
        if manifest["rows"][agent.id] != chain.hex():
            yield f"the row hash of agent {agent.id!r} is not that of its rows"


def edit_config(folder: Path, draw: random.Random) -> tuple[str, str]:
    """Change one setting in a run's config.toml; return its key and the text before."""
    path = folder / "config.toml"
    text = path.read_text()
    changes = {
        "seed": lambda old: str(int(old) + 1),
        "learning_rate": lambda old: str(float(old) / 2),
        "discount": lambda old: "0.123",
        "rounds": lambda old: str(int(old) + 1),
    }
    key = draw.choice(list(changes))
    lines = text.splitlines()
    for i, line in enumerate(lines):
        name, equals, value = line.partition(" = ")
        if name == key and equals:
            lines[i] = f"{key} = {changes[key](value.split('#')[0].strip())}"
            break
    path.write_text("\n".join(lines) + "\n")
    return key, text


def replayed_problems(folder: Path, case: Case) -> Iterator[str]:
    """Play the last evaluation again from the weights that were kept; it is the same."""
    lines = [json.loads(line) for line in _lines(folder / "evaluations.jsonl")]
    greedy = [line for line in lines if line["players"] == "greedy"]
    rounds = Run(folder, case.game).config.rounds
    if not greedy or greedy[-1]["round"] != rounds:
        return
    reading, writing = os.pipe()
    child = fork(lambda: os.write(writing, json.dumps(_evaluated(folder, case)).encode()))
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    if child.wait() != 0 or json.loads(text) != greedy[-1]["agents"]:
        yield f"the evaluation of round {rounds}, played again, is {text[:200]}"


def _evaluated(folder: Path, case: Case) -> dict[str, float]:
    """Return each agent's mean return in the evaluation of a run's last round."""
    run = Run(folder, case.game, [word for word in case.code if ":" in word])
    seed = (run.config.seed + EVALUATION_SEED + run.config.rounds) % 2**63
    config = run.config.model_copy(update={"seed": seed})
    match = play_match(
        run.entry,
        config,
        seats_of(run),
        episodes=config.worlds,
        round_number=config.rounds,
    )
    found: dict[str, float] = match.summary()["agents"]
    return found


class Flip:
    """One bit of a committed row of a killed run, flipped where its memory is a file."""

    def __init__(self, folder: Path, case: Case, draw: random.Random) -> None:
        run = Run(folder, case.game, [word for word in case.code if ":" in word])
        agent, config = run.agents[0], run.config
        size = row_dtype(agent.spec, config.worlds, agent.hidden).itemsize
        self._path = folder / "memory" / _file(f"rows {agent.id}")
        # Two rounds more than were written down may be complete, and learned from.
        is_left = len(_lines(folder / "metrics.jsonl")) <= config.rounds - 3
        rows = capacity_of(agent, config.turns_per_round, config.worlds)
        stays = rows >= 4 * config.turns_per_round * config.worlds
        self._place = -1
        if self._path.exists() and agent.learns and is_left and stays:
            slots = np.fromfile(self._path, np.uint8)
            slots = slots[: len(slots) // size * size].reshape(-1, size)
            turns = slots[:, :8].copy().view(np.uint64).ravel().astype(np.int64)
            # The newest one may not be committed, and the last round is not learned from.
            newest = int(turns.max()) - 1
            if 0 < newest <= (config.rounds - 1) * config.turns_per_round:
                slot = int(np.flatnonzero(turns == newest)[0])
                self._place = slot * size + draw.randrange(16, size)

    @property
    def is_possible(self) -> bool:
        """Whether there is such a row, from which something is still to be learned."""
        return self._place >= 0

    def flip(self) -> None:
        """Flip it, or flip it back."""
        with self._path.open("r+b") as file:
            file.seek(self._place)
            byte = file.read(1)
            file.seek(self._place)
            file.write(bytes([byte[0] ^ 4]))


LEAVING_SECONDS = 0.5
"""Before the end of a run, main ends its processes, and cannot tell who else did."""


def unrecorded_deaths(folder: Path, pid: int, killed_at: float) -> Iterator[str]:
    """Say what is not on record of a process that was killed."""
    events = [json.loads(line) for line in _lines(folder / "events.jsonl")]
    deaths = [one for one in events if one["event"] == "death" and one["pid"] == pid]
    if not deaths:
        ended = [one for one in events if one["event"] == "end" and one["pid"] == pid]
        if not ended and events[-1]["time"] - killed_at > LEAVING_SECONDS:
            yield f"the death of process {pid} is not on record"
        return
    for name in ("role", "attempt", "line", "file"):
        if not deaths[0].get(name):
            yield f"the death of process {pid} is on record without its {name}"
    if deaths[0]["role"].startswith("worker") and not deaths[0].get("agents"):
        yield f"the death of process {pid} is on record without its agents"

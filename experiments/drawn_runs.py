"""Runs of drawn cases in real processes, and the comparison of their results.

Each command runs in a process forked from this one, which has loaded everything, and the
processes that a command starts are forked as well: loading torch each time would take much
longer than the run itself. Everything else is real: command line, descriptors, signals,
files.
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

from rookery.actor.evaluations import evaluation_seed
from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import Agent
from rookery.api.lineups import seats_of
from rookery.cli.app import main as rookery
from rookery.evaluation.play import play_match
from rookery.learner.exactness import Groups
from rookery.protocol.arena import _file_name
from rookery.replay.rows import row_dtype
from rookery.runs.run import Run
from rookery.storage.checkpoints import checkpoints_in, load_checkpoint
from rookery.supervisor import child, launcher
from rookery.training import training

PATIENCE = 90.0
"""Seconds after which a command counts as hanging."""
TIME_FIELDS = ("seconds", "play", "learn", "time")


# Processes.


class Forked:
    """A forked process, in place of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return its exit code, or minus the signal."""
        deadline = time.monotonic() + (PATIENCE if timeout is None else timeout)
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise launcher.subprocess.TimeoutExpired("fork", timeout or PATIENCE)
            else:
                time.sleep(0.001)
        return self.returncode

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def fork(work: Callable[[], object]) -> Forked:
    """Run a function in a new process, which then ends."""
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
    """Start a process of a run as `launcher` does, but by forking."""
    parent = os.getpid()

    def work() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(2, 1)
        sys.argv = ["entry", str(parent), str(inside), str(trouble)]
        child.main()

    return fork(work)


def _split_all(groups: Sequence[Sequence[Agent]], *rest: Any) -> Groups:
    """Compute every agent on its own."""
    return Groups([[agent] for group in groups for agent in group], [], [])


def _split_in_child(split: Callable[..., Any]) -> Callable[..., Any]:
    """Compare stacked agents with single ones in a separate process.

    A process that has used autograd cannot fork processes that use it.
    """

    def split_groups(groups: Sequence[Sequence[Agent]], *rest: Any) -> Groups:
        agents = {agent.number: agent for group in groups for agent in group}
        reading, writing = os.pipe()

        def work() -> None:
            found = split(groups, *rest)
            numbers = [[agent.number for agent in part] for part in found.exact]
            os.write(writing, json.dumps([numbers, *found[1:]]).encode())

        process = fork(work)
        os.close(writing)
        with os.fdopen(reading) as file:
            text = file.read()
        process.wait()
        numbers, warnings, digests = json.loads(text)
        exact = [[agents[i] for i in part] for part in numbers]
        return Groups(exact, warnings, digests)

    return split_groups


@dataclass
class Ended:
    """The exit code of a command, and its output."""

    code: int
    output: str

    @property
    def is_refusal(self) -> bool:
        """Whether it ended with a one-line error about the user's input."""
        lines = [x for x in self.output.splitlines() if not x.startswith("warning: ")]
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


class Command:
    """A `rookery` command that runs in its own process and session."""

    def __init__(self, arguments: Sequence[str], output: Path, split: bool = False) -> None:
        self._output = output

        def work() -> None:
            os.setsid()
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            faulthandler.enable()
            launcher._popen = _start_by_fork  # type: ignore[assignment]
            splitting = _split_all if split else training.split_groups
            workers = [x for x in arguments if x.startswith("workers=")]
            if workers and workers[-1] != "workers=0":
                splitting = _split_in_child(splitting)
            training.split_groups = splitting
            rookery(list(arguments))

        self.main = fork(work)

    def finish(self) -> Ended:
        """Wait for the end."""
        try:
            code = self.main.wait()
        except launcher.subprocess.TimeoutExpired:
            for pid in (self.main.pid, *self.others()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)  # prints where it was
            self.main.wait()
            return Ended(-1, f"it hangs\n{self._read()}")
        return Ended(code, self._read())

    def _read(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def others(self) -> list[int]:
        """Return the running processes that it has started."""
        return [pid for pid in running(self.main.pid) if pid != self.main.pid]

    def kill_one(self, draw: random.Random) -> int | None:
        """Kill a process that it has started; return its id, None if there is none."""
        others = self.others()
        with suppress(ProcessLookupError):  # it has just ended
            victim = draw.choice(others) if others else None
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
            return victim
        return None

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true or the command ends."""
        deadline = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < deadline:
            with suppress(launcher.subprocess.TimeoutExpired):
                self.main.wait(0.001)
                return

    def kill(self) -> list[int]:
        """Kill main; return the processes of the run that are left a second later."""
        self.main.kill()
        self.main.wait()
        deadline = time.monotonic() + 1.0
        while (left := running(self.main.pid)) and time.monotonic() < deadline:
            time.sleep(0.002)
        return left


def running(session: int) -> list[int]:
    """Return the running processes of a session."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                pids.append(int(path.parent.name))
    return pids


# What must agree.


@dataclass
class Outcome:
    """The results of a run."""

    digest: dict[str, Any]
    files: dict[str, Any]
    """The content of its files, without times."""

    @property
    def is_exact(self) -> bool:
        """Whether the run calls itself exact."""
        return bool(self.digest["exact"])


def outcome_of(folder: Path, case: Case) -> Outcome:
    """Return the results of the run in a folder."""
    run = Run(folder, case.game)
    files: dict[str, Any] = {
        name: [_without_times(json.loads(x)) for x in _lines(folder / name)]
        for name in ("metrics.jsonl", "episodes.jsonl", "evaluations.jsonl")
    }
    for path in sorted(folder.glob("recordings/*")):
        files[f"recordings/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    last = folder / "weights" / f"round-{run.config.rounds}.safetensors"
    files["weights"] = hashlib.sha256(last.read_bytes()).hexdigest()
    return Outcome(run.digest(), files)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _without_times(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in TIME_FIELDS}


def differences(reference: Outcome, other: Outcome) -> Iterator[str]:
    """Yield the differences between two runs that must be the same."""
    for agent, digest in reference.digest["agents"].items():
        if other.digest["agents"].get(agent) != digest:
            yield f"digest of agent {agent!r}"
    for name in sorted(reference.files.keys() | other.files.keys()):
        a, b = reference.files.get(name), other.files.get(name)
        if a != b:
            yield f"{name}: {_first_difference(a, b)}"


def _first_difference(a: Any, b: Any) -> str:
    if not (isinstance(a, list) and isinstance(b, list)):
        return "different bytes"
    if len(a) != len(b):
        return f"{len(a)} lines and {len(b)}"
    first, second = next((x, y) for x, y in zip(a, b, strict=True) if x != y)
    return f"{json.dumps(first)[:300]} and {json.dumps(second)[:300]}"


def hash_problems(folder: Path, case: Case) -> Iterator[str]:
    """Compare the row hashes of a run with its rows, if its replay still has all."""
    newest = checkpoints_in(folder / "checkpoints")[0]
    files, manifest = load_checkpoint(newest)
    run = Run(folder, case.game, [x for x in case.code if ":" in x])
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
            yield f"the row hash of agent {agent.id!r} does not match its rows"


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


def evaluation_problems(folder: Path, case: Case) -> Iterator[str]:
    """Replay the last evaluation with the stored weights and compare its result."""
    lines = [json.loads(line) for line in _lines(folder / "evaluations.jsonl")]
    greedy = [line for line in lines if line["players"] == "greedy"]
    rounds = Run(folder, case.game).config.rounds
    if not greedy or greedy[-1]["round"] != rounds:
        return
    reading, writing = os.pipe()
    process = fork(lambda: os.write(writing, json.dumps(_evaluated(folder, case)).encode()))
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    if process.wait() != 0 or json.loads(text) != greedy[-1]["agents"]:
        yield f"the evaluation of round {rounds}, replayed, is {text[:200]}"


def _evaluated(folder: Path, case: Case) -> dict[str, float]:
    """Return each agent's mean return in the evaluation of a run's last round."""
    run = Run(folder, case.game, [x for x in case.code if ":" in x])
    seed = evaluation_seed(run.config.seed, run.config.rounds)
    config = run.config.model_copy(update={"seed": seed})
    match = play_match(
        run.entry,
        config,
        seats_of(run),
        episodes=config.worlds,
        round_number=config.rounds,
    )
    means: dict[str, float] = match.summary()["agents"]
    return means


class Flip:
    """One bit of a committed row of a killed run whose memory is a file."""

    def __init__(self, folder: Path, case: Case, draw: random.Random) -> None:
        run = Run(folder, case.game, [x for x in case.code if ":" in x])
        agent, config = run.agents[0], run.config
        size = row_dtype(agent.spec, config.worlds, agent.hidden).itemsize
        self._path = folder / "memory" / _file_name(f"rows {agent.id}")
        # Up to two rounds more than logged can be complete and learned from.
        has_rounds_left = len(_lines(folder / "metrics.jsonl")) <= config.rounds - 3
        rows = capacity_of(agent, config.turns_per_round, config.worlds)
        stays = rows >= 4 * config.turns_per_round * config.worlds
        self._offset = -1
        if self._path.exists() and agent.learns and has_rounds_left and stays:
            slots = np.fromfile(self._path, np.uint8)
            slots = slots[: len(slots) // size * size].reshape(-1, size)
            turns = slots[:, :8].copy().view(np.uint64).ravel().astype(np.int64)
            # The newest may not be committed, and the last round is not learned from.
            newest = int(turns.max()) - 1
            if 0 < newest <= (config.rounds - 1) * config.turns_per_round:
                slot = int(np.flatnonzero(turns == newest)[0])
                self._offset = slot * size + draw.randrange(16, size)

    @property
    def is_possible(self) -> bool:
        """Whether there is a row that is still to be learned from."""
        return self._offset >= 0

    def flip(self) -> None:
        """Flip the bit, or flip it back."""
        with self._path.open("r+b") as file:
            file.seek(self._offset)
            byte = file.read(1)
            file.seek(self._offset)
            file.write(bytes([byte[0] ^ 4]))


ENDING_SECONDS = 0.5
"""At the end of a run main ends its processes, and a kill may go unnoticed."""


def unrecorded_deaths(folder: Path, pid: int, killed_at: float) -> Iterator[str]:
    """Yield what is missing in the records of a killed process."""
    events = [json.loads(line) for line in _lines(folder / "events.jsonl")]
    deaths = [x for x in events if x["event"] == "death" and x["pid"] == pid]
    if not deaths:
        ended = [x for x in events if x["event"] == "end" and x["pid"] == pid]
        if not ended and events[-1]["time"] - killed_at > ENDING_SECONDS:
            yield f"the death of process {pid} is not recorded"
        return
    for name in ("role", "attempt", "line", "file"):
        if not deaths[0].get(name):
            yield f"the death of process {pid} is recorded without its {name}"
    if deaths[0]["role"].startswith("worker") and not deaths[0].get("agents"):
        yield f"the death of process {pid} is recorded without its agents"

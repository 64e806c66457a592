"""Schedulers take machines away: a run saves and leaves in time, and continues exactly."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import rookery
from rookery.runs.log import EVENTS, read_lines
from rookery.stop import STOPPING, UNFINISHED
from rookery.storage.checkpoints import checkpoints_in, is_whole, newest_whole
from rookery.sweeps.axes import parse_words
from rookery.sweeps.plan import Cell
from rookery.sweeps.planning import new_plan
from rookery.sweeps.trust import Named
from tests.scenarios.conftest import PATIENCE, wait_for
from tests.small import HUNT, overrides

pytestmark = pytest.mark.processes

LONG = {**HUNT, "rounds": 60, "workers": 2}
GROUP = "group"
SAVING = {
    **{"algorithm": "dqn", "worlds": 64, "turns_per_round": 50, "rounds": 60, "frames": 1},
    **{"workers": 2, "updates_per_round": 1, "batch_size": 8, "network.width": 23},
    **{"replay.warmup": 1000, "replay.capacity": 40_000, "checkpoints.every_minutes": 0},
    "checkpoints.weights_every_rounds": 0,
}
"""An observation has 41 × 41 bytes, so the replay has 64 MiB."""
LEASE = """
from rookery.runs import claim
claim.LEASE_SECONDS, claim.RENEWAL_SECONDS = 2.0, 0.2
from rookery.cli.app import main
main()
"""
LONG_LEASE = LEASE.replace("2.0,", "1000.0,")
WIDE = """
from rookery.games import gridworld as grid

class Wide(grid.GridGame):
    map = "P" + "." * 9

    class Settings(grid.GridSettings):
        agents: int = 1

    def declare(self):
        self.walker = grid.Body(grid.MOVES, sees={"view": grid.Window(20)})
"""


class Job:
    """A run in a process group of its own, as a scheduler starts it."""

    def __init__(self, folder: Path) -> None:
        self.run, self._said = folder / "run", folder / "said"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, prefix: tuple[str, ...] = (), code: str = "") -> None:
        python = [sys.executable, *(["-c", code] if code else ["-m", "rookery"])]
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(
                [*prefix, *python, *arguments],
                cwd=self.run.parent,
                stdout=subprocess.DEVNULL,
                stderr=said,
                process_group=0,
            )

    def train(self, *more: str, game: str = "treasurehunt", **settings: object) -> None:
        self.start("train", game, *overrides(settings), "--run", str(self.run), *more)

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def rounds(self) -> int:
        return len(read_lines(self.run / "metrics.jsonl"))

    def wait_for(self, condition: Callable[[], object]) -> None:
        assert self.process is not None
        process = self.process
        wait_for(lambda: condition() or process.poll() is not None)
        assert process.poll() is None, self.said

    def signal(self, *numbers: int, to: str = "main") -> None:
        assert self.process is not None
        for number in numbers:
            if to == GROUP:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)

    def code(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE)

    def events(self, name: str) -> list[dict[str, object]]:
        return [line for line in read_lines(self.run / EVENTS) if line["event"] == name]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    job.close()


@pytest.mark.shows("F4")
@pytest.mark.parametrize("to", ["main", GROUP])
def test_usr1_and_term_one_after_the_other_save_once_and_the_run_continues_exactly(
    job: Job, to: str, reference_digest: Callable[..., str]
) -> None:
    job.train(**LONG)
    job.wait_for(lambda: job.rounds > 3)

    job.signal(signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM, to=to)

    assert job.code() == UNFINISHED, job.said
    assert job.said.count(STOPPING) == 1
    assert "Traceback" not in job.said
    assert newest_whole(job.run / "checkpoints").manifest["round"] == job.rounds
    assert job.events("death") == []  # the children ignored them
    job.start("resume", str(job.run))
    assert job.code() == 0, job.said
    assert rookery.Run(job.run).digest()["run"] == reference_digest("treasurehunt", **LONG)


def test_signals_to_the_whole_group_do_not_end_children_that_are_starting(
    job: Job,
) -> None:
    job.train(**LONG)
    job.wait_for(lambda: len(job.events("start")) > 2)  # main, and some child

    job.signal(signal.SIGUSR1, signal.SIGTERM, to=GROUP)

    assert job.code() == UNFINISHED, job.said
    assert job.events("death") == []


def test_a_run_leaves_before_its_time_is_over_and_continues_exactly(
    job: Job, reference_digest: Callable[..., str]
) -> None:
    settings = {**LONG, "workers": 0, "updates_per_round": 200, "rounds": 400}
    end = datetime.now().replace(microsecond=0) + timedelta(seconds=16)

    job.train("--until", end.isoformat(), **settings)

    assert job.code() == UNFINISHED, job.said
    assert datetime.now() < end
    assert f"its time is over; {STOPPING}" in job.said
    saved = newest_whole(job.run / "checkpoints").manifest["round"]
    assert 0 < saved == job.rounds < 400


@pytest.mark.shows("E9")
@pytest.mark.parametrize("to", ["main", GROUP])
def test_a_long_save_is_finished_although_term_follows_usr1(
    to: str, job: Job, tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    """`experiments/sweeping.py --save-mib 512` does the same with half a GiB."""
    (tmp_path / "wide.py").write_text(WIDE)
    game = f"{tmp_path / 'wide.py'}:Wide"
    job.train(game=game, **SAVING)
    job.wait_for(lambda: job.rounds * 64 * 50 > SAVING["replay.capacity"])

    job.signal(signal.SIGUSR1, to=to)
    job.wait_for(lambda: [*job.run.glob("checkpoints/partial-*")])
    job.signal(signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1, to=to)

    assert job.code() == UNFINISHED, job.said
    (saved,) = checkpoints_in(job.run / "checkpoints")
    assert is_whole(saved)
    assert sum(path.stat().st_size for path in saved.iterdir()) > 64 * 2**20
    assert job.said.count(STOPPING) == 1
    assert newest_whole(job.run / "checkpoints").manifest["round"] == job.rounds
    job.start("resume", str(job.run), "--game", game)
    assert job.code() == 0, job.said
    assert rookery.Run(job.run, game).digest()["run"] == reference_digest(game, **SAVING)


def _unshared() -> tuple[str, ...]:
    """Return a command that runs another with its own mounts and process ids."""
    return ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_unshared(), "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs the right to make namespaces")
def test_of_two_holders_in_two_namespaces_one_writes_and_no_file_is_torn(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    """The first is suspended for longer than its lease, and does not know of the second."""
    settings = {**LONG, "workers": 0, "checkpoints.every_rounds": 5}
    first, second = Job(tmp_path), Job(tmp_path)
    try:
        run = ["treasurehunt", *overrides(settings), "--run", str(first.run)]
        first.start("train", *run, prefix=_unshared(), code=LEASE)
        first.wait_for(lambda: first.rounds > 12)
        main = _child_of(first)
        os.kill(main, signal.SIGSTOP)
        second.start("resume", str(first.run), prefix=_unshared(), code=LONG_LEASE)
        assert second.code() == 2, second.said
        assert f"{first.run} is in use by process 1 on " in second.said

        wait_for(lambda: _resumes(second))
        second.wait_for(lambda: second.events("start")[1:])
        os.kill(main, signal.SIGCONT)

        assert first.code() == 2, first.said
        assert second.code() == 0, second.said
    finally:
        first.close()
        second.close()
    assert f"{first.run} was taken over by " in first.said
    assert "it ends, and writes nothing more." in first.said
    lines = read_lines(first.run / "metrics.jsonl")
    assert [line["round"] for line in lines] == list(range(1, settings["rounds"] + 1))
    assert all(map(is_whole, checkpoints_in(first.run / "checkpoints")))
    digest = rookery.Run(first.run).digest()
    assert digest["run"] == reference_digest("treasurehunt", **settings)
    assert digest["exact"]


@pytest.mark.shows("E9")
@pytest.mark.skipif(not can_unshare(), reason="needs the right to make namespaces")
def test_a_worker_that_was_suspended_leaves_its_cell_to_the_one_that_took_it_over(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    """Both work on one sweep, each with its own mounts and process ids."""
    settings = {**LONG, "workers": 0, "checkpoints.every_rounds": 5}
    first, second = Job(tmp_path), Job(tmp_path)
    question = parse_words("treasurehunt", overrides(settings), [0, 1])
    plan = new_plan(question, first.run, Named())
    (cell, other), work = plan.cells, ("sweep", "work", str(first.run))
    try:
        first.start(*work, prefix=_unshared(), code=LEASE)
        first.wait_for(lambda: _rounds_in(cell) > 12)
        main = _child_of(first)
        os.kill(main, signal.SIGSTOP)
        second.start(*work, prefix=_unshared(), code=LEASE)
        second.wait_for(lambda: len(_starts_in(cell)) > 1)
        os.kill(main, signal.SIGCONT)

        assert (first.code(), second.code()) == (0, 0), first.said
    finally:
        first.close()
        second.close()
    assert f"{cell.folder} was taken over by " in first.said
    for number, each in enumerate((cell, other)):
        assert _rounds_in(each) == settings["rounds"]
        assert all(map(is_whole, checkpoints_in(each.folder / "checkpoints")))
        digest = rookery.Run(each.folder).digest()
        expected = reference_digest("treasurehunt", **settings, seed=number)
        assert (digest["run"], digest["exact"]) == (expected, True)
    lines = read_lines(cell.folder / "metrics.jsonl")
    assert [line["round"] for line in lines] == list(range(1, settings["rounds"] + 1))


def _rounds_in(cell: Cell) -> int:
    return len(read_lines(cell.folder / "metrics.jsonl"))


def _starts_in(cell: Cell) -> list[object]:
    return [x for x in read_lines(cell.folder / EVENTS) if x["event"] == "start"]


def _child_of(job: Job) -> int:
    """Return the process that `unshare` has started."""
    assert job.process is not None
    pid = job.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _resumes(job: Job) -> bool:
    """Try to resume a run; return whether it is no longer refused."""
    job.start("resume", str(job.run), prefix=_unshared(), code=LEASE)
    assert job.process is not None
    process, refused = job.process, job.said.count("is in use by")
    wait_for(
        lambda: (
            process.poll() is not None
            or job.said.count("is in use by") > refused
            or len(job.events("start")) > 1
        )
    )
    return process.poll() is None

"""The progress of several runs, as their files grow."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rookery.api import cells_progress as module
from rookery.api.cells_progress import CellsProgress, RunningLog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def write(folder: Path, number: int, returns: tuple[float, ...] = ()) -> None:
    """Append a round, and an episode of its agents."""
    folder.mkdir(exist_ok=True)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"round": number}) + "\n")
    if returns:
        by_agent = {str(agent): value for agent, value in enumerate(returns)}
        with (folder / "episodes.jsonl").open("a") as file:
            file.write(json.dumps({"returns": by_agent}) + "\n")


def test_lines_every_ten_seconds_tell_rounds_return_and_time_left(
    tmp_path: Path, clock: Clock
) -> None:
    output = io.StringIO()
    folders = {f"seed {i}": tmp_path / str(i) for i in (3, 4, 5)}
    rounds, running = dict.fromkeys(folders, 100), ["seed 3", "seed 4"]
    console = Console(file=output, width=200)
    progress = CellsProgress(console, folders, rounds, quiet=False)

    write(folders["seed 3"], 10)
    clock.now += 5
    progress.show(running, 0)
    write(folders["seed 3"], 20, (1.0, 2.0))
    write(folders["seed 3"], 30, (2.0, 3.0))
    clock.now += 5
    progress.show(running, 1)

    assert output.getvalue() == (
        "seed 3, round 30 of 100, return 2.00, 18 s left; seed 4, starting; 1 of 3 done\n"
    )


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = RunningLog(tmp_path)
    write(tmp_path, 1)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"rou')
    log.read()
    assert log.round == 1

    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('nd": 2}\n')
    log.read()

    assert log.round == 2


def test_a_log_that_was_cut_on_resume_is_read_again(tmp_path: Path) -> None:
    log = RunningLog(tmp_path)
    for number in (1, 2, 3):
        write(tmp_path, number)
    log.read()
    assert log.round == 3

    (tmp_path / "metrics.jsonl").write_text('{"round": 1}\n')
    log.read()

    assert log.round == 1

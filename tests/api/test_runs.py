"""`rookery.list_runs` and `rookery.diff`, on real runs in every state."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rookery
from rookery.errors import ConfigError
from rookery.runs.folder import SEEDS, SWEEP
from rookery.runs.listing import RunInfo, seeds_not_started
from rookery.stop import Stopped
from tests.small import session_of, train

KILLED = """
import os, sys
from pathlib import Path
from tests.small import session_of
session_of(Path(sys.argv[1])).run(lambda result: os._exit(9))
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train(folder / "done", **{"evaluate.every_rounds": 2, "game.turns": 2})
    (folder / "seeds").mkdir()
    train(folder / "seeds" / "seed-3", seed=3)
    train(folder / "seeds" / "seed-12", seed=12, algorithm="vtrace")
    return folder


def only(folder: Path) -> RunInfo:
    (info,) = rookery.list_runs(folder)
    return info


def test_a_finished_run_is_listed_with_its_score(finished: Path) -> None:
    info = only(finished / "done")

    assert info.path == finished / "done"
    assert (info.game, info.algorithm, info.seed) == ("iterated_chicken", "ppo", 0)
    assert (info.state, info.round, info.rounds) == ("finished", 4, 4)
    last = (finished / "done" / "evaluations.jsonl").read_text().splitlines()[-1]
    assert info.scored_by == "evaluation"
    assert info.score == json.loads(last)["mean"]


def test_runs_are_found_in_folders_within_and_seeds_are_in_order(finished: Path) -> None:
    runs = rookery.list_runs(finished)

    names = [run.path.relative_to(finished).as_posix() for run in runs]
    assert names == ["done", "seeds/seed-3", "seeds/seed-12"]
    assert [run.group for run in runs] == [None, *[finished / "seeds"] * 2]


@pytest.mark.parametrize("name", [SWEEP, SEEDS])
def test_seeds_that_have_not_started_are_known(name: str, finished: Path) -> None:
    plan = finished / "seeds" / name
    plan.write_text(json.dumps({"seeds": [3, 12, 14]}))

    assert seeds_not_started(finished / "seeds") == [14]
    plan.unlink()


def test_a_run_is_running_while_its_process_is_alive(tmp_path: Path) -> None:
    states = []

    session_of(tmp_path / "run").run(lambda result: states.append(only(tmp_path)))

    assert [(info.state, info.round) for info in states] == [
        ("running", number) for number in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize(
    ("error", "state"), [(Stopped, "stopped"), (RuntimeError, "failed")]
)
def test_a_run_that_ended_early_says_how(
    error: type[BaseException], state: str, tmp_path: Path
) -> None:
    def end(result: object) -> None:
        raise error

    with pytest.raises(error):
        session_of(tmp_path / "run").run(end)

    assert (only(tmp_path).state, only(tmp_path).round) == (state, 1)


FAILING = """
from rookery.games.builtin.matrix import IteratedChicken


class Failing(IteratedChicken):
    def end_turn(self):
        raise RuntimeError("broken")
"""


@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 1])
def test_a_mistake_in_a_game_fails_a_run_with_any_number_of_workers(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("failing.py").write_text(FAILING)

    with pytest.raises(rookery.GameError, match="broken"):
        rookery.train("./failing.py:Failing", run="run", workers=workers, rounds=2)

    assert only(tmp_path).state == "failed"


def test_a_refused_resume_leaves_a_finished_run_as_it_was(tmp_path: Path) -> None:
    train(tmp_path / "run")

    with pytest.raises(ConfigError):
        rookery.resume(tmp_path / "run", rounds=1)

    assert only(tmp_path).state == "finished"
    assert not (tmp_path / "run" / "failures").exists()


@pytest.mark.processes
def test_a_run_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run")]

    assert subprocess.run(command, timeout=60).returncode == 9

    assert only(tmp_path).state == "killed"


def test_files_of_other_programs_are_not_runs(tmp_path: Path) -> None:
    for number, text in enumerate(["", "x = 1", "not toml", "game = 3"]):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "config.toml").write_text(text)

    assert rookery.list_runs(tmp_path) == []


def test_a_line_longer_than_the_tail_that_is_read_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('rounds = 9\n[game]\nname = "x"\n')
    line = json.dumps({"round": 7, "agents": {"0": {"x": "y" * 200_000}}})
    (tmp_path / "metrics.jsonl").write_text(f"{line}\n")

    assert (only(tmp_path).round, only(tmp_path).state) == (7, "new")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder: name one that contains runs"):
        rookery.list_runs(tmp_path / "none")


def test_listing_runs_imports_neither_torch_nor_games(finished: Path) -> None:
    code = (
        "import sys, rookery\n"
        f"print(len(rookery.list_runs({str(finished)!r})))\n"
        "print([m for m in sys.modules if m == 'torch' or m.startswith('rookery.games')])\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout.splitlines() == ["3", "[]"]


def test_the_difference_of_two_runs_is_what_was_set_differently(finished: Path) -> None:
    seeds = finished / "seeds"

    differences = rookery.diff(seeds / "seed-3", seeds / "seed-12")

    assert differences.settings == {"algorithm": ("ppo", "vtrace"), "seed": (3, 12)}
    assert differences.software == {}
    assert "algorithm: 'ppo' → 'vtrace'" in repr(differences)


def test_software_files_and_results_are_compared_too(
    finished: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    config = (finished / "done" / "config.toml").read_text()
    (other / "config.toml").write_text(config)
    seal = json.loads((finished / "done" / "seal.json").read_text())
    seal["begun"]["torch"], seal["files"] = "1.0", {"mine.py": "abc"}
    (other / "seal.json").write_text(json.dumps(seal))

    differences = rookery.diff(finished / "done", other)

    assert differences.settings == {}
    assert differences.software["torch"][1] == "1.0"
    assert differences.files == {"mine.py": (None, "abc")}
    assert differences.results["state"] == ("finished", "new")


def test_equal_runs_do_not_differ(finished: Path) -> None:
    differences = rookery.diff(finished / "done", finished / "done")

    assert repr(differences) == "no differences"


def test_only_runs_can_be_compared(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder of seeds: name one of them"):
        rookery.diff(finished / "done", finished / "seeds")
    with pytest.raises(ConfigError, match="is not a run"):
        rookery.diff(finished / "done", tmp_path / "none")

"""The folders of runs: every new one has its own name, and every run is recognised."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from pathlib import Path

import pytest

import rookery
from rookery.errors import ConfigError
from rookery.runs.folder import new_run
from tests.paths import GAME_FILES
from tests.small import SETTINGS, session_of, train


def _make(folder: str, count: int) -> None:
    os.chdir(folder)
    for _ in range(count):
        new_run(None, "hunt")


@pytest.mark.processes
def test_runs_that_start_at_the_same_time_get_separate_folders(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_make, args=(str(tmp_path), 200)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)

    assert [child.exitcode for child in children] == [0] * 4
    names = {f"hunt-{number}" for number in range(1, 801)}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == names


def test_a_run_can_be_pickled_after_its_game_was_loaded(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    assert run.entry.name == "iterated_chicken"
    assert run.agents

    again = pickle.loads(pickle.dumps(run))

    assert again.digest() == run.digest()


def test_a_run_whose_path_has_colons_can_be_started_from(tmp_path: Path) -> None:
    origin = train(tmp_path / "a:b@7")

    for name in (f"{origin.path}:0", f"{origin.path}:0@4", str(origin.path)):
        session = session_of(tmp_path / f"run{len(name)}", agents={"0": {"from": name}})
        session.training.close()
        session._claim.close()


def test_an_agent_whose_id_has_colons_can_be_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = GAME_FILES / "recall.py"
    Path("named.py").write_text(file.read_text().replace("str(i)", 'f"who:{i}@2"'))
    game = "./named.py:Recall"
    settings = {key: value for key, value in SETTINGS.items() if key != "agents"}
    rookery.train(game, run="origin", **settings)

    agents = {"who:0@2": {"from": "origin:who:0@2@4"}}
    run = rookery.train(game, run="run", agents=agents, **settings)

    assert run.digest()["exact"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "write RUN, RUN:ID, RUN:ID@ROUND, or the name of a file"),
        ("none:0", "none is not a run: no such folder"),
        ("none.safetensors", "there is no file 'none.safetensors'"),
    ],
)
def test_an_origin_that_does_not_exist_is_refused(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        session_of(tmp_path / "run", agents={"0": {"from": name}})


def test_an_ambiguous_origin_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "a:0")

    with pytest.raises(ConfigError, match=r"/a and .*/a:0 are runs: rename one of them"):
        session_of(tmp_path / "run", agents={"0": {"from": f"{tmp_path}/a:0:0"}})


def test_a_folder_of_seeds_is_refused_where_one_run_is_needed(tmp_path: Path) -> None:
    train(tmp_path / "seed-3")
    (tmp_path / "seeds.json").write_text("{}")

    line = r"is a folder of seeds: name one of them, such as .*seed-3"
    with pytest.raises(ConfigError, match=line):
        rookery.Run(tmp_path)
    with pytest.raises(ConfigError, match=line):
        session_of(tmp_path / "new", agents={"0": {"from": f"{tmp_path}:0"}})

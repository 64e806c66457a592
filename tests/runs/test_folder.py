"""The folders of runs: every new one has a name of its own, and every run is found."""

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
def test_runs_that_begin_at_the_same_time_get_folders_of_their_own(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_make, args=(str(tmp_path), 200)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)

    assert [child.exitcode for child in children] == [0] * 4
    wanted = {f"hunt-{number}" for number in range(1, 801)}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == wanted


def test_a_run_can_be_pickled_when_its_game_has_been_looked_at(tmp_path: Path) -> None:
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
        session._lock.close()


def test_an_agent_whose_id_has_colons_can_be_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = GAME_FILES / "recall.py"
    Path("named.py").write_text(file.read_text().replace("str(i)", 'f"who:{i}@2"'))
    game = "./named.py:Recall"
    few = {key: value for key, value in SETTINGS.items() if key != "agents"}
    rookery.train(game, run="origin", **few)

    chosen = {"who:0@2": {"from": "origin:who:0@2@4"}}
    run = rookery.train(game, run="run", agents=chosen, **few)

    assert run.digest()["exact"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "write RUN, RUN:ID, RUN:ID@ROUND, or the name of a file"),
        ("none:0", "none is no run: there is no such folder"),
        ("none.safetensors", "there is no file 'none.safetensors'"),
    ],
)
def test_what_is_no_origin_is_refused(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        session_of(tmp_path / "run", agents={"0": {"from": name}})


def test_two_readings_of_an_origin_are_refused(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "a:0")

    with pytest.raises(ConfigError, match=r"/a and .*/a:0 are runs: rename one of them"):
        session_of(tmp_path / "run", agents={"0": {"from": f"{tmp_path}/a:0:0"}})


def test_seeds_are_named_where_one_run_is_wanted(tmp_path: Path) -> None:
    train(tmp_path / "seed-3")
    (tmp_path / "seeds.json").write_text("{}")

    line = r"is a folder of seeds: name one of them, such as .*seed-3"
    with pytest.raises(ConfigError, match=line):
        rookery.Run(tmp_path)
    with pytest.raises(ConfigError, match=line):
        session_of(tmp_path / "new", agents={"0": {"from": f"{tmp_path}:0"}})

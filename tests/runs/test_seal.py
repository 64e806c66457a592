"""What a run was asked to do is sealed: who goes on with another one is refused or told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import ConfigError
from rookery.runs.run import Run, resumed_config
from rookery.runs.session import Session
from rookery.stop import Stopped
from rookery.storage.checkpoints import checkpoints_in, sum_of_manifest
from rookery.training.training import Round
from tests.scenarios.conftest import FILES
from tests.scenarios.conftest import session_of as session_at
from tests.small import SETTINGS, session_of, train


def stop_after(session: Session, rounds: int) -> None:
    """Train some rounds."""

    def stop(one: Round) -> None:
        if one.number == rounds:
            session.training.parts.stop.signal = 2

    with pytest.raises(Stopped):
        session.run(stop)


def stopped_at(folder: Path, rounds: int, **settings: Any) -> Run:
    """Return a tiny run that was stopped after some rounds."""
    stop_after(session_of(folder, **settings), rounds)
    return Run(folder)


def go_on(run: Run, *words: str) -> Session:
    fresh = Run(run.path)
    session = Session(fresh.entry, resumed_config(fresh, words), run.path, resume=True)
    session.run(lambda one: None)
    return session


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def change_manifest(run: Run, **changes: Any) -> None:
    """Change what the newest checkpoint says of itself; None takes it out."""
    path = checkpoints_in(run.path / "checkpoints")[0] / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    manifest = {key: value for key, value in manifest.items() if value is not None}
    path.write_text(json.dumps(manifest | {"sum": sum_of_manifest(manifest)}))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("unbroken") / "run")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stopped_at(tmp_path_factory.mktemp("made") / "run", 2)


@pytest.fixture
def stopped(made: Run, tmp_path: Path) -> Run:
    shutil.copytree(made.path, tmp_path / "run")
    return Run(tmp_path / "run")


EDITS = {
    "learning_rate": ("learning_rate = 0.0005", "learning_rate = 0.01"),
    "seed": ("seed = 0", "seed = 1"),
    "discount": ("discount = 0.99", "discount = 0.5"),
    "n_step": ("n_step = 3", "n_step = 1"),
    "rounds": ("rounds = 4", "rounds = 6"),
    "replay.capacity": ("capacity = 4", "capacity = 5"),
    "game.turns": ("turns = 100", "turns = 50"),
    "storage": ('storage = "memory"', 'storage = "disk"'),
    "worlds": ("worlds = 1", "worlds = 2"),
    "evaluate.episodes": ("episodes = 100", "episodes = 9"),
    "rate.updates": ("[rate]", "[rate]\nupdates = 9"),
}


@pytest.mark.shows("F4")
@pytest.mark.parametrize("key", EDITS)
def test_an_edited_setting_is_refused_with_what_it_was_and_is(
    key: str, stopped: Run
) -> None:
    old, new = EDITS[key]
    edit(stopped.path / "config.toml", old, new)

    with pytest.raises(ConfigError) as refused:
        go_on(stopped)

    said, now = str(refused.value), new.rpartition("= ")[2].replace('"', "'")
    assert f"config.toml has changed since the run began: {key} was " in said
    assert f" and is {now}. Put it back, or start a new run from these" in said
    assert said.endswith(f"'agents.\"*\".from={stopped.path}'")
    assert "\n" not in said


def test_all_edited_settings_are_told_at_once(stopped: Run) -> None:
    config = stopped.path / "config.toml"
    edit(config, "seed = 0", "seed = 7")
    edit(config, 'player = "random"', "learning = false")

    with pytest.raises(ConfigError) as refused:
        go_on(stopped)

    said = str(refused.value)
    assert "seed was 0 and is 7; agents.1.player was 'random' and is as for all" in said
    assert "agents.1.learning was as for all agents and is false" in said


def test_comments_order_and_another_way_to_say_the_same_are_no_changes(
    stopped: Run, unbroken: Run
) -> None:
    config = stopped.path / "config.toml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith("#")]
    more = ['[agents."*"]', "learning_rate = 5e-4", '[agents."[1]"]', "frames = 1"]
    config.write_text("\n".join([*kept, *more]))

    go_on(stopped)

    assert stopped.digest() == unbroken.digest()
    assert stopped.digest()["exact"]


def test_what_may_be_changed_when_a_run_goes_on_is_not_sealed(
    stopped: Run, unbroken: Run
) -> None:
    edit(stopped.path / "config.toml", "silence = 60.0", "silence = 70.0")

    go_on(stopped, "workers=0", "checkpoints.keep=3", "checkpoints.replay=false")

    assert stopped.digest() == unbroken.digest()


def test_with_memory_on_disk_an_edited_setting_is_refused_too(tmp_path: Path) -> None:
    run = stopped_at(tmp_path / "run", 2, storage="disk")
    edit(run.path / "config.toml", "learning_rate = 0.0005", "learning_rate = 0.01")

    with pytest.raises(ConfigError, match=r"learning_rate was 0\.0005 and is 0\.01"):
        go_on(run)


def test_a_setting_that_there_was_not_when_a_run_began_is_no_change(stopped: Run) -> None:
    path = stopped.path / "seal.json"
    seal = json.loads(path.read_text())
    del seal["settings"]["iqn.gap"]
    path.write_text(json.dumps(seal | {"sum": sum_of_manifest(seal)}))
    change_manifest(stopped, seal=sum_of_manifest(seal))
    edit(stopped.path / "config.toml", "gap = 0.0", "gap = 0.5")

    with pytest.raises(ConfigError, match=r"iqn.gap was unset and is 0\.5"):
        go_on(stopped)
    edit(stopped.path / "config.toml", "gap = 0.5", "")
    go_on(stopped)

    assert stopped.digest()["exact"]


@pytest.mark.parametrize("damage", ["edited", "torn", "of another run"])
def test_a_seal_that_is_not_the_one_of_the_beginning_is_refused(
    damage: str, stopped: Run
) -> None:
    path = stopped.path / "seal.json"
    if damage == "edited":
        edit(path, '"seed": 0', '"seed": 1')
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        seal = json.loads(path.read_text()) | {"files": {"./other.py": "0"}}
        path.write_text(json.dumps(seal | {"sum": sum_of_manifest(seal)}))

    with pytest.raises(ConfigError, match=r"seal\.json is not what was written when the"):
        go_on(stopped)


def test_without_its_seal_a_run_goes_on_and_is_not_called_exact(stopped: Run) -> None:
    (stopped.path / "seal.json").unlink()

    session = go_on(stopped)

    assert session.done == 4
    assert session.training.warnings[-1] == stopped.digest()["why"]
    assert stopped.digest()["exact"] is False
    assert "seal.json is missing, so the settings may have" in stopped.digest()["why"]


@pytest.mark.parametrize(
    ("key", "then", "said"),
    [
        ("arithmetic", 1, "computed with Rookery's arithmetic version 1 (now 2)"),
        ("arithmetic", None, "Rookery's arithmetic version 1 (now 2)"),
        ("torch", "1.0", "computed with torch 1.0 (now "),
        ("numpy", "1.0", "computed with numpy 1.0 (now "),
        ("processor", "an abacus", "computed with processor an abacus (now "),
    ],
)
@pytest.mark.shows("F6")
def test_what_was_computed_otherwise_goes_on_with_one_warning_and_is_not_exact(
    key: str, then: Any, said: str, stopped: Run
) -> None:
    change_manifest(stopped, **{key: then})

    session = go_on(stopped)

    assert len([line for line in session.training.warnings if said in line]) == 1
    assert stopped.digest()["exact"] is False
    assert said in stopped.digest()["why"]
    assert not stopped.is_exact


def test_another_version_of_rookery_with_the_same_arithmetic_is_exact(
    stopped: Run,
) -> None:
    change_manifest(stopped, rookery="0.0.9")

    go_on(stopped)

    assert stopped.digest()["exact"]


def test_a_finished_run_stays_exact_wherever_it_is_resumed(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    change_manifest(run, processor="an abacus")

    go_on(run)

    assert run.digest()["exact"]


def test_every_checkpoint_names_seal_version_and_arithmetic(made: Run) -> None:
    seal = json.loads((made.path / "seal.json").read_text())
    for path in checkpoints_in(made.path / "checkpoints"):
        manifest = json.loads((path / "manifest.json").read_text())
        assert manifest["seal"] == seal["sum"]
        assert manifest["arithmetic"] == seal["begun"]["arithmetic"] == 2
        assert manifest["rookery"] == seal["begun"]["rookery"]
        assert manifest["inexact"] == ""


def test_a_checkpoint_says_that_it_is_not_exact_without_any_event(stopped: Run) -> None:
    (stopped.path / "seal.json").unlink()
    go_on(stopped)
    (stopped.path / "events.jsonl").write_text("")  # as if the disk had been full

    assert stopped.digest()["exact"] is False


def test_a_run_whose_settings_were_edited_after_its_end_is_not_called_exact(
    tmp_path: Path,
) -> None:
    run = train(tmp_path / "run")
    edit(run.path / "config.toml", "seed = 0", "seed = 1")

    found = Run(run.path).digest()

    assert found["exact"] is False
    assert (
        found["why"] == "config.toml has changed since the run began: seed was 0 and is 1."
    )


def test_a_game_of_ones_own_that_was_changed_goes_on_and_is_not_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FILES / "faulty.py", "rooms.py")
    name, chosen = "./rooms.py:Rooms", {**SETTINGS, "agents": {}, "game.agents": 2}
    session = session_at(name, Path("run"), **chosen)
    stop_after(session, 2)
    with Path("rooms.py").open("a") as file:
        file.write("# mended\n")

    run = rookery.resume("run", name)

    assert run.digest()["exact"] is False
    assert "./rooms.py is not the file that the run began with, and" in run.digest()["why"]


def test_an_agent_that_starts_anew_from_changed_weights_is_refused(tmp_path: Path) -> None:
    origin = train(tmp_path / "origin")
    chosen = {"agents": {"0": {"from": f"{origin.path}:0"}}}
    session = session_of(tmp_path / "run", **chosen)
    session.training.close()  # as if it had been killed before its first round
    session._lock.close()
    other = train(tmp_path / "other", seed=5)
    for path in (other.path / "weights").iterdir():
        shutil.copy(path, origin.path / "weights")

    with pytest.raises(ConfigError, match="what agent '0' starts from has changed since"):
        go_on(Run(tmp_path / "run"))


def test_agents_start_from_those_of_the_same_ids_in_another_run(tmp_path: Path) -> None:
    origin = train(tmp_path / "origin", agents={})
    every = {"agents": {"*": {"from": str(origin.path)}}}
    each = {"agents": {i: {"from": f"{origin.path}:{i}@4"} for i in ("0", "1")}}

    found = train(tmp_path / "every", **every), train(tmp_path / "each", **each)

    assert found[0].digest()["run"] == found[1].digest()["run"]
    assert found[0].digest()["run"] != origin.digest()["run"]

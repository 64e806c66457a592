"""The seal: a run that is resumed with changes is refused, or marked as not exact."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import ConfigError
from rookery.runs.changeable import is_changeable
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.stop import Stopped
from rookery.storage.checkpoints import checkpoints_in, sum_of_manifest
from rookery.training.training import Round
from tests.scenarios.conftest import FILES
from tests.scenarios.conftest import session_of as session_at
from tests.small import SETTINGS, session_of, train


def stop_after(session: Session, rounds: int) -> None:
    """Train some rounds."""

    def stop(result: Round) -> None:
        if result.number == rounds:
            session.training.parts.stop.signal = 2

    with pytest.raises(Stopped):
        session.run(stop)


def stopped_at(folder: Path, rounds: int, **settings: Any) -> Run:
    """Return a tiny run that was stopped after some rounds."""
    stop_after(session_of(folder, **settings), rounds)
    return Run(folder)


def resume(run: Run, *overrides: str) -> Session:
    fresh = Run(run.path)
    session = Session(fresh.entry, resumed_config(fresh, overrides), run.path, resume=True)
    session.run(lambda result: None)
    return session


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def change_manifest(run: Run, **changes: Any) -> None:
    """Change entries of the newest checkpoint's manifest; None removes one."""
    path = checkpoints_in(run.path / "checkpoints")[0] / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    manifest = {key: value for key, value in manifest.items() if value is not None}
    path.write_text(json.dumps(manifest | {"sum": sum_of_manifest(manifest)}))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("unbroken") / "run")


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stopped_at(tmp_path_factory.mktemp("made") / "run", 2)


@pytest.fixture
def stopped(stopped_run: Run, tmp_path: Path) -> Run:
    shutil.copytree(stopped_run.path, tmp_path / "run")
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
        resume(stopped)

    message, now = str(refused.value), new.rpartition("= ")[2].replace('"', "'")
    assert f"config.toml has changed since the run started: {key} was " in message
    remedy = f"Put it back, and change it on resume: rookery resume {stopped.path} "
    remedy += f"{key}={now}"
    if not is_changeable(key):
        remedy = "Put it back, or start a new run from these agents: rookery train … "
        remedy += f"'agents.\"*\".from={stopped.path}'"
    assert message.endswith(f" and is {now}. {remedy}")
    assert "\n" not in message


def test_all_edited_settings_are_reported_at_once(stopped: Run) -> None:
    config = stopped.path / "config.toml"
    edit(config, "seed = 0", "seed = 7")
    edit(config, 'player = "random"', "learning = false")

    with pytest.raises(ConfigError) as refused:
        resume(stopped)

    message = str(refused.value)
    assert "seed was 0 and is 7; agents.1.player was 'random' and is as for all" in message
    assert "agents.1.learning was as for all agents and is false" in message


def test_comments_order_and_another_way_to_set_the_same_are_not_changes(
    stopped: Run, unbroken: Run
) -> None:
    config = stopped.path / "config.toml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith("#")]
    more = ['[agents."*"]', "learning_rate = 5e-4", '[agents."[1]"]', "frames = 1"]
    config.write_text("\n".join([*kept, *more]))

    resume(stopped)

    assert stopped.digest() == unbroken.digest()
    assert stopped.digest()["exact"]


def test_settings_that_can_be_changed_on_resume_are_not_sealed(
    stopped: Run, unbroken: Run
) -> None:
    edit(stopped.path / "config.toml", "silence = 60.0", "silence = 70.0")

    resume(stopped, "workers=0", "checkpoints.keep=3", "checkpoints.replay=false")

    assert stopped.digest() == unbroken.digest()


def test_with_memory_on_disk_an_edited_setting_is_refused_too(tmp_path: Path) -> None:
    run = stopped_at(tmp_path / "run", 2, storage="disk")
    edit(run.path / "config.toml", "learning_rate = 0.0005", "learning_rate = 0.01")

    with pytest.raises(ConfigError, match=r"learning_rate was 0\.0005 and is 0\.01"):
        resume(run)


def test_a_setting_that_did_not_exist_when_a_run_started_is_not_a_change(
    stopped: Run,
) -> None:
    path = stopped.path / "seal.json"
    seal = json.loads(path.read_text())
    del seal["settings"]["iqn.gap"]
    path.write_text(json.dumps(seal | {"sum": sum_of_manifest(seal)}))
    change_manifest(stopped, seal=sum_of_manifest(seal))
    edit(stopped.path / "config.toml", "gap = 0.0", "gap = 0.5")

    with pytest.raises(ConfigError, match=r"iqn.gap was unset and is 0\.5"):
        resume(stopped)
    edit(stopped.path / "config.toml", "gap = 0.5", "")
    resume(stopped)

    assert stopped.digest()["exact"]


@pytest.mark.parametrize("damage", ["edited", "torn", "of another run"])
def test_a_seal_other_than_the_one_the_run_started_with_is_refused(
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
        resume(stopped)


def test_without_its_seal_a_run_continues_and_is_not_exact(stopped: Run) -> None:
    (stopped.path / "seal.json").unlink()

    session = resume(stopped)

    assert session.done == 4
    assert session.training.warnings[-1] == stopped.digest()["why"]
    assert stopped.digest()["exact"] is False
    assert "seal.json is missing, so the settings may have" in stopped.digest()["why"]


@pytest.mark.parametrize(
    ("key", "recorded", "message"),
    [
        ("arithmetic", 1, "computed with Rookery's arithmetic version 1 (now 3)"),
        ("arithmetic", None, "Rookery's arithmetic version 1 (now 3)"),
        ("torch", "1.0", "computed with torch 1.0 (now "),
        ("numpy", "1.0", "computed with numpy 1.0 (now "),
        ("bits", "0123", "computed with other bits, on "),
    ],
)
@pytest.mark.shows("F6")
def test_a_run_continued_with_other_software_gets_one_warning_and_is_not_exact(
    key: str, recorded: Any, message: str, stopped: Run
) -> None:
    change_manifest(stopped, **{key: recorded})

    session = resume(stopped)

    assert len([line for line in session.training.warnings if message in line]) == 1
    assert stopped.digest()["exact"] is False
    assert message in stopped.digest()["why"]
    assert not stopped.is_exact


def test_another_processor_with_the_same_bits_is_exact(stopped: Run) -> None:
    change_manifest(stopped, processor="an abacus")

    resume(stopped)

    assert stopped.digest()["exact"]


def test_another_processor_is_not_exact_if_no_bits_were_recorded(stopped: Run) -> None:
    change_manifest(stopped, processor="an abacus", bits=None)

    resume(stopped)

    assert "computed with other bits, on an abacus (now " in stopped.digest()["why"]


def test_another_version_of_rookery_with_the_same_arithmetic_is_exact(
    stopped: Run,
) -> None:
    change_manifest(stopped, rookery="0.0.9")

    resume(stopped)

    assert stopped.digest()["exact"]


def test_a_finished_run_stays_exact_wherever_it_is_resumed(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    change_manifest(run, bits="0123")

    resume(run)

    assert run.digest()["exact"]


def test_every_checkpoint_names_seal_version_and_arithmetic(stopped_run: Run) -> None:
    seal = json.loads((stopped_run.path / "seal.json").read_text())
    for path in checkpoints_in(stopped_run.path / "checkpoints"):
        manifest = json.loads((path / "manifest.json").read_text())
        assert manifest["seal"] == seal["sum"]
        assert manifest["arithmetic"] == seal["begun"]["arithmetic"] == 3
        assert manifest["rookery"] == seal["begun"]["rookery"]
        assert manifest["inexact"] == ""


def test_a_checkpoint_records_that_it_is_not_exact_even_without_events(
    stopped: Run,
) -> None:
    (stopped.path / "seal.json").unlink()
    resume(stopped)
    (stopped.path / "events.jsonl").write_text("")  # as if the disk had been full

    assert stopped.digest()["exact"] is False


def test_a_run_whose_settings_were_edited_after_its_end_is_not_exact(
    tmp_path: Path,
) -> None:
    run = train(tmp_path / "run")
    edit(run.path / "config.toml", "seed = 0", "seed = 1")

    digest = Run(run.path).digest()

    assert digest["exact"] is False
    assert (
        digest["why"]
        == "config.toml has changed since the run started: seed was 0 and is 1."
    )


def test_a_run_whose_game_file_was_changed_continues_and_is_not_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(FILES / "faulty.py", "rooms.py")
    name, settings = "./rooms.py:Rooms", {**SETTINGS, "agents": {}, "game.agents": 2}
    session = session_at(name, Path("run"), **settings)
    stop_after(session, 2)
    with Path("rooms.py").open("a") as file:
        file.write("# mended\n")

    run = rookery.resume("run", name)

    assert run.digest()["exact"] is False
    assert (
        "./rooms.py is not the file that the run started with, and" in run.digest()["why"]
    )


def test_an_agent_that_starts_again_from_changed_weights_is_refused(tmp_path: Path) -> None:
    origin = train(tmp_path / "origin")
    settings = {"agents": {"0": {"from": f"{origin.path}:0"}}}
    session = session_of(tmp_path / "run", **settings)
    session.training.close()  # as if it had been killed before its first round
    session._claim.close()
    other = train(tmp_path / "other", seed=5)
    for path in (other.path / "weights").iterdir():
        shutil.copy(path, origin.path / "weights")

    with pytest.raises(ConfigError, match="what agent '0' starts from has changed since"):
        resume(Run(tmp_path / "run"))


def test_agents_start_from_those_of_the_same_ids_in_another_run(tmp_path: Path) -> None:
    origin = train(tmp_path / "origin", agents={})
    by_pattern = {"agents": {"*": {"from": str(origin.path)}}}
    by_id = {"agents": {i: {"from": f"{origin.path}:{i}@4"} for i in ("0", "1")}}

    runs = train(tmp_path / "every", **by_pattern), train(tmp_path / "each", **by_id)

    assert runs[0].digest()["run"] == runs[1].digest()["run"]
    assert runs[0].digest()["run"] != origin.digest()["run"]

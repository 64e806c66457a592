"""Several seeds of one run are a sweep with a single group, also those of before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import ConfigError
from rookery.runs.changes import CHANGES
from rookery.runs.folder import SEEDS, SWEEP
from rookery.stop import StopFlag
from rookery.storage.summed_json import write_with_checksum
from rookery.sweeps.cells import WAITING, state_of
from rookery.sweeps.plan import Plan, read_plan
from rookery.sweeps.trust import Named
from rookery.sweeps.work import open_cell, work
from tests.scenarios.conftest import wait_for
from tests.small import GAME, SETTINGS, overrides

FAST = {**SETTINGS, "agents": {}}
MINE = """
from rookery.games.builtin.matrix import IteratedChicken


class Mine(IteratedChicken):
    pass
"""
PROBE = """
def ask(players, game):
    return {"one": 1.0}
"""


def train(folder: Path, seeds: object = "0..1", game: str = GAME, **settings: Any) -> None:
    """Train some seeds one by one in this process."""
    called = {"seeds": seeds, "callback": lambda result: None}
    rookery.train(game, run=folder, **called, **{**FAST, **settings})


def resume(folder: Path, **settings: Any) -> Any:
    """Resume all seeds or cells one by one in this process."""
    return rookery.resume(folder, callback=lambda result: None, **settings)


def digests(folder: Path, game: str | None = None) -> list[dict[str, Any]]:
    return [run.digest() for run in rookery.Run.seeds(folder, game)]


def rookery_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rookery", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100)


def test_seeds_are_a_sweep_that_the_commands_for_sweeps_know(tmp_path: Path) -> None:
    train(tmp_path / "many", "3..4")
    shutil.rmtree(tmp_path / "many" / "seed-4")

    plan = Plan(tmp_path / "many")
    assert [(cell.name, cell.label) for cell in plan.cells] == [
        ("seed-3", "seed 3"),
        ("seed-4", "seed 4"),
    ]
    assert state_of(plan, plan.cells[1]) == WAITING
    work(plan, StopFlag(), lambda event, cell, **details: None)

    train(tmp_path / "whole", "3..4")
    assert digests(tmp_path / "many") == digests(tmp_path / "whole")


@pytest.mark.processes
def test_a_sweep_of_several_combinations_is_resumed_and_trained_longer(
    tmp_path: Path,
) -> None:
    words = [x for x in overrides(FAST) if not x.startswith("agents")]
    axes = ["discount=0.5,0.9", "seeds=0..1"]
    sweep = ["sweep", GAME, *words, *axes, "--run"]
    assert rookery_command(*sweep, "sweep", cwd=tmp_path).returncode == 0
    shutil.rmtree(tmp_path / "sweep" / "discount=0.9" / "seed-1")

    ended = rookery_command("resume", "sweep", "rounds=6", "--json", cwd=tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert "changed: rounds 4 → 6." in ended.stderr
    assert "starting the remaining 1 cells" in ended.stderr
    names = [f"discount={x}/seed-{seed}" for seed in (0, 1) for x in (0.5, 0.9)]
    summary = json.loads(ended.stdout)
    assert summary["run"] == "sweep"
    assert {name: cell["rounds"] for name, cell in summary["cells"].items()} == (
        dict.fromkeys(names, 6)
    )
    for name in names:
        discount, seed = float(name[9:12]), int(name[-1])
        settings = {**FAST, "rounds": 6, "discount": discount, "seed": seed}
        alone = rookery.train(GAME, run=tmp_path / name.replace("/", "-"), **settings)
        assert rookery.digest(tmp_path / "sweep" / name) == rookery.digest(alone)


def test_the_folder_of_a_sweep_that_was_resumed_is_its_result(tmp_path: Path) -> None:
    train(tmp_path / "many")

    assert isinstance(resume(tmp_path / "many"), rookery.Runs)


@pytest.mark.processes
def test_two_commands_share_out_the_seeds_and_both_end_when_all_are_done(
    tmp_path: Path,
) -> None:
    train(tmp_path / "many", "0..3", rounds=2)
    longer = ["resume", "many", "rounds=200"]
    first = subprocess.Popen(
        [sys.executable, "-m", "rookery", *longer, "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: [*tmp_path.glob(f"many/seed-*/{CHANGES}")])
        second = rookery_command("resume", "many", "--json", cwd=tmp_path)
        printed, said = first.communicate(timeout=100)
    finally:
        first.kill()
        first.wait()

    assert (first.returncode, second.returncode) == (0, 0), said + second.stderr
    assert (said + second.stderr).count(" is done (") == 4
    for summary in (json.loads(printed), json.loads(second.stdout)):
        rounds = {seed: cell["rounds"] for seed, cell in summary["seeds"].items()}
        assert rounds == dict.fromkeys("0123", 200)
    for run in rookery.Run.seeds(tmp_path / "many"):
        lines = (run.path / "metrics.jsonl").read_text().count("\n")
        assert lines == 200  # nobody computed one again
        starts = (run.path / "events.jsonl").read_text().count('"event": "start"')
        assert starts == 2  # here, and by one of the two


def write_old_plan(folder: Path, **more: Any) -> None:
    """Replace the plan of some seeds by what earlier versions wrote."""
    content = read_plan(folder)
    (group,) = content["groups"]
    old = {"seeds": content["seeds"], "config": group["config"], "seal": group["seal"]}
    write_with_checksum(folder / SEEDS, {**old, **more})
    (folder / SWEEP).unlink()


@pytest.mark.parametrize("pending", [False, True])
def test_seeds_of_earlier_versions_are_resumed_with_the_changes_since(
    pending: bool, tmp_path: Path
) -> None:
    falling = {"rate.schedule": "linear"}
    train(tmp_path / "whole", rounds=7, **falling, **{"rate.rounds": 4})
    many = tmp_path / "many"
    train(many, **falling)
    rookery.resume(many / "seed-0", rounds=6)  # as such a version changed each seed
    if not pending:
        rookery.resume(many / "seed-0", rounds=7)
    shutil.rmtree(many / "seed-1")
    changes = [{"rounds": 6}, {"rounds": 7}]
    write_old_plan(many, changes=changes, **({"pending": True} if pending else {}))

    runs = resume(many)

    assert [run.config.rounds for run in runs] == [7, 7]
    assert digests(many) == digests(tmp_path / "whole")
    assert not (many / SEEDS).exists()
    assert read_plan(many)["seeds"] == [0, 1]


def test_an_old_plan_that_is_damaged_is_refused_with_what_to_do(tmp_path: Path) -> None:
    train(tmp_path / "many")
    write_old_plan(tmp_path / "many")
    file = tmp_path / "many" / SEEDS
    file.write_text(file.read_text().replace('"seeds"', '"sedes"'))

    with pytest.raises(ConfigError, match=r"seeds\.json is not what was written when the"):
        resume(tmp_path / "many")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("look.py").write_text(PROBE)
    return "./mine.py:Mine"


@pytest.mark.processes
def test_a_users_game_and_probe_must_be_named_again(mine: str) -> None:
    train(Path("many"), game=mine, probe={"code": "./look.py:ask", "every_rounds": 2})

    with pytest.raises(ConfigError, match=r"you trust this code, add: --game \./mine\.py"):
        rookery.resume("many", rounds=6, probe="./look.py:ask")
    with pytest.raises(ConfigError, match=r"`rookery resume`: probe\.code=\./look\.py"):
        rookery.resume("many", mine, rounds=6)
    arguments = ["rounds=6", "probe.code=./look.py:ask", "--game", mine, "--json"]
    ended = rookery_command("resume", "many", *arguments, cwd=Path.cwd())

    assert ended.returncode == 0, ended.stderr
    assert set(json.loads(ended.stdout)["seeds"]) == {"0", "1"}
    runs = rookery.Run.seeds("many", mine)
    assert [run.probes()["round"].tolist() for run in runs] == [[0, 2, 4, 6]] * 2


def test_a_seed_that_begins_after_a_users_file_has_changed_is_not_exact(mine: str) -> None:
    many = Path("many")
    train(many, game=mine)
    shutil.rmtree(many / "seed-1")
    Path("mine.py").write_text(MINE + "# changed\n")

    with pytest.warns(rookery.RookeryWarning, match=r"mine\.py is not the file that the"):
        resume(many, game=mine)

    first, second = digests(many, mine)
    assert (first["exact"], second["exact"]) == (True, False)
    assert "mine.py is not the file that the run started with" in second["why"]


def spoil(folder: Path, **more: Any) -> None:
    """Change a plan, and its checksum as well."""
    content = {**read_plan(folder), **more}
    write_with_checksum(folder / SWEEP, {k: v for k, v in content.items() if k != "sum"})


OUTSIDE: dict[str, Mapping[str, Any]] = {
    "a folder": {"folder": "../elsewhere"},
    "the parent": {"folder": ".."},
    "an absolute path": {"folder": "/tmp"},
}


@pytest.mark.parametrize("change", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_a_plan_cannot_name_folders_outside_its_own(
    change: Mapping[str, Any], tmp_path: Path
) -> None:
    train(tmp_path / "many")
    (group,) = read_plan(tmp_path / "many")["groups"]
    spoil(tmp_path / "many", groups=[{**group, **change}])

    with pytest.raises(ConfigError, match=r"sweep\.json is not what was written when"):
        Plan(tmp_path / "many")


def test_seeds_in_a_plan_are_numbers(tmp_path: Path) -> None:
    train(tmp_path / "many")
    spoil(tmp_path / "many", seeds=["../elsewhere"])

    with pytest.raises(ConfigError, match=r"sweep\.json is not what was written when"):
        Plan(tmp_path / "many")


def test_a_cell_that_is_a_link_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "many")
    (tmp_path / "many" / "seed-1").rename(tmp_path / "elsewhere")
    (tmp_path / "many" / "seed-1").symlink_to(tmp_path / "elsewhere")
    plan = Plan(tmp_path / "many")

    with pytest.raises(ConfigError, match="seed-1 is a link, and a sweep must not contain"):
        open_cell(plan, plan.cells[1], StopFlag())


def test_a_probe_that_only_a_change_in_the_plan_names_is_not_trusted(mine: str) -> None:
    many = Path("many")
    train(many)
    Path("evil.py").write_text("import pathlib; pathlib.Path('was-run').touch()\n")
    evil = {"probe": {"code": "./evil.py:ask"}}
    spoil(many, changes=[evil])
    plan = Plan(many, Named())

    with pytest.raises(ConfigError, match=r"names the probe '\./evil\.py:ask', which is"):
        open_cell(plan, plan.cells[0], StopFlag())

    assert not Path("was-run").exists()

"""`rookery sweep` and `rookery.sweep`: plan, train, look."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.api.sweep import sweep as sweep_of
from rookery.cli import app as cli
from rookery.stop import StopFlag
from rookery.storage.checkpoints import (
    MANIFEST,
    checkpoints_in,
    read_manifest,
    sum_of_manifest,
)
from rookery.sweeps import estimate
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.trust import Named
from rookery.sweeps.work import work
from tests.sweeps.conftest import (
    FIELD,
    SETTINGS,
    Command,
    digest_of,
    planned,
    words_of,
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Return a function that runs a command in this process."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            cli.main(["sweep", *arguments])
        printed = capsys.readouterr()
        return int(leaving.value.code or 0), printed.out, printed.err

    return run_command


def trained(folder: Path, *words: str, **changes: Any) -> Plan:
    plan = planned(folder, *words, **changes)
    work(plan, StopFlag(), lambda *what, **details: None)
    return plan


def edit_manifest(cell: Cell, **changes: str) -> None:
    """Let the newest checkpoint of a cell say something else."""
    path = checkpoints_in(cell.folder / "checkpoints")[0]
    manifest = {**read_manifest(path), **changes}
    manifest["sum"] = sum_of_manifest(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.processes
@pytest.mark.shows("E9")
def test_a_sweep_is_planned_trained_and_summed_up_by_one_command(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    words = words_of("worlds=1,2")
    arguments = ["seeds=0..1", "--json", "--run", "sweep"]
    assert command.run(FIELD, *words, *arguments) == 0, command.said

    result = json.loads(command.printed)
    assert (result["cells"], result["done"], result["left"]) == (4, 4, 0)
    assert set(result["summaries"]) == {
        f"worlds={worlds}/seed-{seed}" for worlds in (1, 2) for seed in (0, 1)
    }
    for cell in Plan(command.sweep, Named([FIELD])).cells:
        expected = undisturbed(cell.seed, worlds=cell.config.worlds)
        assert digest_of(cell.folder) == expected


def test_the_status_counts_cells_and_names_failed_ones(tmp_path: Path, run: Run) -> None:
    trained(Path("sweep"), "game.fails=true,false")
    arguments = ["status", "sweep", "--game", FIELD]

    code, printed, _ = run(*arguments, "--json")
    status = json.loads(printed)
    line = status["failures"].pop("fails=true/seed-0")
    assert line == status["failures"].pop("fails=true/seed-1")
    assert "ValueError: requested by a test" in line
    assert (code, status) == (
        0,
        {
            "sweep": "sweep",
            "cells": 4,
            "done": 2,
            "pruned": 0,
            "running": 0,
            "failed": 2,
            "stopped": 0,
            "waiting": 0,
            "left": 0,
            "failures": {},
            "unlike": {},
            "search": None,
        },
    )

    code, printed, _ = run(*arguments)
    assert code == 0
    assert printed.splitlines() == [
        "sweep: 4 cells: 2 done, 2 failed",
        f"fails=true/seed-0 failed: {line}",
        f"fails=true/seed-1 failed: {line}",
    ]


def test_cells_that_are_unlike_the_others_are_named_with_the_reason(
    tmp_path: Path, run: Run
) -> None:
    plan = trained(tmp_path / "sweep", seeds="0..2")
    edit_manifest(plan.cells[0], torch="1.0.0")
    edit_manifest(plan.cells[2], inexact="it continues without replays.")

    _, printed, _ = run("status", "sweep", "--game", FIELD)

    planned_with = plan.groups[0].seal["begun"]["torch"]
    assert printed.splitlines() == [
        "sweep: 3 cells: 3 done",
        "seed-0 is unlike the others: it was computed with torch 1.0.0 (planned with "
        f"{planned_with}).",
        "seed-2 is unlike the others: it continues without replays.",
    ]


def test_a_dry_run_counts_the_cells_times_one_and_writes_nothing(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "SECONDS", 0.2)
    words = [FIELD, *words_of("worlds=1..3"), "seeds=0..9", "--dry-run"]

    code, printed, _ = run(*words, "--json")
    result = json.loads(printed)
    assert code == 0
    assert (result["cells"], result["groups"], result["seeds"]) == (30, 3, 10)
    assert result["rounds"] == 12
    assert 0 < result["seconds_per_round"] < 1
    hours = 30 * 12 * result["seconds_per_round"] / 3600
    assert result["core_hours"] == pytest.approx(hours)
    assert 0 < result["hours_here"] <= result["core_hours"]

    code, printed, _ = run(*words)
    assert code == 0
    assert printed.startswith("30 cells (3 × 10 seeds), 12 rounds each\nabout ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_a_plan_in_a_file_is_trained_and_its_code_must_be_named(command: Command) -> None:
    lines = [f"games = {FIELD!r}", "seeds = [4, 7]", "[settings]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in SETTINGS.items() if k != "worlds"]
    lines += ["[[axes]]", "worlds = [1, 2]"]
    (command.folder / "plan.toml").write_text("\n".join(lines))

    assert command.run("--plan", "plan.toml", "--run", "sweep") == 2
    assert command.said == (
        f"error: plan.toml names {FIELD!r}, which is not a built-in game. If you trust "
        f"this code, add: --game {FIELD}\n"
    )
    assert not command.sweep.exists()

    arguments = ["--plan", "plan.toml", "--game", FIELD, "--run", "sweep"]
    assert command.run(*arguments) == 0, command.said
    assert "sweep: 4 cells: 4 done" in command.printed


ERRORS = {
    "no game": (["seeds=0..2"], "no game given: name one that `rookery games` lists."),
    "unknown game": (["taggg"], "unknown game 'taggg'"),
    "both": (
        ["tag", "--plan", "x.toml"],
        "'tag' and --plan were given: put everything into the file.",
    ),
    "no file": (["--plan", "x.toml"], "x.toml"),
    "no sweep": (["go", "nowhere"], "nowhere is not a sweep: it has no sweep.json."),
    "no status": (["status", "nowhere"], "nowhere is not a sweep"),
    "no cells": (["tag", "worlds=2,0"], "tag worlds=0: worlds must be at least 1"),
}


@pytest.mark.parametrize(("arguments", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_of_the_user_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, run: Run, tmp_path: Path
) -> None:
    code, printed, said = run(*arguments)

    assert (code, printed) == (2, "")
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert expected in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
def test_from_python_a_sweep_is_trained_and_the_same_call_goes_on_with_it(
    tmp_path: Path, undisturbed: Callable[..., str]
) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key != "worlds"}
    question: dict[str, Any] = {**settings, "vary": {"worlds": [1, 2]}, "seeds": range(2)}
    sweep_of(FIELD, run=tmp_path / "sweep", progress=False, **question)
    cells = Plan(tmp_path / "sweep", Named([FIELD])).cells
    checkpoint = checkpoints_in(cells[3].folder / "checkpoints")[0]
    checkpoint.rename(tmp_path / "lost")

    sweep_of(FIELD, run=tmp_path / "sweep", progress=False, **question)

    assert checkpoint.exists()
    for cell in cells:
        assert digest_of(cell.folder) == undisturbed(cell.seed, worlds=cell.config.worlds)


def test_python_and_the_command_line_plan_the_same(tmp_path: Path) -> None:
    from rookery.api.sweep import _axis
    from rookery.sweeps.axes import parse_axis

    assert _axis("worlds", [1, 2]) == parse_axis("worlds=1,2")
    tied = _axis(("worlds", "batch_size"), [(8, 32), (16, 64)])
    assert tied == parse_axis("worlds:batch_size=8:32,16:64")


@pytest.mark.parametrize(
    ("vary", "expected"),
    [
        ({"worlds": []}, "vary has no values for worlds: give some."),
        (
            {("worlds", "frames"): [(1, 2, 3)]},
            "vary has 3 values for worlds, frames: give one for each.",
        ),
    ],
)
def test_what_python_cannot_vary_is_refused(
    vary: Any, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(rookery.ConfigError) as refused:
        sweep_of("tag", vary=vary, run=tmp_path / "sweep")

    assert str(refused.value) == expected
    assert not (tmp_path / "sweep").exists()

"""Cells are computed again, and one that is not what it should be is found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rookery.cli import app as cli
from rookery.errors import ConfigError
from rookery.stop import StopFlag
from rookery.storage.arrays import sum_of
from rookery.storage.checkpoints import (
    MANIFEST,
    checkpoints_in,
    is_whole,
    sum_of_manifest,
)
from rookery.sweeps.plan import Cell, Plan
from rookery.sweeps.verify import choose, verify
from rookery.sweeps.work import work
from tests.sweeps.conftest import FIELD, planned


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    plan = planned(tmp_path / "sweep", seeds="0..2")
    work(plan, StopFlag(), lambda *what, **details: None)
    return plan


def weights_of(cell: Cell) -> Path:
    return checkpoints_in(cell.folder / "checkpoints")[0] / "agent-0.safetensors"


def tamper(cell: Cell) -> None:
    """Change one weight of a cell, and every checksum so that it seems whole."""
    file = weights_of(cell)
    arrays = load_file(file)
    weights = next(x for x in arrays.values() if x.dtype == np.float32 and x.size)
    weights.flat[0] += 1
    save_file(arrays, file)
    manifest = json.loads((file.parent / MANIFEST).read_text())
    with file.open("rb") as opened:
        manifest["files"][file.name] = [file.stat().st_size, sum_of(opened)]
    manifest["sum"] = sum_of_manifest(manifest)
    (file.parent / MANIFEST).write_text(json.dumps(manifest))
    assert is_whole(file.parent)


def run(capsys: pytest.CaptureFixture[str], plan: Plan, *more: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["sweep", "verify", str(plan.folder), "--game", FIELD, *more])
    printed = capsys.readouterr()
    return int(leaving.value.code or 0), printed.out, printed.err


@pytest.mark.shows("E9")
def test_cells_that_are_as_computed_have_the_same_bits(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, said = run(capsys, plan, "--cells", "3", "--json")

    assert code == 0
    verified = json.loads(printed)["verified"]
    assert [x["cell"] for x in verified] == [cell.name for cell in plan.cells]
    assert all(x["same"] and x["expected"] == x["computed"] for x in verified)
    assert len({x["computed"] for x in verified}) == 3
    assert said.count("the same bits (") == 3


@pytest.mark.shows("E9")
def test_a_cell_whose_weights_were_changed_is_found(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    tamper(plan.cells[1])

    code, printed, said = run(capsys, plan, "--json")

    assert code == 1
    same = [x["same"] for x in json.loads(printed)["verified"]]
    assert same == [True, False, True]
    assert "seed-1: OTHER bits (" in said


def test_a_damaged_cell_is_named_and_the_others_are_verified(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    file = weights_of(plan.cells[0])
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    code, _, said = run(capsys, plan)

    assert code == 1
    assert f"seed-0: DAMAGED: {file} is damaged" in said
    assert said.count("the same bits (") == 2


def test_some_random_cells_are_chosen_the_same_for_the_same_seed(plan: Plan) -> None:
    chosen = {seed: [c.name for c in choose(plan, 2, seed)] for seed in range(10)}

    assert all(len(names) == 2 for names in chosen.values())
    assert len({tuple(names) for names in chosen.values()}) == 3
    assert [c.name for c in choose(plan, 2, 0)] == chosen[0]
    assert len(choose(plan, 99, 0)) == 3


def test_nothing_of_a_verification_is_left(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    before = sorted(plan.folder.rglob("*"))

    results = list(verify(plan, plan.cells[:1], StopFlag()))

    assert [result.is_same for result in results] == [True]
    assert sorted(plan.folder.rglob("*")) == before
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_sweep_of_which_nothing_is_done_cannot_be_verified(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep")

    with pytest.raises(ConfigError, match=r"no cell of .* is done yet: nothing to verify"):
        choose(plan, 3, 0)

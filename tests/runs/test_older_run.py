"""A run folder of an earlier version opens, resumes and can be evaluated.

tests/fixtures/began was killed after round 8 of 16. Its files have the format that users
have on their disks.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import rookery
from rookery.cli.app import main
from rookery.runs.seal import DECIDES_BITS, machine
from tests.paths import RUN_FIXTURES

BEGAN = RUN_FIXTURES / "began"
DIGEST = "92182f68a6a054a5889672dc8f3aea68050a4c3a7f55d87564c685906340fc43"
FINISHED = "6bb07a716a0af77e02dd8bf80f9cb0471d22a2cd6414745e96c38d5a3e516106"
"""Its digest after round 16, on the machine that the folder was created on."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BEGAN, tmp_path / "began"))


def test_a_folder_of_an_earlier_version_opens_with_the_digest_it_had(folder: Path) -> None:
    run = rookery.Run(folder)

    assert run.digest()["run"] == DIGEST
    assert list(run.players()) == ["0", "1"]
    assert run.metrics()["round"].max() == 8


def test_a_folder_of_an_earlier_version_resumes_to_its_end(folder: Path) -> None:
    run = rookery.resume(folder)

    manifest = json.loads((BEGAN / "checkpoints" / "ckpt-8" / "manifest.json").read_text())
    now = machine(bits="")
    same = all(manifest.get(name) == now[name] for name in [*DECIDES_BITS, "processor"])
    assert run.metrics()["round"].max() == 16
    assert run.digest()["exact"] == same
    assert (run.digest()["run"] == FINISHED) or not same


def test_a_folder_of_an_earlier_version_can_be_evaluated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(folder), "evaluate.episodes=2", "worlds=2", "--json"])

    assert ended.value.code == 0
    assert set(json.loads(capsys.readouterr().out)["players"]) >= {"trained", "random"}

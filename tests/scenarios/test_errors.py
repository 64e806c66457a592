"""An error in another process is reported as if it had happened in this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rookery.cli import app as cli
from rookery.errors import ConfigError
from tests.scenarios.conftest import FILES, events, session_of
from tests.small import SMALL, overrides

pytestmark = pytest.mark.processes


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    return shutil.copy(FILES / "faulty.py", tmp_path)


def error_line(
    kind: str,
    workers: int,
    path: str,
    faults: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Return the last line of a run in which the game or a learner raises."""
    # It happens once, and must not happen where a machine's bits are computed.
    monkeypatch.setattr("rookery.training.training.bits_of", lambda *_: "")
    (faults / f"{kind}-raise").touch()
    settings = {**SMALL, "game.agents": 2, "algorithm": f"{path}:LinearQ"}
    folder = faults.parent / f"run-{workers}"
    with pytest.raises(SystemExit) as left:
        cli.main(
            [
                "train",
                f"{path}:Rooms",
                *overrides(settings),
                f"workers={workers}",
                "--run",
                str(folder),
            ]
        )
    assert left.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.shows("F6")
@pytest.mark.parametrize("kind", ["game", "learner"])
def test_an_error_in_another_process_gives_the_same_line_and_records_its_traceback(
    kind: str,
    faulty: str,
    faults: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = error_line(kind, 0, faulty, faults, capsys, monkeypatch)
    there = error_line(kind, 1, faulty, faults, capsys, monkeypatch)

    assert there == here
    assert "requested by a test" in here
    assert here.startswith("error: ")
    (death,) = events(faults.parent / "run-1", "death")
    assert death["role"] == {"game": "actor", "learner": "worker 0"}[kind]
    failure = json.loads((faults.parent / "run-1" / death["file"]).read_text())
    assert "faulty.py" in failure["traceback"]
    assert "ValueError: requested by a test" in failure["traceback"]
    records = (faults.parent / "run-1" / "failures").iterdir()
    assert [record.name for record in records] == [Path(death["file"]).name]


def test_a_users_file_that_changed_since_the_start_is_refused(
    faulty: str, tmp_path: Path
) -> None:
    settings = {**SMALL, "game.agents": 2}
    session = session_of(f"{faulty}:Rooms", tmp_path / "run", **settings, workers=1)
    Path(faulty).write_text(Path(faulty).read_text() + "\n# another game now\n")

    with pytest.raises(ConfigError, match=r"faulty\.py has changed since the run started"):
        session.run(lambda _: None)

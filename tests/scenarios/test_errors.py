"""What goes wrong in another process is told as if it were this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rookery.cli import app as cli
from rookery.errors import ConfigError
from tests.scenarios.conftest import FILES, SMALL, events, session_of

pytestmark = pytest.mark.processes


@pytest.fixture
def haunted(tmp_path: Path) -> str:
    return shutil.copy(FILES / "haunted.py", tmp_path)


def complaint(
    kind: str, workers: int, path: str, traps: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return the line that ends a run in which something raises."""
    (traps / f"{kind}-raise").touch()
    settings = {**SMALL, "game.agents": 2, "algorithm": f"{path}:LinearQ"}
    words = [f"{key}={value}" for key, value in settings.items()]
    folder = traps.parent / f"run-{workers}"
    with pytest.raises(SystemExit) as left:
        cli.main(
            ["train", f"{path}:Rooms", *words, f"workers={workers}", "--run", str(folder)]
        )
    assert left.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.shows("F6")
@pytest.mark.parametrize("kind", ["game", "learner"])
def test_an_error_in_another_process_is_the_same_line_and_leaves_its_traceback(
    kind: str, haunted: str, traps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = complaint(kind, 0, haunted, traps, capsys)
    there = complaint(kind, 1, haunted, traps, capsys)

    assert there == here
    assert "boo" in here
    assert here.startswith("error: ")
    (death,) = events(traps.parent / "run-1", "death")
    assert death["role"] == {"game": "actor", "learner": "worker 0"}[kind]
    failure = json.loads((traps.parent / "run-1" / death["file"]).read_text())
    assert "haunted.py" in failure["traceback"]
    assert "ValueError: boo" in failure["traceback"]
    records = (traps.parent / "run-1" / "failures").iterdir()
    assert [record.name for record in records] == [Path(death["file"]).name]


def test_a_users_file_that_changed_since_the_start_is_refused(
    haunted: str, tmp_path: Path
) -> None:
    settings = {**SMALL, "game.agents": 2}
    session = session_of(f"{haunted}:Rooms", tmp_path / "run", **settings, workers=1)
    Path(haunted).write_text(Path(haunted).read_text() + "\n# another game now\n")

    with pytest.raises(ConfigError, match=r"haunted\.py has changed since the run started"):
        session.run(lambda one: None)

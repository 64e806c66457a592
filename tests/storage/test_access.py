"""What one may not read or write is one line that names the file, and says what to do."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

import rookery
from rookery.cli.app import main
from tests.small import SETTINGS

NOBODY = 65534
COMMANDS = (
    ("evaluate", "evaluate.episodes=1"),
    ("replay",),
    ("digest",),
    ("health",),
    ("resume",),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run, and everything imported that its commands need.

    The interpreter's own files may be closed to others.
    """
    path = tmp_path_factory.mktemp("made") / "run"
    few = {key: value for key, value in SETTINGS.items() if key != "agents"}
    rookery.train("treasurehunt", run=path, game={"turns": 4}, **few)
    for command, *more in COMMANDS:
        with suppress(SystemExit):
            main([command, str(path), *more])
    return path


@pytest.fixture
def run(made: Path) -> Iterator[Path]:
    """A run of somebody else's, which everybody may read and nobody write."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        os.chmod(folder, 0o755)
        path = Path(folder) / "run"
        shutil.copytree(made, path)
        for one in [path, *path.rglob("*")]:
            one.chmod(0o555 if one.is_dir() else 0o444)
        yield path
        for one in [path, *path.rglob("*")]:
            one.chmod(one.stat().st_mode | stat.S_IRWXU)


def complaint(*words: str) -> str:
    """Return the only line that a command has for somebody to whom permissions apply."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_nobody(writer, words)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    (line,) = text.splitlines()
    assert os.waitstatus_to_exitcode(status) == 2
    return line


def _be_nobody(writer: int, words: Sequence[str]) -> None:
    code = 1
    try:
        sys.stderr = os.fdopen(writer, "w")
        if os.geteuid() == 0:  # to whom no permissions apply
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        main([*words])
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def test_a_replay_in_a_run_that_one_may_not_write_is_one_line(
    run: Path,
) -> None:
    line = complaint("replay", str(run))

    assert line.startswith(f"error: cannot write {run}/replays")
    assert "(Permission denied): make the folder writable, or choose another" in line


def test_going_on_with_a_run_that_one_may_not_write_is_one_line(
    run: Path,
) -> None:
    line = complaint("resume", str(run))

    assert line.startswith(f"error: cannot write {run}/")
    assert "(Permission denied): make the folder writable, or choose another" in line


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_a_folder_that_is_closed_to_others_is_one_line(command: str, run: Path) -> None:
    run.chmod(0o700 if os.geteuid() == 0 else 0)

    line = complaint(command, str(run))

    assert line == (
        f"error: cannot read {run}/config.toml (Permission denied): ask its owner for "
        "access, or change its permissions."
    )


CLOSED = {
    "evaluate": "metrics.jsonl",
    "digest": "events.jsonl",
    "health": "events.jsonl",
}


@pytest.mark.parametrize("command", CLOSED)
def test_a_file_that_is_closed_to_others_is_one_line(command: str, run: Path) -> None:
    (run / CLOSED[command]).chmod(0)

    line = complaint(command, str(run))

    assert line.startswith(
        f"error: cannot read {run / CLOSED[command]} (Permission denied)"
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [("digest", "checkpoints"), ("resume", "checkpoints"), ("evaluate", "weights")],
)
def test_a_closed_folder_of_checkpoints_or_weights_is_not_called_empty(
    command: str, name: str, run: Path
) -> None:
    (run / name).chmod(0)

    line = complaint(command, str(run))

    assert line.startswith(f"error: cannot read {run / name} (Permission denied): ask")


@pytest.mark.parametrize(
    ("command", "said"),
    [("evaluate", "xxx"), ("resume", "no such folder"), ("health", "no such folder")],
)
def test_a_name_that_no_file_can_have_is_one_line(command: str, said: str) -> None:
    assert said in complaint(command, "x" * 300)

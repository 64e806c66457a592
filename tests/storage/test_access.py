"""Files without permission: one line that names the file and says what to do."""

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

    Other users may not be able to read the interpreter's own files.
    """
    path = tmp_path_factory.mktemp("made") / "run"
    few = {key: value for key, value in SETTINGS.items() if key != "agents"}
    rookery.train("treasurehunt", run=path, game={"turns": 4}, **few)
    for command, *options in COMMANDS:
        with suppress(SystemExit):
            main([command, str(path), *options])
    return path


@pytest.fixture
def run(made: Path) -> Iterator[Path]:
    """A run of another user, which can be read but not written."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are private
        os.chmod(folder, 0o755)
        path = Path(folder) / "run"
        shutil.copytree(made, path)
        for entry in [path, *path.rglob("*")]:
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        yield path
        for entry in [path, *path.rglob("*")]:
            entry.chmod(entry.stat().st_mode | stat.S_IRWXU)


def complaint(*arguments: str) -> str:
    """Return the only line that a command prints for a user other than root."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_as_nobody(writer, arguments)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    (line,) = text.splitlines()
    assert os.waitstatus_to_exitcode(status) == 2
    return line


def _run_as_nobody(writer: int, arguments: Sequence[str]) -> None:
    code = 1
    try:
        sys.stderr = os.fdopen(writer, "w")
        if os.geteuid() == 0:  # root ignores permissions
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        main([*arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def test_a_replay_of_a_run_without_write_permission_is_one_line(
    run: Path,
) -> None:
    line = complaint("replay", str(run))

    assert line.startswith(f"error: cannot write {run}/replays")
    assert "(Permission denied): make the folder writable, or choose another" in line


def test_resuming_a_run_without_write_permission_is_one_line(
    run: Path,
) -> None:
    line = complaint("resume", str(run))

    assert line.startswith(f"error: cannot write {run}/")
    assert "(Permission denied): make the folder writable, or choose another" in line


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_a_folder_without_read_permission_is_one_line(command: str, run: Path) -> None:
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
def test_a_file_without_read_permission_is_one_line(command: str, run: Path) -> None:
    (run / CLOSED[command]).chmod(0)

    line = complaint(command, str(run))

    assert line.startswith(
        f"error: cannot read {run / CLOSED[command]} (Permission denied)"
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [("digest", "checkpoints"), ("resume", "checkpoints"), ("evaluate", "weights")],
)
def test_a_folder_of_checkpoints_or_weights_without_read_permission_is_not_called_empty(
    command: str, name: str, run: Path
) -> None:
    run.chmod(0o777)  # a run that is resumed is written to
    (run / name).chmod(0)

    line = complaint(command, str(run))

    assert line.startswith(f"error: cannot read {run / name} (Permission denied): ask")


@pytest.mark.parametrize(
    ("command", "message"),
    [("evaluate", "xxx"), ("resume", "no such folder"), ("health", "no such folder")],
)
def test_an_impossible_file_name_is_one_line(command: str, message: str) -> None:
    assert message in complaint(command, "x" * 300)

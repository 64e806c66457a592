"""Printing, and streams that are closed or full, do not affect a run."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rookery
from tests.scenarios.conftest import FILES
from tests.small import SMALL, overrides

pytestmark = pytest.mark.processes

TALKATIVE = f"{FILES / 'talkative.py'}:Rooms"
SETTINGS = {**SMALL, "game.agents": 2}
ARGUMENTS = overrides(SETTINGS)
ROOKERY = [sys.executable, "-m", "rookery"]
CLOSED = "<&- >&- 2>&-"


def shell(
    redirections: str, *command: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams as a shell redirects them."""
    arguments = ["sh", "-c", f'exec "$@" {redirections}', "sh", *command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=100, **options)


def digest_of(folder: Path) -> str:
    return rookery.Run(folder, TALKATIVE).digest()["run"]


@pytest.fixture
def broken() -> Iterator[int]:
    """A pipe whose reading end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize(
    ("redirections", "workers"),
    [(CLOSED, 1), (">/dev/full 2>/dev/full", 0)],
    ids=["closed", "full"],
)
def test_a_run_that_cannot_print_is_the_same_run(
    redirections: str, workers: int, tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    arguments = ["train", TALKATIVE, *ARGUMENTS, f"workers={workers}", "--run", "run"]

    ended = shell(redirections, *ROOKERY, *arguments, cwd=tmp_path)

    assert ended.returncode == 0
    assert digest_of(tmp_path / "run") == reference_digest(TALKATIVE, **SETTINGS)


def test_a_run_with_a_broken_pipe_is_the_same_run(
    tmp_path: Path, reference_digest: Callable[..., str], broken: int
) -> None:
    arguments = ["train", TALKATIVE, *ARGUMENTS, "workers=1", "--run", "run"]

    ended = subprocess.run(
        [*ROOKERY, *arguments], cwd=tmp_path, stdout=broken, stderr=broken, timeout=100
    )

    assert ended.returncode == 0
    assert digest_of(tmp_path / "run") == reference_digest(TALKATIVE, **SETTINGS)


def test_closed_streams_do_not_affect_a_run_from_python(
    tmp_path: Path, reference_digest: Callable[..., str]
) -> None:
    code = """
import json, os, sys
import rookery
game, settings = sys.argv[1], json.loads(sys.argv[2])
rookery.train(game, run="run", workers=0, **settings)
assert [os.readlink(f"/proc/self/fd/{i}") for i in range(3)] == ["/dev/null"] * 3
assert sys.stdout is sys.stderr is None
"""

    command = [sys.executable, "-c", code, TALKATIVE, json.dumps(SETTINGS)]
    ended = shell(CLOSED, *command, cwd=tmp_path)

    assert ended.returncode == 0
    assert digest_of(tmp_path / "run") == reference_digest(TALKATIVE, **SETTINGS)


def test_too_few_open_files_are_an_error_of_one_line(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", *ROOKERY, "train", TALKATIVE]

    ended = subprocess.run(
        [*command, *ARGUMENTS], cwd=tmp_path, capture_output=True, text=True
    )

    assert ended.returncode == 2
    assert ended.stderr.startswith("error: the run needs ")
    assert ended.stderr.endswith(
        "open files, about four per agent, but the system allows 12: train fewer agents, "
        "or raise the limit (`ulimit -Hn`).\n"
    )
    assert ended.stderr.count("\n") == 1


def test_a_terminal_shows_ids_as_they_are_and_commands_that_can_be_pasted(
    tmp_path: Path,
) -> None:
    shutil.copy(FILES.parents[1] / "games/files/brackets.py", tmp_path / "a game.py")
    small = overrides(SMALL)
    arguments = [
        "train",
        "pettingzoo:./a game.py:Two",
        *small,
        "workers=0",
        "--run",
        "a run",
    ]
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [*ROOKERY, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    ) as process:
        os.close(terminal)
        shown = read_terminal(main)
        printed, _ = process.communicate(timeout=100)

    assert process.returncode == 0
    assert {"[/x]", "[red]:smile:"} <= set(shown.split())
    again = "'a run' --game 'pettingzoo:./a game.py:Two'"
    assert f"Next: rookery evaluate {again}   rookery replay {again}\n" in printed


def read_terminal(main: int) -> str:
    """Return everything written to a terminal until it is closed."""
    shown = b""
    try:
        while data := os.read(main, 2**16):
            shown += data
    except OSError:  # Linux reports the end this way
        pass
    finally:
        os.close(main)
    return shown.decode()

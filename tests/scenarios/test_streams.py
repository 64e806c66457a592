"""Nothing that is printed, and nowhere it is printed to, touches a run."""

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
from tests.scenarios.conftest import FILES, SMALL

pytestmark = pytest.mark.processes

TALKATIVE = f"{FILES / 'talkative.py'}:Rooms"
SETTINGS = {**SMALL, "game.agents": 2}
WORDS = [f"{key}={value}" for key, value in SETTINGS.items()]
ROOKERY = [sys.executable, "-m", "rookery"]
CLOSED = "<&- >&- 2>&-"


def shell(
    redirections: str, *command: str, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams as a shell redirects them."""
    words = ["sh", "-c", f'exec "$@" {redirections}', "sh", *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=100, **more)


def digest_of(folder: Path) -> str:
    return rookery.Run(folder, TALKATIVE).digest()["run"]


@pytest.fixture
def broken() -> Iterator[int]:
    """A pipe whose reader has left."""
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
    redirections: str, workers: int, tmp_path: Path, alone: Callable[..., str]
) -> None:
    words = ["train", TALKATIVE, *WORDS, f"workers={workers}", "--run", "run"]

    ended = shell(redirections, *ROOKERY, *words, cwd=tmp_path)

    assert ended.returncode == 0
    assert digest_of(tmp_path / "run") == alone(TALKATIVE, **SETTINGS)


def test_a_run_whose_reader_has_left_ends_well_and_is_the_same_run(
    tmp_path: Path, alone: Callable[..., str], broken: int
) -> None:
    words = ["train", TALKATIVE, *WORDS, "workers=1", "--run", "run"]

    ended = subprocess.run(
        [*ROOKERY, *words], cwd=tmp_path, stdout=broken, stderr=broken, timeout=100
    )

    assert ended.returncode == 0
    assert digest_of(tmp_path / "run") == alone(TALKATIVE, **SETTINGS)


def test_closed_streams_do_not_touch_a_run_from_python(
    tmp_path: Path, alone: Callable[..., str]
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
    assert digest_of(tmp_path / "run") == alone(TALKATIVE, **SETTINGS)


def test_too_few_open_files_are_one_line(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", *ROOKERY, "train", TALKATIVE]

    ended = subprocess.run([*command, *WORDS], cwd=tmp_path, capture_output=True, text=True)

    assert ended.returncode == 2
    assert ended.stderr == (
        "error: only 12 files can be open at a time: raise the limit, for "
        "example with `ulimit -n 1024`.\n"
    )


def test_a_terminal_shows_ids_as_they_are_and_commands_that_can_be_pasted(
    tmp_path: Path,
) -> None:
    shutil.copy(FILES.parents[1] / "games/files/brackets.py", tmp_path / "a game.py")
    small = [word for word in WORDS if not word.startswith("game.")]
    words = ["train", "pettingzoo:./a game.py:Two", *small, "workers=0", "--run", "a run"]
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [*ROOKERY, *words],
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
    """Return all that is written to a terminal until its last user has gone."""
    shown = b""
    try:
        while more := os.read(main, 2**16):
            shown += more
    except OSError:  # how Linux says that nobody is left
        pass
    finally:
        os.close(main)
    return shown.decode()
